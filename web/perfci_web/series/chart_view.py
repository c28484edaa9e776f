"""The state of a chart as the query of an address has it, the links that change it, and its JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, get_args

from perfci.number_format import format_day, format_signed_percent
from perfci.report.charts.drawn_trend import ChartView
from perfci.report.charts.plotly_figure import build_plotly_figure
from perfci.report.charts.scene import Scene, SceneDot, XKind, YKind
from perfci.report.series_trend import Trend
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import status_label

X_KEY, Y_KEY, FIRST_KEY, LAST_KEY, PIN_KEY, OVERLAY_KEY = "x", "y", "from", "to", "pin", "overlay"

VIEW_KEYS = (X_KEY, Y_KEY, FIRST_KEY, LAST_KEY, PIN_KEY, OVERLAY_KEY)
"""Keys of a query that say how a chart is looked at, not of what."""

RANGE_DAYS = {"30 d": 30, "90 d": 90, "1 y": 365}

Y_LABELS: Mapping[YKind, str] = {"auto": "auto", "zero": "from 0", "log": "log", "ratio": "%"}
X_LABELS: Mapping[XKind, str] = {"commits": "commits", "date": "date"}

MIN_WIDTH, MIN_HEIGHT, MAX_LENGTH = 240, 200, 2000
WIDTH, HEIGHT, NARROW_HEIGHT, NARROW_BELOW = 840, 340, 320, 600

SHORT_SHA_LENGTH = 10
"""Characters of a sha in the address of a chart."""

SHA_PREFIX = re.compile(r"[0-9A-Za-z._+-]{4,64}")


@dataclass(frozen=True, slots=True)
class ViewLink:
    """A link that changes one thing of a chart's state."""

    label: str
    address: str
    key: str
    value: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class ViewControls:
    """The links above a chart."""

    ranges: tuple[ViewLink, ...]
    y_kinds: tuple[ViewLink, ...]
    x_kinds: tuple[ViewLink, ...]


def parse_chart_view(query: Mapping[str, str]) -> ChartView:
    """Read the view that a query asks for; what it does not say or misspells is the default."""
    x_kind, y_kind = query.get(X_KEY, ""), query.get(Y_KEY, "")
    width = _parse_length(query.get("width", ""), WIDTH, MIN_WIDTH)
    height = NARROW_HEIGHT if width < NARROW_BELOW else HEIGHT
    return ChartView(
        width=width,
        height=_parse_length(query.get("height", ""), height, MIN_HEIGHT),
        x_kind=next((kind for kind in get_args(XKind) if kind == x_kind), "commits"),
        y_kind=next((kind for kind in get_args(YKind) if kind == y_kind), "auto"),
        first_sha=parse_sha(query.get(FIRST_KEY, "")),
        last_sha=parse_sha(query.get(LAST_KEY, "")),
    )


def parse_sha(text: str) -> str:
    """A sha or the beginning of one; empty where it is none."""
    return text if SHA_PREFIX.fullmatch(text) else ""


def _parse_length(text: str, default: int, smallest: int) -> int:
    """A width or height in pixels, within what a picture can be."""
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else default
    return max(smallest, min(MAX_LENGTH, length))


def narrow(view: ChartView) -> ChartView:
    """The same view in the width of a phone."""
    return replace(view, width=358, height=NARROW_HEIGHT)


def view_query(query: Mapping[str, str]) -> dict[str, str]:
    """What of a query says how a chart is looked at."""
    return {key: query[key] for key in VIEW_KEYS if query.get(key)}


def build_view_controls(
    trend: Trend,
    view: ChartView,
    query: Mapping[str, str],
    address: Callable[..., str],
    y_labels: Mapping[YKind, str] = Y_LABELS,
) -> ViewControls:
    """Build the links above a chart; ``address`` makes one of a query, ``y_labels`` name its value axes."""
    state = view_query(query)

    def link(label: str, changes: Mapping[str, str], key: str, value: str, is_current: bool) -> ViewLink:
        return ViewLink(label, address(**{**state, **changes}), key, value, is_current)

    starts = _find_starts_of_ranges(trend)
    ranges = [
        link(
            label, {FIRST_KEY: sha, LAST_KEY: ""}, FIRST_KEY, sha, sha == view.first_sha and not view.last_sha
        )
        for label, sha in starts.items()
        if sha
    ]
    is_whole = not view.first_sha and not view.last_sha
    ranges.append(link("all", {FIRST_KEY: "", LAST_KEY: ""}, FIRST_KEY, "", is_whole))
    y_kinds = [
        link(label, {Y_KEY: "" if kind == "auto" else kind}, Y_KEY, kind, kind == view.y_kind)
        for kind, label in y_labels.items()
    ]
    x_kinds = [
        link(label, {X_KEY: "" if kind == "commits" else kind}, X_KEY, kind, kind == view.x_kind)
        for kind, label in X_LABELS.items()
    ]
    return ViewControls(tuple(ranges), tuple(y_kinds), tuple(x_kinds))


