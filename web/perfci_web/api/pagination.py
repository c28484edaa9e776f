"""Where a list goes on: the number of the last row that was shown, which tells nobody anything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def parse_cursor(cursor: str | None) -> int:
    """The row after which the list goes on; 0 from its start."""
    return int(cursor or 0)


def format_cursor(row_id: int) -> str:
    return str(row_id)


def cut_page(rows: Sequence[T], limit: int, row_id: Callable[[T], int]) -> tuple[Sequence[T], str | None]:
    """Of ``limit + 1`` rows those to show, and the cursor of the next page where there is one more."""
    items = rows[:limit]
    return items, format_cursor(row_id(items[-1])) if len(rows) > limit else None
