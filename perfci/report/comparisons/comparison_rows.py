"""The rows of a comparison: one table for verdicts of A/B pairs and for levels of separate runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perfci.model import ChangePoint, Interval, Series, Stage, Status, Verdict, VerdictKind
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_text import (
    CHANGE_KINDS,
    GLYPHS,
    Tone,
    direction_arrow,
    has_increased,
    next_step_or_reason,
    part_of_whole_phrase,
    status_label,
    verdict_glyph,
    verdict_label,
    verdict_tone,
)

LIKELY_SIGMAS = 3.0
"""A difference of separate runs is likely beyond this many standard deviations of such a difference."""

MIN_SPAN, MAX_SPAN = 1.1, 4.0
"""Limits of the ratio axis that all bars of a page share: at least ±10 %, at most a factor of four."""

SHARE_ON_AXIS = 0.8
"""The part of the rows that a ratio axis holds."""


class Outcome(StrEnum):
    """What a row says: the first five are verdicts of pairs, the last four a reading of separate runs."""

    WORSE = "worse"
    UNDECIDED = "undecided"
    MISSING = "missing"
    BETTER = "better"
    UNCHANGED = "unchanged"
    LIKELY_WORSE = "likely worse"
    LIKELY_BETTER = "likely better"
    UNKNOWN = "unknown"
    WITHIN_NOISE = "within noise"


SEVERITY = (
    Outcome.WORSE,
    Outcome.LIKELY_WORSE,
    Outcome.UNDECIDED,
    Outcome.MISSING,
    Outcome.BETTER,
    Outcome.LIKELY_BETTER,
    Outcome.UNKNOWN,
    Outcome.UNCHANGED,
    Outcome.WITHIN_NOISE,
)
"""The order of rows by default."""

NEEDING_ATTENTION = (Outcome.WORSE, Outcome.LIKELY_WORSE, Outcome.LIKELY_BETTER, Outcome.UNDECIDED)
"""Outcomes that somebody has to look at."""

OUTCOME_OF_KIND: Mapping[VerdictKind, Outcome] = {
    VerdictKind.REGRESSION: Outcome.WORSE,
    VerdictKind.FAILED: Outcome.WORSE,
    VerdictKind.INCONCLUSIVE: Outcome.UNDECIDED,
    VerdictKind.NOT_COMPARABLE: Outcome.UNDECIDED,
    VerdictKind.MISSING: Outcome.MISSING,
    VerdictKind.IMPROVEMENT: Outcome.BETTER,
    VerdictKind.UNCHANGED: Outcome.UNCHANGED,
}

TONE_OF_OUTCOME: Mapping[Outcome, Tone] = {
    Outcome.LIKELY_WORSE: "worse",
    Outcome.LIKELY_BETTER: "better",
    Outcome.UNKNOWN: "void",
    Outcome.WITHIN_NOISE: "same",
}


@dataclass(frozen=True, slots=True)
class SideLevel:
    """What one side came to in one series; ``level`` is None where it has no value, with the reason.

    ``status`` is None where the side did not measure the series at all.
    """

    level: float | None
    status: Status | None = Status.OK
    reason: str = ""

    @property
    def text(self) -> str:
        """Why there is no value: ``failed``, ``not available``, ``not measured``."""
        return "not measured" if self.status is None else status_label(self.status)


NOT_MEASURED = SideLevel(None, None)


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One series at two sides; ``base_series`` is another one where machines or variants are compared.

    ``noise`` is the standard deviation of log levels between runs of the series, None where fewer than
    three runs tell. ``change`` is the change point of its history between exactly the two commits: then
    levels and size are those of it, as on every other page. ``explains`` is true of a verdict that moved
    with another one, or gates nothing; ``is_context`` of a metric that is never judged. ``whole`` is the
    verdict on the step or request of which only this part moved.
    """

    series: Series
    base_series: Series
    base: SideLevel
    head: SideLevel
    verdict: Verdict | None = None
    change: ChangePoint | None = None
    noise: float | None = None
    explains: bool = False
    is_context: bool = False
    whole: Verdict | None = None

    @property
    def base_level(self) -> float | None:
        if self.verdict is not None and self.verdict.base_level is not None:
            return self.verdict.base_level
        return self.change.before if self.change else self.base.level

    @property
    def head_level(self) -> float | None:
        if self.verdict is not None and self.verdict.head_level is not None:
            return self.verdict.head_level
        return self.change.after if self.change else self.head.level

    @property
    def ratio(self) -> float | None:
        """Head over base: of the verdict, else of the change point, else of the two levels."""
        if self.verdict is not None:
            return self.verdict.ratio
        if self.change is not None:
            return 1 + self.change.relative_change
        if not self.base.level or self.head.level is None:
            return None
        return self.head.level / self.base.level

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the verdict or the change point; separate runs have none."""
        if self.verdict is not None:
            return self.verdict.interval
        return self.change.interval if self.change else None

    @property
    def log_ratio(self) -> float:
        """How far the level moved either way, as ``log``; 0 where it is not known."""
        ratio = self.ratio
        if ratio is None:
            return 0.0
        return math.log(ratio) if ratio > 0 else -math.inf

    @property
    def noise_of_difference(self) -> float | None:
        """The standard deviation of the log ratio of two separate runs without a change."""
        return None if self.noise is None else math.sqrt(2) * self.noise

    @property
    def sigmas(self) -> float:
        """The size of the difference over its noise; infinite where repeated runs agree exactly."""
        noise = self.noise_of_difference
        if noise is None or self.log_ratio == 0:
            return 0.0
        return abs(self.log_ratio) / noise if noise > 0 else math.inf

    @property
    def is_worse(self) -> bool:
        """Whether the level moved in the bad direction, however little."""
        return self.log_ratio * self.series.metric.cost_sign > 0

    @property
    def outcome(self) -> Outcome:
        if self.verdict is not None:
            return OUTCOME_OF_KIND[self.verdict.kind]
        if self.ratio is None:
            return Outcome.MISSING
        if self.change is not None or self.sigmas > LIKELY_SIGMAS:
            return Outcome.LIKELY_WORSE if self.is_worse else Outcome.LIKELY_BETTER
        return Outcome.UNKNOWN if self.noise is None and self.log_ratio else Outcome.WITHIN_NOISE

    @property
    def word(self) -> str:
        """The verdict in words; ``likely``, ``within noise`` or ``unknown`` where runs are separate."""
        return verdict_label(self.verdict) if self.verdict is not None else self.outcome.value

    @property
    def tone(self) -> Tone:
        if self.verdict is not None:
            return verdict_tone(self.verdict)
        return TONE_OF_OUTCOME.get(self.outcome, "void")

    @property
    def glyph(self) -> str:
        if self.verdict is not None:
            return verdict_glyph(self.verdict)
        if self.outcome in (Outcome.LIKELY_WORSE, Outcome.LIKELY_BETTER):
            return direction_arrow(self.log_ratio > 0, solid=False)
        return {Outcome.WITHIN_NOISE: "≈", Outcome.UNKNOWN: "?"}.get(
            self.outcome, GLYPHS[VerdictKind.MISSING]
        )

    @property
    def is_open(self) -> bool:
        """Whether the change is not confirmed: found in screening, or between separate runs."""
        if self.verdict is None:
            return True
        return self.verdict.kind in CHANGE_KINDS and self.verdict.stage is not Stage.CONFIRMATION

    @property
    def advice(self) -> str:
        """The next step of an undecided row, why there is no value, or what the whole of a part did."""
        if self.verdict is not None:
            phrases = [next_step_or_reason(self.verdict)]
            if self.whole is not None:
                phrases.append(part_of_whole_phrase(self.verdict, self.whole))
            return " · ".join(filter(None, phrases))
        return " · ".join(
            dict.fromkeys(
                side.reason for side in (self.base, self.head) if side.level is None and side.reason
            )
        )

    @property
    def needs_attention(self) -> bool:
        """Whether somebody has to look: worse (its tail too), likely to have moved, undecided, or gone."""
        if self.explains or self.is_context:
            return False
        tail = self.verdict.tail if self.verdict is not None else None
        if tail is not None and tail.kind is VerdictKind.REGRESSION:
            return True
        is_missing = self.outcome is Outcome.MISSING and not self.is_unavailable
        return is_missing or self.outcome in NEEDING_ATTENTION

    @property
    def is_unavailable(self) -> bool:
        """Whether no side could measure it, and one said why: that is nobody's fault."""
        return {None, Status.SKIPPED} >= {self.base.status, self.head.status} != {None}

    @property
    def moved_up(self) -> bool:
        """Whether the value went up."""
        return has_increased(self.verdict) if self.verdict is not None else self.log_ratio > 0