def _find_starts_of_ranges(trend: Trend) -> dict[str, str]:
    """The first commit of the last days of a series by the label of the range; empty where that is all of it,
    or less than two."""
    commits = trend.columns.commits
    dates = [commit.committed_at for commit in commits]
    newest = next((moment for moment in reversed(dates) if moment), None)
    starts = dict.fromkeys(RANGE_DAYS, "")
    if newest is None:
        return starts
    for label, days in RANGE_DAYS.items():
        begin = newest - timedelta(days)
        inside = [place for place, moment in enumerate(dates) if moment and moment >= begin]
        if 2 <= len(inside) < len(dates):
            starts[label] = commits[inside[0]].sha[:SHORT_SHA_LENGTH]
    return starts


def serialize_scene(
    scene: Scene,
    trends: Sequence[Trend],
    breaks: Collection[str] = (),
    notes: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The figure for plotly.js and what a reader sees of each dot; failures follow the dots.

    A commit of ``breaks`` is not compared with the one before it. ``notes`` are what people wrote at commits.
    """
    readers = [_DotReader(trend, breaks, notes) for trend in trends]
    points = [readers[dot.line].serialize_dot(dot) | {"line": dot.line} for dot in scene.dots]
    points += [readers[0].serialize_failure(failure.sha, failure.count) for failure in scene.failures]
    return {
        "figure": build_plotly_figure(scene),
        "points": points,
        "changes": sorted({flag.sha for flag in scene.flags if flag.state != "refuted"}),
        "lines": scene.lines,
        "caption": scene.caption,
        "description": scene.description,
        "x": scene.x_kind,
        "y": scene.y_kind,
    }


class _DotReader:
    """Says of the dots of one trend what a reader sees."""

    def __init__(self, trend: Trend, breaks: Collection[str], notes: Mapping[str, str]) -> None:
        self._trend, self._breaks, self._notes = trend, breaks, notes
        self._numbers = {commit.sha: number for number, commit in enumerate(trend.columns.commits)}
        self._marks = {mark.commit: mark for mark in trend.marks if mark.state != "refuted"}

    def serialize_dot(self, dot: SceneDot) -> dict[str, Any]:
        number = self._numbers[dot.sha]
        stored = self._trend.dots[number]
        previous = None if dot.sha in self._breaks else self._trend.find_measured_before(number)
        facts = [f"median of {dot.merged} commits" if dot.merged > 1 else ""]
        if mark := self._marks.get(dot.sha):
            facts.append(f"{format_signed_percent(mark.ratio - 1)} here")
        elif previous and previous.level and stored.level is not None and dot.merged == 1:
            change = format_signed_percent(stored.level / previous.level - 1)
            facts.append(f"{change} against the commit before")
        facts.append(self._format_note(dot.sha))
        text = dot.title.partition(" · ")[0].partition(" (")[0]
        ends = (dot.first_sha[:SHORT_SHA_LENGTH], dot.last_sha[:SHORT_SHA_LENGTH])
        return {
            **self._serialize_commit(stored),
            "text": text,
            "facts": ", ".join(filter(None, facts)),
            **(dict(zip(("first", "last"), ends, strict=True)) if dot.merged > 1 else {}),
        }

    def serialize_failure(self, sha: str, count: int) -> dict[str, Any]:
        stored = self._trend.dots[self._numbers[sha]]
        facts = [f"the last of {count} commits" if count > 1 else "", stored.reason, self._format_note(sha)]
        return {
            **self._serialize_commit(stored),
            "text": status_label(stored.status),
            "facts": ", ".join(filter(None, facts))[:300],
        }

    def _format_note(self, sha: str) -> str:
        return f"✎ {self._notes[sha][:200]}" if sha in self._notes else ""

    def _serialize_commit(self, dot: Dot) -> dict[str, Any]:
        commit = dot.commit
        moment = format_day(commit.committed_at) if commit.committed_at else ""
        return {
            "sha": commit.sha,
            "subject": commit.subject[:120],
            "by": ", ".join(filter(None, (commit.author[:60], moment))),
        }
