"""Changes that were announced before they came to the main branch, as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.shapes import VISIBLE, Asked, Moment, Page, Shape

FullSha = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


class AnnouncementShape(Shape):
    """``commit`` brought the change at ``arrived_at``; ``source`` is where it was announced."""

    commit: str
    match: str
    change: float
    reason: str
    source: str
    told_by: str
    told_at: datetime
    arrived_at: datetime | None = None


class AnnouncementPage(Page):
    items: tuple[AnnouncementShape, ...]


class NewAnnouncement(Asked):
    """``match`` names a metric, a benchmark or both, with ``*``; ``change`` is that of the value: 0.03 is 3 % more."""

    match: Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE)]
    change: Annotated[float, Field(ge=-10_000, le=10_000)]
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE)]


class NewAnnouncements(Asked):
    """What ``source`` (a pull request such as ``#12``) announced of the commit that it became."""

    commit: FullSha
    source: Annotated[str, Field(min_length=1, max_length=100, pattern=VISIBLE)]
    arrived_at: Moment | None = None
    items: Annotated[tuple[NewAnnouncement, ...], Field(min_length=1, max_length=20)]


class AnnouncementsKept(Shape):
    """How many of them nobody told before."""

    kept: int
