"""Short names of series; label, glyph and colour tone of verdicts (no meaning is in colour alone)."""

from __future__ import annotations

from typing import Literal

from perfci.model import Direction, Series, Stage, Status, Verdict, VerdictKind
from perfci.report.escaping import make_printable

Tone = Literal["worse", "better", "same", "unsure", "void"]
"""The colour tone of a verdict: vermilion, blue, grey, amber, or hollow grey."""

TONES: dict[VerdictKind, Tone] = {
    VerdictKind.REGRESSION: "worse",
    VerdictKind.IMPROVEMENT: "better",
    VerdictKind.UNCHANGED: "same",
    VerdictKind.INCONCLUSIVE: "unsure",
    VerdictKind.NOT_COMPARABLE: "void",
    VerdictKind.MISSING: "void",
    VerdictKind.FAILED: "worse",
}

GLYPHS = {
    VerdictKind.UNCHANGED: "≈",
    VerdictKind.INCONCLUSIVE: "?",
    VerdictKind.NOT_COMPARABLE: "≠",
    VerdictKind.MISSING: "○",
    VerdictKind.FAILED: "✕",
}

SELF_EVIDENT_METRICS = frozenset({"time", "cpu_time", "value", "memory", "peak_memory"})
"""Metric names omitted from series names, as the unit and the sentence already imply them."""

CHANGE_KINDS = frozenset({VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT})

QUIET_KINDS = frozenset({VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE})
"""Kinds that need no action, which lists of verdicts show on request only."""

SEVERITY_ORDER = (
    VerdictKind.FAILED,
    VerdictKind.REGRESSION,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_COMPARABLE,
    VerdictKind.MISSING,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
)


def short_series_name(series: Series) -> str:
    """Return the short name of a series: its cell, and its metric unless that is self-evident."""
    if series.metric.name in SELF_EVIDENT_METRICS:
        return make_printable(series.cell)
    return make_printable(f"{series.cell} · {series.metric.name}")


def kind_label(kind: VerdictKind) -> str:
    """Return the kind of a verdict in words."""
    return kind.value.replace("_", " ")


def is_candidate(verdict: Verdict) -> bool:
    """Whether a change was found in screening only, and is not confirmed on new pairs."""
    return verdict.kind in CHANGE_KINDS and verdict.stage is Stage.SCREENING


def verdict_label(verdict: Verdict) -> str:
    """Return the kind in words, with ``candidate`` before an unconfirmed change."""
    return f"candidate {kind_label(verdict.kind)}" if is_candidate(verdict) else kind_label(verdict.kind)


def verdict_tone(verdict: Verdict) -> Tone:
    """Return the colour tone of a verdict."""
    return TONES[verdict.kind]


def verdict_glyph(verdict: Verdict) -> str:
    """Return the glyph of a verdict: a change points the way of its value, solid if confirmed."""
    if verdict.kind not in CHANGE_KINDS:
        return GLYPHS[verdict.kind]
    return direction_arrow(has_increased(verdict), solid=not is_candidate(verdict))


def direction_arrow(up: bool, *, solid: bool) -> str:
    """Return an arrow glyph; ``solid`` means confirmed."""
    if up:
        return "▲" if solid else "△"
    return "▼" if solid else "▽"


def has_increased(verdict: Verdict) -> bool:
    """Whether the value increased, derived from kind and direction where there is no ratio."""
    if verdict.ratio is not None:
        return verdict.ratio > 1
    return (verdict.kind is VerdictKind.REGRESSION) == (verdict.series.metric.direction == "lower")


def status_label(status: Status) -> str:
    """Return the status in words; a skipped benchmark is not available, which is no failure."""
    return "not available" if status is Status.SKIPPED else status.value


def classify_change(ratio: float, direction: Direction) -> VerdictKind:
    """Classify a level change as regression or improvement by the direction of its metric."""
    return VerdictKind.REGRESSION if (ratio > 1) == (direction == "lower") else VerdictKind.IMPROVEMENT
