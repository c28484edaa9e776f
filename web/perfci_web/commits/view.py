"""The page of one commit: what did it measure, and what changed with it?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.model import Commit, Run, Series, Status, Verdict
from perfci.report.charts.series_trend import Dot
from perfci.report.number_format import format_count
from perfci.report.verdict_sentences import counts_sentence, rank_verdicts
from perfci.store.queries.records import RunRecord, VerdictRecord
from perfci.verdicts.judged_series import select_judged_series
from perfci_web.view_parts.cells import BenchmarkSection, fold_by_benchmark, group_by_cell
from perfci_web.view_parts.commit_values import build_dots, collect_processes
from perfci_web.view_parts.missing_reasons import MissingReason, format_failure, group_by_reason


@dataclass(frozen=True, slots=True)
class SeriesAtCommit:
    """One series at this commit; a witness is shown and not judged."""

    series: Series
    dot: Dot
    informational: bool

    @property
    def unavailable(self) -> bool:
        return self.dot.status is Status.SKIPPED

    @property
    def failed(self) -> bool:
        return self.dot.level is None and not self.unavailable


@dataclass(frozen=True, slots=True)
class CommitView:
    project: str
    commit: Commit
    sentence: str
    before: Commit | None
    after: Commit | None
    verdicts: tuple[Verdict, ...]
    verdicts_as_base: tuple[Verdict, ...]
    series_values: tuple[SeriesAtCommit, ...]
    failed: tuple[MissingReason, ...]
    measured: tuple[BenchmarkSection[SeriesAtCommit], ...]
    informational: tuple[BenchmarkSection[SeriesAtCommit], ...]
    unavailable: tuple[MissingReason, ...]
    runs: tuple[RunRecord, ...]
    environment: tuple[tuple[str, str], ...]

    @property
    def linked_series(self) -> list[Series]:
        """The series that the page names."""
        measured = [reading.series for reading in self.series_values]
        return measured + [verdict.series for verdict in (*self.verdicts, *self.verdicts_as_base)]


def build_commit_view(
    project: str,
    commit: Commit,
    commits: Sequence[Commit],
    records: Sequence[RunRecord],
    runs: Sequence[Run],
    verdicts: Sequence[VerdictRecord],
) -> CommitView:
    """Join what was measured at a commit with what was decided about it; ``commits`` come newest first."""
    line = [one for one in commits if not one.dirty or one.sha == commit.sha]
    place = next((k for k, one in enumerate(line) if one.sha == commit.sha), None)
    into = rank_verdicts(one.verdict for one in verdicts if one.verdict.head == commit.sha)
    out = rank_verdicts(
        one.verdict for one in verdicts if one.verdict.base == commit.sha and one.verdict.head != commit.sha
    )
    readings = _collect_values(runs)
    return CommitView(
        project=project,
        commit=commit,
        sentence=_format_sentence(into, readings),
        before=line[place + 1] if place is not None and place + 1 < len(line) else None,
        after=line[place - 1] if place else None,
        verdicts=tuple(into),
        verdicts_as_base=tuple(out),
        series_values=tuple(readings),
        failed=group_by_reason(
            (format_failure(one.dot.status, one.dot.reason), one.series) for one in readings if one.failed
        ),
        measured=_fold_values(one for one in readings if one.dot.level is not None and not one.informational),
        informational=_fold_values(
            one for one in readings if one.dot.level is not None and one.informational
        ),
        unavailable=group_by_reason((one.dot.reason, one.series) for one in readings if one.unavailable),
        runs=tuple(records),
        environment=_newest_environment(runs),
    )


def _collect_values(runs: Sequence[Run]) -> list[SeriesAtCommit]:
    """What the runs gave, in the order it was stored."""
    on_trial = set(select_judged_series(collect_processes(runs)))
    return [SeriesAtCommit(series, dot, series not in on_trial) for series, dot in build_dots(runs).items()]


def _fold_values(values: Iterable[SeriesAtCommit]) -> tuple[BenchmarkSection[SeriesAtCommit], ...]:
    cells = group_by_cell(values, lambda reading: reading.series)
    return fold_by_benchmark(sorted(cells, key=lambda cell: cell.series.cell))


def _format_sentence(verdicts: Sequence[Verdict], values: Sequence[SeriesAtCommit]) -> str:
    unavailable = sum(reading.unavailable for reading in values)
    failed = sum(reading.failed for reading in values)
    measured = format_count(len(values) - failed - unavailable, "series", "series") + " measured"
    told = [measured if values else "Nothing was measured here"]
    told += [f"{failed:,} failed"] if failed else []
    told += [f"{unavailable:,} not available here"] if unavailable else []
    told += [f"compared with another commit: {counts_sentence(verdicts)}"] if verdicts else []
    return "; ".join(told) + "."


def _newest_environment(runs: Sequence[Run]) -> tuple[tuple[str, str], ...]:
    """What was observed while measuring, of the newest run."""
    newest = max(runs, key=lambda run: run.started_at, default=None)
    return newest.environment.values if newest else ()
