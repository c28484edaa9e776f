"""API schemas of what monitoring reads: newest levels for Prometheus, points of many series for Grafana."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.api_schemas import AwareTimestamp, HexKey, RequestShape, Shape
from perfci.net.api_schemas.series import MAX_POINTS, SearchText

MAX_SCRAPED_SERIES, MAX_CHARTED_SERIES = 2000, 100
"""The most series of one answer to Prometheus, and to a chart."""


class LevelsQuery(RequestShape):
    """Which series Prometheus scrapes; those first seen come first."""

    benchmark: SearchText = ""
    metric: SearchText = ""
    limit: Annotated[int, Field(ge=1, le=MAX_SCRAPED_SERIES)] = 500


class ChartedPointsQuery(RequestShape):
    """Which points a chart shows: the dates are those of the commits, ``max_points`` keeps the newest of
    each series."""

    benchmark: SearchText = ""
    metric: SearchText = ""
    since: AwareTimestamp | None = None
    until: AwareTimestamp | None = None
    max_series: Annotated[int, Field(ge=1, le=MAX_CHARTED_SERIES)] = 20
    max_points: Annotated[int, Field(ge=1, le=MAX_POINTS)] = 500


class ChartedPointShape(Shape):
    """One commit of one series, without nested values; ``label`` tells the series of one answer apart."""

    committed_at: datetime
    value: float
    label: str
    series: HexKey
    benchmark: str
    parameters: str
    metric: str
    unit: str
    direction: str
    machine: str
    variant: str
    commit: str


class ChartedPointsShape(Shape):
    """Points of several series, oldest first; ``complete`` says whether these are all that matched."""

    items: tuple[ChartedPointShape, ...]
    complete: bool
