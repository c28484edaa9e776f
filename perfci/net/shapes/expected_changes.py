"""Changes that were announced before they came to the main branch, as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.shapes import VISIBLE_LINE_PATTERN, AwareTimestamp, Page, RequestShape, Shape

FullSha = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


class ExpectedChangeShape(Shape):
    """``commit`` brought the change at ``arrived_at``; ``source`` is where it was announced."""

    commit: str
    match: str
    relative_change: float
    reason: str
    source: str
    recorded_by: str
    recorded_at: datetime
    merged_at: datetime | None = None


class ExpectedChangePage(Page):
    items: tuple[ExpectedChangeShape, ...]


class NewExpectedChange(RequestShape):
    """``match`` names a metric, a benchmark or both, with ``*``; ``change`` is that of the value: 0.03 is 3 %
    more.
    """

    match: Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)]
    relative_change: Annotated[float, Field(ge=-10_000, le=10_000)]
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class NewExpectedChanges(RequestShape):
    """What ``source`` (a pull request such as ``#12``) announced of the commit that it became."""

    commit: FullSha
    source: Annotated[str, Field(min_length=1, max_length=100, pattern=VISIBLE_LINE_PATTERN)]
    merged_at: AwareTimestamp | None = None
    items: Annotated[tuple[NewExpectedChange, ...], Field(min_length=1, max_length=20)]


class AddedExpectedChanges(Shape):
    """How many of them nobody told before."""

    added: int
