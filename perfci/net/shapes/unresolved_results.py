"""Results whose unit or direction nobody knows yet, as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from perfci.model import Direction
from perfci.net.shapes import Asked, Key, Page, Shape


class QuarantinedShape(Shape):
    """``found`` is what the file says of it, ``reason`` what it does not say."""

    id: int
    run: Key
    format: str
    metric: str
    benchmark: str
    reason: str
    created_at: datetime
    found: dict[str, Any]


class QuarantinedPage(Page):
    items: tuple[QuarantinedShape, ...]


class Meaning(Asked):
    """What a metric means: said once, believed of all its results from that format."""

    unit: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
    direction: Direction


class Resolved(Shape):
    """How many waiting results of that metric are judged now."""

    resolved: int
