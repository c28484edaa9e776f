"""API schemas of results whose unit or direction is unknown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from perfci.model import Direction
from perfci.net.api_schemas import (
    HexKey,
    Page,
    RequestShape,
    Shape,
)


class UnresolvedResultShape(Shape):
    """``raw_result`` is what the file says of it, ``unit`` the unit there, ``reason`` what it lacks."""

    id: int
    run: HexKey
    format: str
    metric: str
    benchmark: str
    unit: str
    reason: str
    created_at: datetime
    raw_result: dict[str, Any]

    @property
    def unit_in_file(self) -> str:
        """The field ``unit``, as results that wait in a file or in the store name it."""
        return self.unit


class UnresolvedResultPage(Page):
    items: tuple[UnresolvedResultShape, ...]


class MetricMeaning(RequestShape):
    """What a metric of a benchmark means: said once, believed of all its results in that unit and format."""

    unit: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
    direction: Direction


class ResolvedResults(Shape):
    """How many waiting results of that metric are judged now."""

    resolved: int
