"""Series with their points, and what they hang on: commits, machines, environments."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from perfci.net.shapes import VISIBLE, Asked, Key, Moment, Page, Paged, Shape

Words = Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE[:-2]}*$")]
"""One line to search for, which may be empty."""
ShaPart = Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")]

MOST_POINTS = 2000
"""Points one answer holds; neighbours of a longer series are merged."""


class SeriesShape(Shape):
    """``id`` names the series in addresses and stays the same in every database."""

    id: Key
    benchmark: str
    version: str
    parameters: dict[str, str]
    metric: str
    unit: str
    direction: str
    machine: str
    variant: dict[str, str]
    harness: str


class SeriesFilter(Paged):
    benchmark: Words = ""
    metric: Words = ""


class SeriesPage(Page):
    items: tuple[SeriesShape, ...]


class PointShape(Shape):
    """One commit of a series, or ``merged`` neighbours; without a value, ``status`` and ``reason`` say why."""

    index: int
    commit: str
    subject: str = ""
    author: str = ""
    committed_at: datetime | None = None
    status: str
    value: float | None = None
    shown: str
    q25: float | None = None
    q75: float | None = None
    processes: int
    merged: int
    reason: str = ""


class LevelShape(Shape):
    first: int
    last: int
    value: float
    shown: str


class ChangeShape(Shape):
    """A commit where the level moved; ``state`` says how sure that is."""

    index: int
    last_good_index: int
    commit: str
    last_good: str
    ratio: float
    kind: str
    state: str


class PointsFilter(Asked):
    """``most`` merges neighbours down to about so many points; the dates are those of the commits."""

    most: Annotated[int, Field(ge=2, le=MOST_POINTS)] = 500
    since: Moment | None = None
    until: Moment | None = None


class SeriesPoints(Shape):
    series: SeriesShape
    sentence: str
    commits: int
    points: tuple[PointShape, ...]
    levels: tuple[LevelShape, ...]
    changes: tuple[ChangeShape, ...]


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


class CommitFilter(Paged):
    branch: Words = ""


class CommitPage(Page):
    items: tuple[CommitShape, ...]


class MachineShape(Shape):
    id: Key
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
    id: Key
    values: dict[str, str]


class EnvironmentPage(Page):
    items: tuple[EnvironmentShape, ...]
