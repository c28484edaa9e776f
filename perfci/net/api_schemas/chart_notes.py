"""API schemas of notes on charts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.api_schemas import VISIBLE_LINE_PATTERN, Page, RequestShape, Shape

NoteText = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class NewChartNote(RequestShape):
    """A note at a commit, given by its sha or the beginning of it.

    With ``series`` it is on the chart of that series, else on every chart of the project.
    """

    commit: Annotated[str, Field(min_length=4, max_length=64, pattern=r"^[0-9A-Za-z._+-]*$")]
    series: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    text: NoteText


class ChartNoteShape(Shape):
    """A note with who wrote it and when."""

    id: int
    commit: str
    series: str | None = None
    text: str
    author: str
    created_at: datetime


class ChartNotePage(Page):
    items: tuple[ChartNoteShape, ...]
