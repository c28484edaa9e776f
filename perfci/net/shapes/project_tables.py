"""By what one project is judged, as it travels: the tables of ``perfci.toml`` that a server keeps for it."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from perfci.model import MetricClass
from perfci.net.shapes import VISIBLE_LINE_PATTERN, RequestShape

PatternText = Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)]
BarFraction = Annotated[float, Field(ge=0, lt=1)]
NoiseFloorValue = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class JudgeTableShape(RequestShape):
    """What is left out is as ``perfci.toml`` has it where it says nothing."""

    bar: Annotated[float, Field(gt=0, lt=1)] | None = None
    strict: bool | None = None
    max_pairs: Annotated[int, Field(ge=5, le=200)] | None = None


class HistoryTableShape(RequestShape):
    pages_per_week: Annotated[int, Field(ge=0, le=1000)] | None = None
    releases: Annotated[str, Field(max_length=100, pattern=VISIBLE_LINE_PATTERN)] | None = None
    canaries: Annotated[tuple[PatternText, ...], Field(max_length=50)] | None = None


class PolicyTableShape(RequestShape):
    """``match`` is a regular expression."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    match: PatternText
    bar: BarFraction | None = None
    floor: NoiseFloorValue | None = None
    floor_bytes: NoiseFloorValue | None = None
    metric_class: MetricClass | None = Field(default=None, alias="class")
    judge: bool | None = None


class ProjectTablesShape(RequestShape):
    """A table that is given stands in for the server's whole one; one that is not is the server's."""

    judge: JudgeTableShape | None = None
    history: HistoryTableShape | None = None
    policy: Annotated[tuple[PolicyTableShape, ...], Field(max_length=100)] | None = None
