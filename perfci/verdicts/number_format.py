"""Numbers as they are written in reasons."""

from __future__ import annotations


def format_percent_change(ratio: float) -> str:
    """How far a ratio is from 1."""
    return f"{ratio - 1:+.1%}"


def format_change(before: float, after: float) -> str:
    """Both numbers, with all their digits where fewer would look the same."""
    texts = [format_number(value) for value in (before, after)]
    return " became ".join(texts if texts[0] != texts[1] else map(repr, (before, after)))


def format_number(value: float) -> str:
    """A level in its own unit, which is not told."""
    return f"{value:,.10g}"
