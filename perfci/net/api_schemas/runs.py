"""API schemas of runs and their upload."""

from __future__ import annotations

from datetime import datetime

from perfci.net.api_schemas import (
    AwareTimestamp,
    HexKey,
    Page,
    PageQuery,
    Shape,
)
from perfci.net.api_schemas.series import OptionalShaPrefix, SearchText


class RunShape(Shape):
    """A run as a list shows it; the whole of it is a ``perfci.run/1`` document under its key."""

    key: str
    session: str
    kind: str
    commit: str
    dirty: bool
    machine: str
    suite: str
    harness: str
    started_at: datetime
    finished_at: datetime | None = None


class RunQuery(PageQuery):
    commit: OptionalShaPrefix = ""
    suite: SearchText = ""
    session: SearchText = ""
    since: AwareTimestamp | None = None
    until: AwareTimestamp | None = None


class RunPage(Page):
    items: tuple[RunShape, ...]


class UploadReceipt(Shape):
    """What became of an upload; ``stored`` is false where the same run with the same content was there
    already.
    """

    key: HexKey
    project: str
    stored: bool
    results: int
    samples: int
