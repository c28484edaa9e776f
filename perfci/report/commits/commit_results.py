"""What a commit came to: level and spread of each series, its change to another commit, and its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from perfci.model import (
    ChangePoint,
    Commit,
    Run,
    Series,
    Status,
    Verdict,
    VerdictKind,
    level_matching_ratio,
)
from perfci.report.commits.measurements_by_series import collect_processes_by_series, merge_runs_into_dots
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import (
    CHANGE_KINDS,
    SEVERITY_ORDER,
    classify_change,
    direction_arrow,
    verdict_glyph,
    verdict_label,
)
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.judging_policy import Policy


@dataclass(frozen=True, slots=True)
class BaseLevel:
    """The level of a series at the commit that it is compared with."""

    sha: str
    level: float | None


@dataclass(frozen=True, slots=True)
class EarlierMethod:
    """The harness that measured the same cell and metric before, and its newest commit.

    A series does not cross another method of measuring, so the two levels are not compared.
    """

    harness: str
    sha: str


@dataclass(frozen=True, slots=True)
class CommitResult:
    """One series at a commit; ``change`` is a change point of its history there, ``bar`` what counts as one.

    An ``informational`` series is shown and never judged. A series that begins here may have a history by an
    ``earlier`` method.
    """

    series: Series
    dot: Dot
    informational: bool
    bar: float
    base: BaseLevel | None = None
    verdict: Verdict | None = None
    change: ChangePoint | None = None
    earlier: EarlierMethod | None = None

    @property
    def relative_spread(self) -> float | None:
        """The interquartile range of the processes over the level; None of a single process."""
        dot = self.dot
        if not dot.level or dot.lo is None or dot.hi is None or dot.processes == 1:
            return None
        return (dot.hi - dot.lo) / abs(dot.level)

    @property
    def relative_change(self) -> float | None:
        """The size of the change: of its verdict, else of its change point, else between the two levels."""
        if self.verdict is not None and self.verdict.ratio is not None:
            return self.verdict.ratio - 1
        if self.change is not None:
            return self.change.relative_change
        if self.base is None or not self.base.level or self.dot.level is None:
            return None
        return self.dot.level / self.base.level - 1

    @property
    def compared_levels(self) -> tuple[float | None, float | None]:
        """The levels that the size is of: of pairs or of a history they are not those of single results."""
        base_level, level = self.base.level if self.base else None, self.dot.level
        verdict = self.verdict
        if verdict is not None and verdict.ratio is not None:
            before = base_level if verdict.base_level is None else verdict.base_level
            measured = level if verdict.head_level is None else verdict.head_level
            if before is None or measured is None:
                return before, measured
            return before, level_matching_ratio(before, verdict.ratio, measured)
        if self.change is not None:
            return self.change.before, self.change.after
        return base_level, level

    @property
    def verdict_kind(self) -> VerdictKind | None:
        """The verdict, or what the history says; None where neither has judged the series."""
        if self.verdict is not None:
            return self.verdict.kind
        if self.change is not None:
            return classify_change(1 + self.change.relative_change, self.series.metric.direction)
        return VerdictKind.FAILED if self.has_failed and not self.dot.invalid else None

    @property
    def outcome_label(self) -> str:
        """The verdict in words; a change that only the history shows is a candidate."""
        if self.verdict is not None:
            return verdict_label(self.verdict)
        if self.verdict_kind in CHANGE_KINDS:
            return f"candidate {self.verdict_kind.value}"
        if self.dot.invalid:
            return self.dot.reason
        if self.has_failed:
            return self.dot.status.value
        if self.earlier is not None:
            return f"begins here: {self.earlier.harness} measured until {self.earlier.sha[:10]}"
        return "not judged" if self.moves_beyond_bar else ""

    @property
    def outcome_glyph(self) -> str:
        """The glyph of the verdict; empty where nothing was judged."""
        if self.verdict is not None:
            return verdict_glyph(self.verdict)
        if self.verdict_kind in CHANGE_KINDS:
            return direction_arrow((self.relative_change or 0) > 0, solid=False)
        return "✕" if self.has_failed else ""

    @property
    def has_failed(self) -> bool:
        """Whether the series should have a value here and has none."""
        return self.dot.level is None and self.dot.status is not Status.SKIPPED

    @property
    def moves_beyond_bar(self) -> bool:
        """Whether the two levels differ by more than the bar of the series, judged or not."""
        size = self.relative_change
        return size is not None and abs(size) > self.bar

    @property
    def is_worse(self) -> bool:
        """Whether the series failed, got worse, or has no verdict and a worse level by more than its bar."""
        if self.verdict_kind is not None:
            return self.verdict_kind in (VerdictKind.REGRESSION, VerdictKind.FAILED)
        size = self.relative_change
        if size is None or self.informational or self.dot.invalid or not self.moves_beyond_bar:
            return False
        return classify_change(1 + size, self.series.metric.direction) is VerdictKind.REGRESSION


def build_commit_results(
    runs: Sequence[Run],
    bases: Mapping[Series, BaseLevel],
    verdicts: Iterable[Verdict],
    changes: Iterable[ChangePoint],
    policy: Policy,
    earlier: Mapping[Series, EarlierMethod] = MappingProxyType({}),
) -> list[CommitResult]:
    """Join the runs of a commit with the levels before and what was decided; changes first, then by name.

    ``verdicts`` come newest first; one counts where its base is the commit that its series is compared with.
    """
    judged = set(select_judged_series(collect_processes_by_series(runs)))
    moves = {change.series: change for change in changes}
    decided: dict[Series, Verdict] = {}
    for verdict in verdicts:
        base = bases.get(verdict.series)
        if base is not None and verdict.base == base.sha:
            decided.setdefault(verdict.series, verdict)
    results = [
        CommitResult(
            series,
            dot,
            informational=series not in judged or not policy.is_judged(series),
            bar=policy.rule_for(series).bar,
            base=bases.get(series),
            verdict=decided.get(series),
            change=_find_change(moves.get(series), bases.get(series)),
            earlier=earlier.get(series),
        )
        for series, dot in merge_runs_into_dots(runs).items()
    ]
    return sorted(results, key=_sort_key)


def _find_change(change: ChangePoint | None, base: BaseLevel | None) -> ChangePoint | None:
    """A change point counts where it lies between the two commits that are compared."""
    return change if change is not None and base is not None and change.last_good == base.sha else None


def _sort_key(result: CommitResult) -> tuple[int, float, str]:
    """What got worse first, then what got better, each by size; all else by name."""
    kind = result.verdict_kind
    is_change = kind in (*CHANGE_KINDS, VerdictKind.FAILED)
    rank = SEVERITY_ORDER.index(kind) if is_change and kind else len(SEVERITY_ORDER)
    size = abs(result.relative_change or 0.0) if is_change else 0.0
    return rank, -size, result.series.label


@dataclass(frozen=True, slots=True)
class CommitReport:
    """The results of a commit; ``base`` is given where all are compared with one commit that was chosen."""

    commit: Commit
    results: Sequence[CommitResult]
    base: Commit | None = None
