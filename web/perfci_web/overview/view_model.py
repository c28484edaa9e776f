"""The view model of a project: open regressions, largest changes, coverage and newest commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from types import MappingProxyType
from typing import Any

from perfci.history.change_since_release import ChangeSinceRelease
from perfci.model import Commit, Machine, Series, Stage, Status, Verdict
from perfci.number_format import format_day, format_rough_duration
from perfci.report.notable_changes import find_open_regressions, rank_largest_change_per_series
from perfci.report.page_summaries import (
    PageSummary,
    project_overview_summary,
    recent_incidents_summary,
    stale_summary,
)
from perfci.report.serializers import serialize_change_size, serialize_commit, serialize_series
from perfci.report.series_trend import ChangeMark, Trend
from perfci.report.verdict_text import CHANGE_KINDS
from perfci.service.incidents.serialize_incidents import serialize_stored_incident
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.queries.project_status import DecisionCounts, HeadStatus
from perfci.store.queries.query_records import ProjectRecord
from perfci_web.incidents.incident_list_view_model import (
    AGE_GROUPS,
    IncidentEntry,
    OpenIncidents,
    group_entries_by_age,
)
from perfci_web.lens import TimeWindow
from perfci_web.load_series_trends import VerdictsAndChangePoints
from perfci_web.view_parts.table_row_groups import (
    MissingReason,
    count_missing_series,
    format_failure,
    group_series_by_reason,
    serialize_missing_reason,
)

MAX_FINDINGS = 20
MAX_LARGEST_CHANGES = 6
RECENT_COMMITS = 10
MAX_NOT_RUN = 20
MAX_INCIDENTS, MAX_FIXED = 8, 5
MAX_BROKEN, MAX_BROKEN_DAYS = 500, 5

SILENT_AFTER = timedelta(days=7)
"""Time without a run after which a machine, or a whole project, is called silent."""


@dataclass(frozen=True, slots=True)
class TrendChange:
    """A change of one series at one commit, with the series around it."""

    trend: Trend
    mark: ChangeMark
    commit: Commit | None


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """A share of all series, with its label and colour."""

    label: str
    color: str
    count: int


@dataclass(frozen=True, slots=True)
class HeadCoverage:
    """Which active series have a value at the newest measured commit, and why the others have none.

    ``broken_since`` counts failed ones by the day of the first commit without a value, the oldest first.
    """

    head: Commit | None
    measured: int = 0
    unavailable: tuple[MissingReason, ...] = ()
    failed: tuple[MissingReason, ...] = ()
    not_run: tuple[Series, ...] = ()
    broken_since: tuple[tuple[str, int], ...] = ()
    archived: int = 0
    archived_by_hand: int = 0

    @property
    def coverage_shares(self) -> tuple[CoverageShare, ...]:
        """The counts of the coverage bar."""
        return (
            CoverageShare("measured", "measured", self.measured),
            CoverageShare("not available", "idle", count_missing_series(self.unavailable)),
            CoverageShare("failed", "worse", count_missing_series(self.failed)),
            CoverageShare("not run", "unrun", len(self.not_run)),
        )


@dataclass(frozen=True, slots=True)
class RecentCommit:
    """A commit with the changes confirmed at it."""

    commit: Commit
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class SeenMachine:
    """A machine class with when its last run ended; ``silent`` is whether it should have reported since."""

    machine: Machine
    last_seen: datetime
    silent: bool


@dataclass(frozen=True, slots=True)
class IncidentRows:
    """The incidents of the overview: those to show, how many are older, and what was fixed lately."""

    open_count: int
    shown: tuple[IncidentEntry, ...]
    older: int
    fixed: tuple[IncidentRecord, ...]
    summary: str
    confirmed_only: bool = False

    @property
    def series(self) -> list[Series]:
        return [entry.members[0].series for entry in self.shown if entry.members]

    @property
    def are_stored(self) -> bool:
        """Whether people may have answered them: derived ones have no number."""
        return bool(self.fixed) or any(entry.record.number for entry in self.shown)


def build_incident_rows(
    opened: OpenIncidents,
    fixed: Sequence[IncidentRecord],
    window: TimeWindow,
    *,
    confirmed_only: bool = False,
) -> IncidentRows:
    """Choose the incidents to show: the newest first; old ones are only counted, unless all are old.

    With ``confirmed_only`` they are those that an A/B rerun confirmed, and the summary says so.
    """
    by_age = group_entries_by_age(opened.entries, window.until)
    recent = [entry for title, group in by_age for entry in group if title != AGE_GROUPS[-1][1]]
    shown = (recent or list(opened.entries))[:MAX_INCIDENTS]
    new = sum(window.since is None or entry.changed_at >= window.since for entry in opened.entries)
    return IncidentRows(
        opened.count,
        tuple(shown),
        opened.count - len(shown),
        tuple(fixed),
        recent_incidents_summary(
            opened.count, new=new, fixed=len(fixed), window=window.text, confirmed_only=confirmed_only
        ),
        confirmed_only,
    )


def summarize(page: Overview, incidents: IncidentRows, now: datetime) -> PageSummary:
    """The first sentences of the page: that results ended comes first, then what became of incidents."""
    summary = page.sentence
    if incidents.confirmed_only:
        summary = PageSummary(incidents.summary)
    elif incidents.are_stored:
        summary = PageSummary(incidents.summary, page.sentence.detail)
    without_data = now - page.last_measured_at if page.last_measured_at else timedelta()
    if without_data > SILENT_AFTER:
        return stale_summary(format_rough_duration(without_data.total_seconds()), summary)
    return summary


def build_seen_machines(
    machines: Sequence[tuple[Machine, datetime]], now: datetime
) -> tuple[SeenMachine, ...]:
    """Tell which machines are silent: without a run for ``SILENT_AFTER`` while another one had some."""
    newest = max((last for _, last in machines), default=now)
    return tuple(SeenMachine(machine, last, newest - last > SILENT_AFTER) for machine, last in machines)


@dataclass(frozen=True, slots=True)
class Overview:
    """The first page of a project."""

    project: str
    sentence: PageSummary
    open_regressions: tuple[TrendChange, ...]
    open_regression_count: int
    largest_changes: tuple[TrendChange, ...]
    coverage: HeadCoverage
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
        """All series that the page links to."""
        shown = [change.trend.series for change in (*self.open_regressions, *self.largest_changes)]
        failed = [series for reason in self.coverage.failed for series in reason.series]
        return [*shown, *failed, *self.coverage.not_run[:MAX_NOT_RUN]]


def build_overview(
    project: ProjectRecord,
    coverage: HeadCoverage,
    verdict_counts: DecisionCounts,
    decisions: VerdictsAndChangePoints,
    trends: Sequence[Trend],
    newest_commits: Sequence[Commit] = (),
    commits_by_sha: Mapping[str, Commit] = MappingProxyType({}),
    open_incidents: int = 0,
) -> Overview:
    """Join the data of a project.

    ``trends`` are those of every series with a confirmed change and of the largest candidates;
    ``decisions`` are the verdicts and change points on these. ``commits_by_sha`` holds the commits of their
    marks, ``newest_commits`` the latest of the project. ``open_incidents`` is a count.
    """
    regressions = [
        TrendChange(trend, mark, commits_by_sha.get(mark.commit))
        for trend in trends
        for mark in find_open_regressions(trend)
    ]
    worst_first = sorted(regressions, key=lambda change: -abs(change.mark.ratio - 1))
    verdicts = [change.mark.verdict for change in worst_first if change.mark.verdict]
    # By identity, as two series may have equal marks.
    open_marks = {id(change.mark) for change in regressions}
    # Change points that fresh pairs confirmed are no candidates any more.
    confirmed = {(mark.commit, trend.series) for trend in trends for mark in trend.confirmed_marks()}
    confirmed_count = sum((change.commit, change.series) in confirmed for change in decisions.changes)
    return Overview(
        project=project.slug,
        sentence=project_overview_summary(
            verdicts,
            series=project.series - project.never_measured,
            commits=project.commits,
            compared=verdict_counts.has_verdicts,
            incidents=open_incidents,
        ),
        open_regressions=tuple(worst_first[:MAX_FINDINGS]),
        open_regression_count=len(worst_first),
        largest_changes=tuple(
            TrendChange(trend, mark, commits_by_sha.get(mark.commit))
            for trend, mark in rank_largest_change_per_series(trends, MAX_LARGEST_CHANGES + len(regressions))
            if id(mark) not in open_marks
        )[:MAX_LARGEST_CHANGES],
        coverage=coverage,
        recent_commits=_build_recent_commits(newest_commits, decisions.verdicts),
        candidates=verdict_counts.change_points - confirmed_count,
        undecided=verdict_counts.inconclusive,
        commits=project.commits,
        series=project.series - project.never_measured,
        never_measured=project.never_measured,
        processes=project.processes,
        last_measured_at=project.last_measured_at,
    )


def build_head_coverage(
    head_results: HeadStatus, failing_since: Iterable[datetime | None] = ()
) -> HeadCoverage:
    """Split the series at the newest measured commit into measured, unavailable, failed and not run."""
    skipped = (result for result in head_results.unmeasured if result.status is Status.SKIPPED)
    failed = (result for result in head_results.unmeasured if result.status is not Status.SKIPPED)
    return HeadCoverage(
        head=head_results.head,
        measured=head_results.measured,
        unavailable=group_series_by_reason((result.reason, result.series) for result in skipped),
        failed=group_series_by_reason(
            (format_failure(result.status, result.reason), result.series) for result in failed
        ),
        not_run=tuple(head_results.not_run),
        broken_since=_count_by_day(failing_since),
        archived=head_results.archived,
        archived_by_hand=head_results.archived_by_hand,
    )


def _count_by_day(moments: Iterable[datetime | None]) -> tuple[tuple[str, int], ...]:
    counts = Counter(moment.date() for moment in moments if moment is not None)
    days = sorted(counts)[:MAX_BROKEN_DAYS]
    return tuple((format_day(datetime.combine(day, time())), counts[day]) for day in days)


def collect_changed_commit_shas(trends: Iterable[Trend]) -> set[str]:
    """Return the shas of all commits that a trend marks a change at."""
    return {mark.commit for trend in trends for mark in trend.marks}


def _build_recent_commits(commits: Sequence[Commit], verdicts: Iterable[Verdict]) -> tuple[RecentCommit, ...]:
    confirmed: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        is_confirmed = verdict.kind in CHANGE_KINDS and verdict.stage is Stage.CONFIRMATION
        if is_confirmed and verdict.base != verdict.head:
            confirmed.setdefault(verdict.head, []).append(verdict)
    return tuple(
        RecentCommit(commit, tuple(confirmed.get(commit.sha, ()))) for commit in commits[:RECENT_COMMITS]
    )


def serialize_scorecard(scorecard: ChangeSinceRelease | None) -> dict[str, Any] | None:
    """Return what each metric class did since the last release."""
    if scorecard is None:
        return None
    return {
        "release": scorecard.name,
        "commit": scorecard.commit.sha,
        "classes": [
            {
                "metric_class": change.metric_class.value,
                "ratio": change.ratio,
                "interval": [change.interval.lo, change.interval.hi] if change.interval else None,
                "outcome": change.outcome,
                "series": change.series,
                "left_out": change.left_out,
            }
            for change in scorecard.classes
        ],
    }


def serialize_overview(
    page: Overview, summary: PageSummary, incidents: IncidentRows, machines: Sequence[SeenMachine]
) -> dict[str, Any]:
    """Return the JSON of the page; incidents that are not stored have no number."""
    coverage = page.coverage
    return {
        "project": page.project,
        "sentence": str(summary),
        "last_measured_at": page.last_measured_at.isoformat() if page.last_measured_at else None,
        "commits": page.commits,
        "series": page.series,
        "not_available": page.never_measured,
        "processes": page.processes,
        "candidates": page.candidates,
        "inconclusive": page.undecided,
        "open_incidents": incidents.open_count,
        "incidents": [serialize_stored_incident(entry.record) for entry in incidents.shown],
        "fixed": [serialize_stored_incident(record) for record in incidents.fixed],
        "open_regressions": [_serialize_change(change) for change in page.open_regressions],
        "largest_changes": [_serialize_change(change) for change in page.largest_changes],
        "coverage": {
            "commit": coverage.head.sha if coverage.head else None,
            "measured": coverage.measured,
            "not_available": [serialize_missing_reason(reason) for reason in coverage.unavailable],
            "failed": [serialize_missing_reason(reason) for reason in coverage.failed],
            "broken_since": [{"day": day, "series": count} for day, count in coverage.broken_since],
            "not_run": [serialize_series(series) for series in coverage.not_run],
            "archived": coverage.archived,
        },
        "machines": [
            {
                "machine": seen.machine.label,
                "last_seen": seen.last_seen.isoformat(),
                "silent": seen.silent,
            }
            for seen in machines
        ],
        "recent_commits": [serialize_commit(recent.commit) for recent in page.recent_commits],
    }


def _serialize_change(change: TrendChange) -> dict[str, Any]:
    return {
        "series": serialize_series(change.trend.series),
        "last_good": change.mark.last_good,
        "commit": change.mark.commit,
        **serialize_change_size(change.mark.change),
        "kind": change.mark.kind.value,
        "state": change.mark.state,
    }
