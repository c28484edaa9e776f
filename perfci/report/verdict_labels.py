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

MOVES = frozenset({VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT})

QUIET = frozenset({VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE})
"""What nobody has to act on: told on request where verdicts are listed."""

SEVEREST_FIRST = (
    VerdictKind.FAILED,
    VerdictKind.REGRESSION,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.NOT_COMPARABLE,
    VerdictKind.MISSING,
    VerdictKind.IMPROVEMENT,
    VerdictKind.UNCHANGED,
)


def word(kind: VerdictKind) -> str:
    return kind.value.replace("_", " ")


def is_suspicion(verdict: Verdict) -> bool:
    """A move seen while screening only nominates; no fresh pair has confirmed it."""
    return verdict.kind in MOVES and verdict.stage is Stage.SCREENING


def verdict_word(verdict: Verdict) -> str:
    return f"suspected {word(verdict.kind)}" if is_suspicion(verdict) else word(verdict.kind)


def tone(verdict: Verdict) -> Tone:
    return TONES[verdict.kind]


def verdict_glyph(verdict: Verdict) -> str:
    """Point the way the value went: up for more of it, whether that is good or bad; hollow while suspected."""
    if verdict.kind not in MOVES:
        return GLYPHS[verdict.kind]
    return arrow(grew(verdict), solid=not is_suspicion(verdict))


def arrow(up: bool, *, solid: bool) -> str:
    return ("▲" if solid else "△") if up else ("▼" if solid else "▽")


def grew(verdict: Verdict) -> bool:
    if verdict.ratio is not None:
        return verdict.ratio > 1
    return (verdict.kind is VerdictKind.REGRESSION) == (verdict.series.metric.direction == "lower")


def status_word(status: Status) -> str:
    """What a machine cannot measure is no failure."""
    return "not available" if status is Status.SKIPPED else status.value


def kind_of_move(ratio: float, direction: Direction) -> VerdictKind:
    """Say whether a level that moved by a ratio moved in the bad or the good direction."""
    return VerdictKind.REGRESSION if (ratio > 1) == (direction == "lower") else VerdictKind.IMPROVEMENT
