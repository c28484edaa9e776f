"""API schemas of muted benchmarks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.api_schemas import (
    VISIBLE_LINE_PATTERN,
    Page,
    RequestShape,
    Shape,
)
from perfci.net.api_schemas.incidents import OptionalLine


class MutedBenchmarkShape(Shape):
    """A benchmark whose incidents notify nobody; an empty ``metric`` means all of its metrics."""

    benchmark: str
    metric: str
    rate: float
    reason: str
    since: datetime
    expires_at: datetime
    actor: str


class MutedBenchmarkPage(Page):
    items: tuple[MutedBenchmarkShape, ...]


BenchmarkName = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class MuteChange(RequestShape):
    """``days`` of 0 let the benchmark out again."""

    benchmark: BenchmarkName
    metric: Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE_LINE_PATTERN[:-2]}*$")] = ""
    reason: OptionalLine = ""
    days: Annotated[int, Field(ge=0, le=365)] = 30
