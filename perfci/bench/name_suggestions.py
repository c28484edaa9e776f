"""Suggest the name that somebody meant who wrote one which does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def format_name_suggestion(name: str, known_names: Iterable[str]) -> str:
    """``; did you mean 'stream'?`` to end a sentence with, or nothing where no known name is close."""
    close = difflib.get_close_matches(name, list(known_names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def format_suggestion_or_known_names(name: str, known_names: Iterable[str]) -> str:
    """The same, with the list of all known names where none is close."""
    known_names = list(known_names)
    return format_name_suggestion(name, known_names) or f"; known are {', '.join(known_names) or 'none'}"
