"""Align the columns of a plain-text table."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def align_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left_aligned: frozenset[int] = frozenset({0})
) -> str:
    """Align the columns of a table by display width, and omit those that are empty in every row."""
    used = [k for k, heading in enumerate(headings) if any(row[k] for row in rows)]
    lines = [[line[k] for k in used] for line in (headings, *rows)]
    widths = [max(_display_width(line[k]) for line in lines) for k in range(len(used))]
    texts = []
    for line in lines:
        padded = []
        for column, width, cell in zip(used, widths, line, strict=True):
            space = " " * (width - _display_width(cell))
            padded.append(cell + space if column in left_aligned else space + cell)
        texts.append("  ".join(padded).rstrip())
    return "\n".join(texts)


def _display_width(text: str) -> int:
    """Count terminal columns: two for East Asian wide characters, none for combining marks."""
    width = 0
    for character in text:
        if not unicodedata.combining(character):
            width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width
