"""The 404 of pages, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MIN_SIMILARITY = 0.4
MAX_SUGGESTIONS = 8


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A link to an existing page."""

    label: str
    address: str


class PageNotFound(Exception):
    """Answered with 404 and a page of suggestions."""

    def __init__(
        self, text: str, suggestions: Iterable[Suggestion] = (), suggestions_title: str = ""
    ) -> None:
        super().__init__(text)
        self.text = text
        self.suggestions = tuple(suggestions)
        self.suggestions_title = suggestions_title


def closest_suggestions(requested_name: str, candidates: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the candidates with the most similar names, or the first ones if none is similar."""
    by_label = {candidate.label: candidate for candidate in candidates}
    close = difflib.get_close_matches(requested_name, by_label, n=MAX_SUGGESTIONS, cutoff=MIN_SIMILARITY)
    return [by_label[label] for label in close] or list(by_label.values())[:MAX_SUGGESTIONS]
