"""The overview: did anything get worse since I last looked?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import ChangePoint, Commit, Series, Stage, Verdict, VerdictKind
from perfci.report.sentences import Told, overview_sentence
from perfci.report.standing import biggest_moves, open_regressions
from perfci.report.trend import Mark, Trend
from perfci.report.words import MOVES
from perfci.store.records import ProjectRecord, SeriesRecord, VerdictRecord

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
class Coverage:
    """What the newest measured commit has of the series that are still measured."""

    head: Commit | None
    measured: int
    failed: tuple[Series, ...]
    not_run: tuple[Series, ...]

    @property
    def total(self) -> int:
        return self.measured + len(self.failed) + len(self.not_run)


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
    processes: int
    last_measured_at: datetime | None


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
) -> Overview:
    """Join what is known of a project; ``commits`` come newest first, ``trends`` as ``series_to_draw`` asked."""
    by_sha = {commit.sha: commit for commit in commits}
    found = [Finding(trend, mark, by_sha.get(mark.commit)) for trend in trends for mark in open_regressions(trend)]
    worst_first = sorted(found, key=lambda finding: -abs(finding.mark.ratio - 1))
    told = [finding.mark.verdict for finding in worst_first if finding.mark.verdict]
    open_marks = {id(finding.mark) for finding in found}
    confirmed = {(mark.commit, trend.series) for trend in trends for mark in trend.convicted()}
    return Overview(
        project=project.slug,
        sentence=overview_sentence(told, series=project.series, commits=project.commits, compared=bool(verdicts)),
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
        series=project.series,
        processes=project.processes,
        last_measured_at=project.last_measured_at,
    )


def coverage(records: Sequence[SeriesRecord], commits: Sequence[Commit]) -> Coverage:
    """Count the newest measured commit's series; one that another version replaced is no longer expected."""
    place = {commit.sha: k for k, commit in enumerate(commits)}
    seen = [record for record in records if record.last_commit_sha in place]
    if not seen:
        return Coverage(None, 0, (), ())
    head = min(seen, key=lambda record: place[record.last_commit_sha or ""]).last_commit_sha
    expected = _newest_versions(seen, place)
    at_head = [record for record in expected if record.last_commit_sha == head]
    return Coverage(
        head=commits[place[head or ""]],
        measured=sum(not record.failed_last for record in at_head),
        failed=tuple(record.series for record in at_head if record.failed_last),
        not_run=tuple(record.series for record in expected if record.last_commit_sha != head),
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
