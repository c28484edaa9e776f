"""The overview: did anything get worse since I last looked?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import ChangePoint, Commit, Series, Stage, Status, Verdict, VerdictKind
from perfci.report.sentences import Told, overview_sentence
from perfci.report.standing import biggest_moves, open_regressions
from perfci.report.trend import Mark, Trend
from perfci.report.words import MOVES
from perfci.store.records import ProjectRecord, SeriesRecord, VerdictRecord
from perfci_web.pages.reasons import Reason, by_reason, failure, how_many

MOST_FINDINGS = 20
MOST_MOVERS = 6
RECENT_COMMITS = 10


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
        return [*shown, *failed, *self.coverage.not_run]


def series_to_draw(
    records: Sequence[SeriesRecord], verdicts: Iterable[VerdictRecord], changes: Iterable[ChangePoint]
) -> list[int]:
    """Which histories an overview needs: of series with a confirmed change, and of the largest candidates."""
    ids = {record.series: record.id for record in records}
    convicted = [one.verdict.series for one in verdicts if _is_conviction(one.verdict)]
    largest = sorted(changes, key=lambda change: -abs(change.rel))[:MOST_MOVERS]
    wanted = dict.fromkeys([*convicted, *(change.series for change in largest)])
    return [ids[series] for series in wanted if series in ids]


def overview(
    project: ProjectRecord,
    records: Sequence[SeriesRecord],
    verdicts: Sequence[VerdictRecord],
    changes: Sequence[ChangePoint],
    commits: Sequence[Commit],
    trends: Sequence[Trend],
    incidents: int = 0,
) -> Overview:
    """Join what is known of a project; ``commits`` come newest first, ``trends`` as ``series_to_draw`` asked.

    ``incidents`` tells how many are open.
    """
    by_sha = {commit.sha: commit for commit in commits}
    found = [Finding(trend, mark, by_sha.get(mark.commit)) for trend in trends for mark in open_regressions(trend)]
    worst_first = sorted(found, key=lambda finding: -abs(finding.mark.ratio - 1))
    told = [finding.mark.verdict for finding in worst_first if finding.mark.verdict]
    open_marks = {id(finding.mark) for finding in found}
    confirmed = {(mark.commit, trend.series) for trend in trends for mark in trend.convicted()}
    return Overview(
        project=project.slug,
        sentence=overview_sentence(
            told,
            series=project.series - project.never_measured,
            commits=project.commits,
            compared=bool(verdicts),
            incidents=incidents,
        ),
        open=tuple(worst_first[:MOST_FINDINGS]),
        open_count=len(worst_first),
        movers=tuple(
            Finding(trend, mark, by_sha.get(mark.commit))
            for trend, mark in biggest_moves(trends, MOST_MOVERS + len(found))
            if id(mark) not in open_marks
        )[:MOST_MOVERS],
        coverage=coverage(records, commits),
        recent=_recent(commits, verdicts),
        candidates=sum((change.commit, change.series) not in confirmed for change in changes),
        undecided=sum(one.verdict.kind is VerdictKind.INCONCLUSIVE for one in verdicts),
        commits=project.commits,
        series=project.series - project.never_measured,
        never_measured=project.never_measured,
        processes=project.processes,
        last_measured_at=project.last_measured_at,
    )


def coverage(records: Sequence[SeriesRecord], commits: Sequence[Commit]) -> Coverage:
    """Count the newest measured commit's series; one that another version replaced is no longer expected, nor is one
    that never had a value.
    """
    place = {commit.sha: k for k, commit in enumerate(commits)}
    seen = [record for record in records if record.last_commit_sha in place]
    if not seen:
        return Coverage(None)
    head = min(seen, key=lambda record: place[record.last_commit_sha or ""]).last_commit_sha
    expected = _newest_versions(seen, place)
    at_head = [record for record in expected if record.last_commit_sha == head]
    skipped = (record for record in at_head if record.last_status is Status.SKIPPED)
    failed = ((record, record.last_status) for record in at_head if record.failed_last)
    return Coverage(
        head=commits[place[head or ""]],
        measured=sum(record.last_status is Status.OK for record in at_head),
        unavailable=by_reason((record.last_reason, record.series) for record in skipped),
        failed=by_reason((failure(status, one.last_reason), one.series) for one, status in failed if status),
        not_run=tuple(one.series for one in expected if one.last_commit_sha != head and not one.never_measured),
    )


def _newest_versions(records: Sequence[SeriesRecord], place: Mapping[str, int]) -> list[SeriesRecord]:
    newest: dict[object, SeriesRecord] = {}
    for record in records:
        series = record.series
        key = (series.benchmark.name, series.parameters, series.metric.name, series.machine, series.variant)
        held = newest.get(key)
        if held is None or place[record.last_commit_sha or ""] < place[held.last_commit_sha or ""]:
            newest[key] = record
    return list(newest.values())


def _recent(commits: Sequence[Commit], verdicts: Sequence[VerdictRecord]) -> tuple[CommitLine, ...]:
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        if _is_conviction(one.verdict):
            found.setdefault(one.verdict.head, []).append(one.verdict)
    return tuple(CommitLine(commit, tuple(found.get(commit.sha, ()))) for commit in commits[:RECENT_COMMITS])


def _is_conviction(verdict: Verdict) -> bool:
    return verdict.kind in MOVES and verdict.stage is Stage.CONVICTION and verdict.base != verdict.head
