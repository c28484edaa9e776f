"""The word, the glyph and the tone of a verdict: meaning is never left to colour alone."""

from __future__ import annotations

from typing import Literal

from perfci.model import Direction, Stage, Status, Verdict, VerdictKind

Tone = Literal["worse", "better", "same", "unsure", "void"]
"""What a verdict is coloured by: vermilion, blue, grey, amber, or grey and hollow."""

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

CHANGE_KINDS = frozenset({VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT})

QUIET_KINDS = frozenset({VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE})
"""What nobody has to act on: told on request where verdicts are listed."""

SEVERITY_ORDER = (
    VerdictKind.FAILED,
    VerdictKind.REGRESSION,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_COMPARABLE,
    VerdictKind.MISSING,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
)


def kind_label(kind: VerdictKind) -> str:
    return kind.value.replace("_", " ")


def is_candidate(verdict: Verdict) -> bool:
    """A move seen while screening only nominates; no fresh pair has confirmed it."""
    return verdict.kind in CHANGE_KINDS and verdict.stage is Stage.SCREENING


def verdict_label(verdict: Verdict) -> str:
    return f"candidate {kind_label(verdict.kind)}" if is_candidate(verdict) else kind_label(verdict.kind)


def verdict_tone(verdict: Verdict) -> Tone:
    return TONES[verdict.kind]


def verdict_glyph(verdict: Verdict) -> str:
    """Point the way the value went: up for more of it, whether that is good or bad; hollow while suspected."""
    if verdict.kind not in CHANGE_KINDS:
        return GLYPHS[verdict.kind]
    return direction_arrow(has_increased(verdict), solid=not is_candidate(verdict))


def direction_arrow(up: bool, *, solid: bool) -> str:
    return ("▲" if solid else "△") if up else ("▼" if solid else "▽")


def has_increased(verdict: Verdict) -> bool:
    if verdict.ratio is not None:
        return verdict.ratio > 1
    return (verdict.kind is VerdictKind.REGRESSION) == (verdict.series.metric.direction == "lower")


def status_label(status: Status) -> str:
    """What a machine cannot measure is no failure."""
    return "not available" if status is Status.SKIPPED else status.value


def change_kind(ratio: float, direction: Direction) -> VerdictKind:
    """Say whether a level that moved by a ratio moved in the bad or the good direction."""
    return VerdictKind.REGRESSION if (ratio > 1) == (direction == "lower") else VerdictKind.IMPROVEMENT
