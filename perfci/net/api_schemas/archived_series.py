"""API schemas of series that somebody archived."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, model_validator

from perfci.net.api_schemas import VISIBLE_LINE_PATTERN, HexKey, Page, RequestShape, Shape
from perfci.net.api_schemas.incidents import OptionalLine

ArchivedName = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class ArchiveChange(RequestShape):
    """One of ``series``, ``benchmark`` (its name) and ``machine`` (its label). Archiving needs a reason;
    ``archived`` of false brings the series back."""

    series: HexKey | None = None
    benchmark: ArchivedName | None = None
    machine: ArchivedName | None = None
    archived: bool = True
    reason: OptionalLine = ""

    @model_validator(mode="after")
    def _check(self) -> ArchiveChange:
        if sum(name is not None for name in (self.series, self.benchmark, self.machine)) != 1:
            raise ValueError("one of series, benchmark and machine is needed")
        if self.archived and not self.reason.strip():
            raise ValueError("archiving needs a reason")
        return self


class ArchiveResult(Shape):
    """How many series were archived, or brought back."""

    series: int


class ArchivedSeriesShape(Shape):
    """A series that somebody archived: it leaves lists, counts and incidents, its results stay."""

    series: HexKey
    benchmark: str
    parameters: dict[str, str]
    metric: str
    machine: str
    variant: str
    reason: str
    archived_by: str
    archived_at: datetime


class ArchivedSeriesPage(Page):
    items: tuple[ArchivedSeriesShape, ...]
