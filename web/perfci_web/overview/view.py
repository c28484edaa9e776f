"""The overview: did anything get worse since I last looked?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from perfci.model import ChangePoint, Commit, Series, Stage, Status, Verdict
from perfci.report.charts.series_trend import ChangeMark, Trend
from perfci.report.charts.trend_ranking import find_largest_changes, find_open_regressions
from perfci.report.verdict_labels import CHANGE_KINDS
from perfci.report.verdict_sentences import PageSummary, overview_sentence
from perfci.store.queries.project_status import DecisionCounts, HeadStatus
from perfci.store.queries.records import ProjectRecord
from perfci_web.trends import SeriesVerdicts
from perfci_web.view_parts.missing_reasons import MissingReason, count_series, format_failure, group_by_reason

MAX_FINDINGS = 20
MAX_MOVERS = 6
RECENT_COMMITS = 10
MAX_NOT_RUN = 20


@dataclass(frozen=True, slots=True)
class TrendChange:
    """A change of one series at one commit, with the series around it."""

    trend: Trend
    mark: ChangeMark
    commit: Commit | None


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """A part of all series, by its word and its colour."""

    label: str
    color: str
    count: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the newest measured commit has of the series that are still measured, and why not of the others."""

    head: Commit | None
    measured: int = 0
    unavailable: tuple[MissingReason, ...] = ()
    failed: tuple[MissingReason, ...] = ()
    not_run: tuple[Series, ...] = ()

    @property
    def shares(self) -> tuple[CoverageShare, ...]:
        """Four words for four different things."""
        return (
            CoverageShare("measured", "measured", self.measured),
            CoverageShare("not available", "idle", count_series(self.unavailable)),
            CoverageShare("failed", "worse", count_series(self.failed)),
            CoverageShare("not run", "unrun", len(self.not_run)),
        )


@dataclass(frozen=True, slots=True)
class RecentCommit:
    """A commit with the confirmed changes that came with it."""

    commit: Commit
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    project: str
    sentence: PageSummary
    open_regressions: tuple[TrendChange, ...]
    open_regression_count: int
    movers: tuple[TrendChange, ...]
    coverage: Coverage
    recent_commits: tuple[RecentCommit, ...]
    candidates: int
    undecided: int
    commits: int
    series: int
    never_measured: int
    processes: int
    last_measured_at: datetime | None

    @property
    def linked_series(self) -> list[Series]:
        """The series that the page names."""
        shown = [one.trend.series for one in (*self.open_regressions, *self.movers)]
        failed = [series for reason in self.coverage.failed for series in reason.series]
        return [*shown, *failed, *self.coverage.not_run[:MAX_NOT_RUN]]


def build_overview(
    project: ProjectRecord,
    coverage: Coverage,
    verdict_counts: DecisionCounts,
    decisions: SeriesVerdicts,
    trends: Sequence[Trend],
    newest_commits: Sequence[Commit] = (),
    commits_by_sha: Mapping[str, Commit] = MappingProxyType({}),
    open_incidents: int = 0,
) -> Overview:
    """Join what is known of a project.

    ``trends`` are those of every series with a confirmed change, and of the largest candidates, ``decided`` what was
    said of these; ``by_sha`` are the commits of their marks, ``newest`` the last of the project. ``incidents`` tells
    how many are open.
    """
    found = [
        TrendChange(trend, mark, commits_by_sha.get(mark.commit))
        for trend in trends
        for mark in find_open_regressions(trend)
    ]
    worst_first = sorted(found, key=lambda finding: -abs(finding.mark.ratio - 1))
    told = [finding.mark.verdict for finding in worst_first if finding.mark.verdict]
    open_marks = {id(finding.mark) for finding in found}
    return Overview(
        project=project.slug,
        sentence=overview_sentence(
            told,
            series=project.series - project.never_measured,
            commits=project.commits,
            compared=verdict_counts.has_verdicts,
            incidents=open_incidents,
        ),
        open_regressions=tuple(worst_first[:MAX_FINDINGS]),
        open_regression_count=len(worst_first),
        movers=tuple(
            TrendChange(trend, mark, commits_by_sha.get(mark.commit))
            for trend, mark in find_largest_changes(trends, MAX_MOVERS + len(found))
            if id(mark) not in open_marks
        )[:MAX_MOVERS],
        coverage=coverage,
        recent_commits=_build_recent_commits(newest_commits, decisions.verdicts),
        candidates=verdict_counts.change_points - _count_confirmed(trends, decisions.changes),
        undecided=verdict_counts.inconclusive,
        commits=project.commits,
        series=project.series - project.never_measured,
        never_measured=project.never_measured,
        processes=project.processes,
        last_measured_at=project.last_measured_at,
    )


def build_coverage(head_results: HeadStatus) -> Coverage:
    """Four words for what became of the series at the newest measured commit."""
    skipped = (one for one in head_results.unmeasured if one.status is Status.SKIPPED)
    failed = (one for one in head_results.unmeasured if one.status is not Status.SKIPPED)
    return Coverage(
        head=head_results.head,
        measured=head_results.measured,
        unavailable=group_by_reason((one.reason, one.series) for one in skipped),
        failed=group_by_reason((format_failure(one.status, one.reason), one.series) for one in failed),
        not_run=tuple(head_results.not_run),
    )


def find_marked_commits(trends: Iterable[Trend]) -> set[str]:
    """The shas of all commits where a level moved."""
    return {mark.commit for trend in trends for mark in trend.marks}


def _count_confirmed(trends: Iterable[Trend], changes: Iterable[ChangePoint]) -> int:
    """How many change points fresh pairs confirmed."""
    confirmed = {(mark.commit, trend.series) for trend in trends for mark in trend.confirmed_marks()}
    return sum((change.commit, change.series) in confirmed for change in changes)


def _build_recent_commits(commits: Sequence[Commit], verdicts: Iterable[Verdict]) -> tuple[RecentCommit, ...]:
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        if one.kind in CHANGE_KINDS and one.stage is Stage.CONFIRMATION and one.base != one.head:
            found.setdefault(one.head, []).append(one)
    return tuple(
        RecentCommit(commit, tuple(found.get(commit.sha, ()))) for commit in commits[:RECENT_COMMITS]
    )
