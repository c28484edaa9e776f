"""Numbers as written in reasons."""

from __future__ import annotations


def format_percent_change(ratio: float) -> str:
    """Distance of a ratio from 1, in percent."""
    return f"{ratio - 1:+.1%}"


def format_change(before: float, after: float) -> str:
    """Both numbers, with all digits where fewer would look equal."""
    texts = [format_number(value) for value in (before, after)]
    return " became ".join(texts if texts[0] != texts[1] else map(repr, (before, after)))


def format_number(value: float) -> str:
    """A level in its own unit, without the unit."""
    return f"{value:,.10g}"
