"""Cursors of paged lists: the id of the last row shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def parse_cursor(cursor: str | None) -> int:
    """Return the row id after which the page begins; 0 for the first page."""
    return int(cursor or 0)


def format_cursor(row_id: int) -> str:
    return str(row_id)


def cut_page(rows: Sequence[T], limit: int, row_id: Callable[[T], int]) -> tuple[Sequence[T], str | None]:
    """Return the first ``limit`` of ``limit + 1`` rows, and the cursor of the next page if there is one."""
    items = rows[:limit]
    return items, format_cursor(row_id(items[-1])) if len(rows) > limit else None
