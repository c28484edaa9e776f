"""API schemas of reporting schedules: how often a suite reports."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.api_schemas import (
    RequestShape,
    Shape,
)


class ReportingScheduleShape(Shape):
    """``every_s`` is absent while too little is known; ``set_by`` is ``learned``, or who said it."""

    id: int
    suite: str
    machine: str
    branch: str
    set_by: str
    series_count: int
    muted: bool
    every_s: float | None = None
    last_run_at: datetime | None = None


class ReportingSchedulePage(Shape):
    items: tuple[ReportingScheduleShape, ...]


class ReportingScheduleChange(RequestShape):
    """What a person says of one; no ``every_s`` lets it be learned again, ``muted`` expects nothing."""

    id: Annotated[int, Field(ge=1, lt=2**63)]
    every_s: Annotated[float, Field(ge=60, le=366 * 86400)] | None = None
    muted: bool = False
