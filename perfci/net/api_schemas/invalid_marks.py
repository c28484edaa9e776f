"""API schemas of marks on runs and points that are invalid."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.api_schemas import VISIBLE_LINE_PATTERN, Page, RequestShape, Shape

MarkReason = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class NewInvalidMark(RequestShape):
    reason: MarkReason


class InvalidMarkShape(Shape):
    """A run that is marked invalid, or with ``series`` the result of one series in it."""

    run: str
    commit: str
    series: str | None = None
    reason: str
    marked_by: str
    marked_at: datetime


class InvalidMarkPage(Page):
    items: tuple[InvalidMarkShape, ...]
