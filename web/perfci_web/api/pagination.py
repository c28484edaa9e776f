"""Pages of lists, each with a cursor to the next: the id of the last row shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from perfci.net.api_schemas import Shape
from perfci_web.api.operation import Reply

RowT = TypeVar("RowT")


def parse_cursor(cursor: str | None) -> int:
    """Return the row id after which the page begins; 0 for the first page."""
    return int(cursor or 0)


def build_page_reply(
    page_model: type[BaseModel],
    rows: Sequence[RowT],
    limit: int,
    row_id: Callable[[RowT], int],
    to_shape: Callable[[RowT], Shape],
    **fields: Any,
) -> Reply:
    """Return the first ``limit`` of ``limit + 1`` rows, and the cursor of the next page if there is one."""
    items = rows[:limit]
    next_cursor = str(row_id(items[-1])) if len(rows) > limit else None
    page = {**fields, "items": tuple(map(to_shape, items)), "next": next_cursor}
    return Reply(page_model.model_validate(page))
