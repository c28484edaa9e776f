"""The view model of one commit: its values and the verdicts on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.model import Commit, Run, Series, Status, Verdict
from perfci.report.number_format import format_count
from perfci.report.series_trend import Dot
from perfci.report.verdict_text import rank_verdicts_by_severity, verdict_counts_sentence
from perfci.store.queries.query_records import RunRecord, VerdictRecord
from perfci.verdicts.policy import select_judged_series
from perfci_web.view_parts.commit_measurements import collect_processes_by_series, merge_runs_into_dots
from perfci_web.view_parts.table_row_groups import (
    BenchmarkSection,
    MissingReason,
    build_benchmark_sections,
    format_failure,
    group_rows_by_benchmark_cell,
    group_series_by_reason,
)


@dataclass(frozen=True, slots=True)
class SeriesAtCommit:
    """One series at this commit; an informational one is shown and not judged."""

    series: Series
    dot: Dot
    informational: bool

    @property
    def is_unavailable(self) -> bool:
        return self.dot.status is Status.SKIPPED

    @property
    def has_failed(self) -> bool:
        return self.dot.level is None and not self.is_unavailable


@dataclass(frozen=True, slots=True)
class CommitView:
    """The page of one commit; ``before`` and ``after`` are its neighbours in the history."""

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
        """All series that the page links to."""
        measured = [value.series for value in self.series_values]
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
    # A working tree is in no history; the page of one shows it alone among its neighbours.
    line = [other for other in commits if not other.dirty or other.sha == commit.sha]
    position = next((k for k, other in enumerate(line) if other.sha == commit.sha), None)
    all_verdicts = [record.verdict for record in verdicts]
    as_head = rank_verdicts_by_severity(verdict for verdict in all_verdicts if verdict.head == commit.sha)
    as_base = rank_verdicts_by_severity(
        verdict for verdict in all_verdicts if verdict.base == commit.sha and verdict.head != commit.sha
    )
    judged = set(select_judged_series(collect_processes_by_series(runs)))
    values = [
        SeriesAtCommit(series, dot, series not in judged)
        for series, dot in merge_runs_into_dots(runs).items()
    ]
    newest = max(runs, key=lambda run: run.started_at, default=None)
    with_level = [value for value in values if value.dot.level is not None]
    return CommitView(
        project=project,
        commit=commit,
        sentence=_format_sentence(as_head, values),
        before=line[position + 1] if position is not None and position + 1 < len(line) else None,
        after=line[position - 1] if position else None,
        verdicts=tuple(as_head),
        verdicts_as_base=tuple(as_base),
        series_values=tuple(values),
        failed=group_series_by_reason(
            (format_failure(value.dot.status, value.dot.reason), value.series)
            for value in values
            if value.has_failed
        ),
        measured=_fold_values(value for value in with_level if not value.informational),
        informational=_fold_values(value for value in with_level if value.informational),
        unavailable=group_series_by_reason(
            (value.dot.reason, value.series) for value in values if value.is_unavailable
        ),
        runs=tuple(records),
        environment=newest.environment.values if newest else (),
    )


def _fold_values(values: Iterable[SeriesAtCommit]) -> tuple[BenchmarkSection[SeriesAtCommit], ...]:
    cells = group_rows_by_benchmark_cell(values, lambda value: value.series)
    return build_benchmark_sections(sorted(cells, key=lambda cell: cell.series.cell))


def _format_sentence(verdicts: Sequence[Verdict], values: Sequence[SeriesAtCommit]) -> str:
    unavailable = sum(value.is_unavailable for value in values)
    failed = sum(value.has_failed for value in values)
    measured = format_count(len(values) - failed - unavailable, "series", "series") + " measured"
    parts = [measured if values else "Nothing was measured here"]
    if failed:
        parts.append(f"{failed:,} failed")
    if unavailable:
        parts.append(f"{unavailable:,} not available here")
    if verdicts:
        parts.append(f"compared with another commit: {verdict_counts_sentence(verdicts)}")
    return "; ".join(parts) + "."