def build_verdict_rows(
    verdicts: Iterable[Verdict],
    levels: Mapping[Series, tuple[SideLevel, SideLevel]],
    gates: Callable[[Series], bool],
) -> list[ComparisonRow]:
    """Build the rows of verdicts; one verdict of each change is primary, the others explain it."""
    rows = []
    for group in group_verdicts(verdicts, gates):
        for verdict in (group.primary, *group.secondary):
            base, head = levels.get(verdict.series, (NOT_MEASURED, NOT_MEASURED))
            explains = verdict is not group.primary or not group.gates
            whole = None if explains else group.whole
            rows.append(
                ComparisonRow(
                    verdict.series, verdict.series, base, head, verdict, explains=explains, whole=whole
                )
            )
    return rows


def choose_axis_span(rows: Sequence[ComparisonRow]) -> float:
    """Choose the ratio axis on which the bars of a page are drawn.

    It holds four rows of five; the bars of the others end in an arrow, so that one that is far out does
    not flatten all.
    """
    factors = []
    for row in rows:
        ends = [row.ratio, *((row.interval.lo, row.interval.hi) if row.interval else ())]
        factors.append(max((max(end, 1 / end) for end in ends if end is not None and end > 0), default=1.0))
    typical = sorted(factors)[int(SHARE_ON_AXIS * (len(factors) - 1))] if factors else 1.0
    return min(MAX_SPAN, max(MIN_SPAN, typical * 1.02))
