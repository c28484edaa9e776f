"""One description of a trend chart, from which both the SVG picture and the plotly figure are drawn.

Positions called ``x`` and ``y`` are in the units of the axes, those in ``SceneText`` and of the frame in
pixels of the picture. Axes are linear in these units: a logarithmic axis holds logarithms, a date axis days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

PositionT = TypeVar("PositionT", float, NDArray[np.float64])

Anchor = Literal["start", "middle", "end"]

SceneTone = Literal["ink", "muted", "worse", "better", "same"]

ZoneKind = Literal["environment", "blind", "candidates"]

XKind = Literal["commits", "date"]

YKind = Literal["auto", "zero", "log", "ratio"]


@dataclass(frozen=True, slots=True)
class SceneFrame:
    """The plot area in pixels of the picture, and the range of either axis that it spans."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x_at(self, x: PositionT) -> PositionT:
        """Map a position on the x axis to pixels."""
        return self.left + (self.right - self.left) * (x - self.x_low) / (self.x_high - self.x_low)

    def y_at(self, y: float) -> float:
        """Map a position on the y axis to pixels."""
        return self.bottom - (self.bottom - self.top) * (y - self.y_low) / (self.y_high - self.y_low)


@dataclass(frozen=True, slots=True)
class SceneText:
    """A text at a place in pixels; ``y`` is its baseline."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    tone: SceneTone = "muted"
    strong: bool = False


@dataclass(frozen=True, slots=True)
class SceneDot:
    """One commit, or several merged neighbours from ``first_sha`` to ``last_sha``, of one of the lines."""

    x: float
    y: float
    y_lo: float
    y_hi: float
    sha: str
    first_sha: str
    last_sha: str
    merged: int
    title: str
    line: int = 0
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class SceneBand:
    """The spread of neighbouring dots on one level."""

    x: tuple[float, ...]
    y_lo: tuple[float, ...]
    y_hi: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SceneSegment:
    """A straight piece of a level; ``riser`` joins two levels."""

    x0: float
    y0: float
    x1: float
    y1: float
    riser: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class SceneBar:
    """A bar of a waterfall; a ``hollow`` one is not confirmed."""

    x0: float
    x1: float
    y0: float
    y1: float
    tone: SceneTone
    hollow: bool
    title: str


@dataclass(frozen=True, slots=True)
class SceneZone:
    """A rectangle below the dots: an environment, what noise hides, or where a change must lie.

    Without ``y`` it is as high as the plot.
    """

    kind: ZoneKind
    x0: float
    x1: float
    y0: float | None = None
    y1: float | None = None
    tone: SceneTone = "muted"


@dataclass(frozen=True, slots=True)
class SceneFlag:
    """A change above the plot: it points the way the value moved and is solid once confirmed.

    ``stem_y`` is where its line down ends, ``x_last_good`` the commit before the change.
    """

    x: float
    x_last_good: float
    up: bool
    tone: SceneTone
    state: Literal["confirmed", "candidate", "refuted"]
    sha: str
    title: str
    stem_y: float | None


@dataclass(frozen=True, slots=True)
class SceneFailure:
    """One or several neighbouring commits without a value, in the lane below the axis."""

    x: float
    sha: str
    count: int
    skipped: bool
    title: str


@dataclass(frozen=True, slots=True)
class SceneMark:
    """A vertical mark: a changed environment, a break after which numbers are no longer comparable, or what
    somebody noted at a commit."""

    x: float
    text: str
    kind: Literal["environment", "break", "note"]


@dataclass(frozen=True, slots=True)
class Scene:
    """A trend chart, complete but for its colours.

    ``lines`` names the series where there are several. ``failures`` and ``unmeasured`` lie in the lane below
    the axis; ``caption`` says what of the series is drawn.
    """

    frame: SceneFrame
    name: str
    place: str
    description: str
    caption: str
    x_kind: XKind
    y_kind: YKind
    grid: tuple[float, ...] = ()
    x_ticks: tuple[float, ...] = ()
    texts: tuple[SceneText, ...] = ()
    zones: tuple[SceneZone, ...] = ()
    bands: tuple[SceneBand, ...] = ()
    segments: tuple[SceneSegment, ...] = ()
    dots: tuple[SceneDot, ...] = ()
    flags: tuple[SceneFlag, ...] = ()
    failures: tuple[SceneFailure, ...] = ()
    unmeasured: tuple[float, ...] = ()
    marks: tuple[SceneMark, ...] = ()
    lines: tuple[str, ...] = ()
    bars: tuple[SceneBar, ...] = ()

    @property
    def dot_radius(self) -> float:
        """The radius of a dot in pixels: smaller where they are many."""
        room = (self.frame.right - self.frame.left) * max(1, len(self.lines)) / max(1, len(self.dots))
        return 3.2 if room > 9 else 2.2
