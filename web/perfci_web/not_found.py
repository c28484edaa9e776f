"""A page that does not exist, said helpfully: what was asked for, and what there is instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MIN_SIMILARITY = 0.4
MAX_SUGGESTIONS = 8


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something that does exist."""

    label: str
    address: str


class PageNotFound(Exception):
    """Answered with 404 and a page that offers what there is."""

    def __init__(
        self, text: str, suggestions: Iterable[Suggestion] = (), suggestions_title: str = ""
    ) -> None:
        super().__init__(text)
        self.text = text
        self.suggestions = tuple(suggestions)
        self.suggestions_title = suggestions_title


def closest_suggestions(requested_name: str, candidates: Sequence[Suggestion]) -> list[Suggestion]:
    """The offers whose names look most like what was asked for; the first ones where nothing does."""
    by_label = {offer.label: offer for offer in candidates}
    close = difflib.get_close_matches(requested_name, by_label, n=MAX_SUGGESTIONS, cutoff=MIN_SIMILARITY)
    return [by_label[label] for label in close] or list(by_label.values())[:MAX_SUGGESTIONS]
