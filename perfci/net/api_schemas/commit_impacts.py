"""API schemas of impact: which commit moved which series."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from perfci.net.api_schemas import (
    Page,
    PageQuery,
    Shape,
)
from perfci.net.api_schemas.incidents import IncidentStateName, ShaPrefix


class ImpactQuery(PageQuery):
    """``effect`` asks for what got worse alone, or better alone."""

    commit: ShaPrefix | None = None
    effect: Literal["worse", "better"] | None = None


class CommitImpactShape(Shape):
    """This commit changed this series by so much; ``incident`` is the number of its incident."""

    commit: str
    series: dict[str, Any]
    sentence: str
    relative_change: float
    relative_change_interval: tuple[float, float] | None = None
    before: float
    after: float
    incident: int | None = None
    state: IncidentStateName | None = None
    accepted: bool
    recorded_at: datetime


class CommitImpactPage(Page):
    items: tuple[CommitImpactShape, ...]
