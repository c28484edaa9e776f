"""API schemas of runs, series and their points, commits, machines and reporting schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from perfci.model import Direction
from perfci.net.api_schemas import (
    VISIBLE_LINE_PATTERN,
    AwareTimestamp,
    HexKey,
    Page,
    PageQuery,
    RequestShape,
    Shape,
)

SearchText = Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE_LINE_PATTERN[:-2]}*$")]
"""One line to search for, which may be empty."""
OptionalShaPrefix = Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")]

MAX_POINTS = 2000
"""Points one answer holds; neighbours of a longer series are merged."""


class SeriesShape(Shape):
    """``id`` names the series in addresses and stays the same in every database."""

    id: HexKey
    benchmark: str
    version: str
    parameters: dict[str, str]
    metric: str
    unit: str
    direction: str
    machine: str
    variant: dict[str, str]
    harness: str


class SeriesQuery(PageQuery):
    benchmark: SearchText = ""
    metric: SearchText = ""


class SeriesPage(Page):
    items: tuple[SeriesShape, ...]


class PointShape(Shape):
    """One commit of a series, or ``merged`` neighbours; ``status`` and ``reason`` explain a missing value."""

    index: int
    commit: str
    subject: str = ""
    author: str = ""
    committed_at: datetime | None = None
    status: str
    value: float | None = None
    value_text: str
    q25: float | None = None
    q75: float | None = None
    processes: int
    merged: int
    reason: str = ""


class SegmentShape(Shape):
    first: int
    last: int
    value: float
    value_text: str


class ChangePointShape(Shape):
    """A commit where the level moved; ``state`` says how sure that is."""

    index: int
    last_good_index: int
    commit: str
    last_good: str
    ratio: float
    kind: str
    state: str


class PointsQuery(RequestShape):
    """``max_points`` merges neighbours down to about so many points; the dates are those of the commits."""

    max_points: Annotated[int, Field(ge=2, le=MAX_POINTS)] = 500
    since: AwareTimestamp | None = None
    until: AwareTimestamp | None = None


class SeriesPointsShape(Shape):
    series: SeriesShape
    sentence: str
    commits: int
    points: tuple[PointShape, ...]
    levels: tuple[SegmentShape, ...]
    changes: tuple[ChangePointShape, ...]


class CommitShape(Shape):
    commit: str
    dirty: bool
    subject: str = ""
    author: str = ""
    committed_at: datetime | None = None
    parents: tuple[str, ...] = ()
    branch: str = ""
    tags: tuple[str, ...] = ()
    position: int | None = None


class CommitQuery(PageQuery):
    branch: SearchText = ""


class CommitPage(Page):
    items: tuple[CommitShape, ...]


class MachineShape(Shape):
    id: HexKey
    label: str
    cpu: str = ""
    cores: int | None = None
    memory_gb: int | None = None
    accelerator: str = ""
    accelerators: int = 0
    name: str = ""


class MachinePage(Page):
    items: tuple[MachineShape, ...]


class EnvironmentShape(Shape):
    id: HexKey
    values: dict[str, str]


class EnvironmentPage(Page):
    items: tuple[EnvironmentShape, ...]


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


class UnresolvedResultShape(Shape):
    """``raw_result`` is what the file says of it, ``reason`` what it does not say."""

    id: int
    run: HexKey
    format: str
    metric: str
    benchmark: str
    reason: str
    created_at: datetime
    raw_result: dict[str, Any]


class UnresolvedResultPage(Page):
    items: tuple[UnresolvedResultShape, ...]


class MetricMeaning(RequestShape):
    """What a metric means: said once, believed of all its results from that format."""

    unit: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
    direction: Direction


class ResolvedResults(Shape):
    """How many waiting results of that metric are judged now."""

    resolved: int


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
