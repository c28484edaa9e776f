"""The overview: did anything get worse since I last looked?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from perfci.model import ChangePoint, Commit, Series, Stage, Status, Verdict
from perfci.report.charts.series_trend import Mark, Trend
from perfci.report.charts.trend_ranking import biggest_moves, open_regressions
from perfci.report.verdict_labels import MOVES
from perfci.report.verdict_sentences import Told, overview_sentence
from perfci.store.queries.project_status import AtHead, Tally
from perfci.store.queries.records import ProjectRecord
from perfci_web.trends import Decided
from perfci_web.view_parts.missing_reasons import Reason, by_reason, failure, how_many

MOST_FINDINGS = 20
MOST_MOVERS = 6
RECENT_COMMITS = 10
MOST_NOT_RUN = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of one series at one commit, with the series around it."""

    trend: Trend
    mark: Mark
    commit: Commit | None


@dataclass(frozen=True, slots=True)
class Share:
    """A part of all series, by its word and its colour."""

    word: str
    shade: str
    count: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the newest measured commit has of the series that are still measured, and why not of the others."""

    head: Commit | None
    measured: int = 0
    unavailable: tuple[Reason, ...] = ()
    failed: tuple[Reason, ...] = ()
    not_run: tuple[Series, ...] = ()

    @property
    def shares(self) -> tuple[Share, ...]:
        """Four words for four different things."""
        return (
            Share("measured", "measured", self.measured),
            Share("not available", "idle", how_many(self.unavailable)),
            Share("failed", "worse", how_many(self.failed)),
            Share("not run", "unrun", len(self.not_run)),
        )


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit with the confirmed changes that came with it."""

    commit: Commit
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    project: str
    sentence: Told
    open: tuple[Finding, ...]
    open_count: int
    movers: tuple[Finding, ...]
    coverage: Coverage
    recent: tuple[CommitLine, ...]
    candidates: int
    undecided: int
    commits: int
    series: int
    never_measured: int
    processes: int
    last_measured_at: datetime | None

    @property
    def linked(self) -> list[Series]:
        """The series that the page names."""
        shown = [one.trend.series for one in (*self.open, *self.movers)]
        failed = [series for reason in self.coverage.failed for series in reason.series]
        return [*shown, *failed, *self.coverage.not_run[:MOST_NOT_RUN]]


def overview(
    project: ProjectRecord,
    coverage: Coverage,
    tally: Tally,
    decided: Decided,
    trends: Sequence[Trend],
    newest: Sequence[Commit] = (),
    by_sha: Mapping[str, Commit] = MappingProxyType({}),
    incidents: int = 0,
) -> Overview:
    """Join what is known of a project.

    ``trends`` are those of every series with a confirmed change, and of the largest candidates, ``decided`` what was
    said of these; ``by_sha`` are the commits of their marks, ``newest`` the last of the project. ``incidents`` tells
    how many are open.
    """
    found = [Finding(trend, mark, by_sha.get(mark.commit)) for trend in trends for mark in open_regressions(trend)]
    worst_first = sorted(found, key=lambda finding: -abs(finding.mark.ratio - 1))
    told = [finding.mark.verdict for finding in worst_first if finding.mark.verdict]
    open_marks = {id(finding.mark) for finding in found}
    return Overview(
        project=project.slug,
        sentence=overview_sentence(
            told,
            series=project.series - project.never_measured,
            commits=project.commits,
            compared=tally.compared,
            incidents=incidents,
        ),
        open=tuple(worst_first[:MOST_FINDINGS]),
        open_count=len(worst_first),
        movers=tuple(
            Finding(trend, mark, by_sha.get(mark.commit))
            for trend, mark in biggest_moves(trends, MOST_MOVERS + len(found))
            if id(mark) not in open_marks
        )[:MOST_MOVERS],
        coverage=coverage,
        recent=_recent(newest, decided.verdicts),
        candidates=tally.change_points - _confirmed(trends, decided.changes),
        undecided=tally.undecided,
        commits=project.commits,
        series=project.series - project.never_measured,
        never_measured=project.never_measured,
        processes=project.processes,
        last_measured_at=project.last_measured_at,
    )


def coverage_of(found: AtHead) -> Coverage:
    """Four words for what became of the series at the newest measured commit."""
    skipped = (one for one in found.ended if one.status is Status.SKIPPED)
    failed = (one for one in found.ended if one.status is not Status.SKIPPED)
    return Coverage(
        head=found.head,
        measured=found.measured,
        unavailable=by_reason((one.reason, one.series) for one in skipped),
        failed=by_reason((failure(one.status, one.reason), one.series) for one in failed),
        not_run=tuple(found.not_run),
    )


def marked_commits(trends: Iterable[Trend]) -> set[str]:
    """The shas of all commits where a level moved."""
    return {mark.commit for trend in trends for mark in trend.marks}


def _confirmed(trends: Iterable[Trend], changes: Iterable[ChangePoint]) -> int:
    """How many change points fresh pairs confirmed."""
    confirmed = {(mark.commit, trend.series) for trend in trends for mark in trend.convicted()}
    return sum((change.commit, change.series) in confirmed for change in changes)


def _recent(commits: Sequence[Commit], verdicts: Iterable[Verdict]) -> tuple[CommitLine, ...]:
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        if one.kind in MOVES and one.stage is Stage.CONVICTION and one.base != one.head:
            found.setdefault(one.head, []).append(one)
    return tuple(CommitLine(commit, tuple(found.get(commit.sha, ()))) for commit in commits[:RECENT_COMMITS])
