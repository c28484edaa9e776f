"""The view model of one commit: its values and the verdicts on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import ChangePoint, Commit, Run, Series, Stage, Status, TailVerdict, Verdict
from perfci.number_format import format_count
from perfci.report.commits.measurements_by_series import collect_processes_by_series, merge_runs_into_dots
from perfci.report.series_trend import Dot
from perfci.report.verdict_text import (
    CHANGE_KINDS,
    QUIET_KINDS,
    rank_verdicts_by_severity,
    verdict_counts_sentence,
)
from perfci.store.queries.query_records import RunRecord, VerdictRecord
from perfci.verdicts.judged_series import select_judged_series
from perfci_web.view_parts.list_search_and_paging import (
    ListPage,
    ListQuery,
    build_cell_list_page,
    build_list_page,
    search_rows,
)
from perfci_web.view_parts.table_row_groups import (
    CellRows,
    MissingReason,
    format_failure,
    group_series_by_reason,
)


@dataclass(frozen=True, slots=True)
class SeriesAtCommit:
    """One series at this commit; an informational one is shown and not judged.

    ``change`` is how its level moved here, where it did, ``tail`` what its tail did in the pairs that the
    change was measured on.
    """

    series: Series
    dot: Dot
    informational: bool
    change: ChangePoint | None = None
    tail: TailVerdict | None = None

    @property
    def is_unavailable(self) -> bool:
        return self.dot.status is Status.SKIPPED

    @property
    def has_failed(self) -> bool:
        return self.dot.level is None and not self.is_unavailable

    @property
    def absolute_log_change(self) -> float:
        """How far the level moved either way: halved is as far as doubled."""
        if self.change is None:
            return 0.0
        change = self.change.relative_change
        return abs(math.log1p(change)) if change > -1 else math.inf


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
    runs: tuple[RunRecord, ...]
    environment: tuple[tuple[str, str], ...]


LIST_NAMES = ("compared", "quiet", "base", "quiet_base", "measured", "informational")
"""Names of lists as an address has them."""


@dataclass(frozen=True, slots=True)
class CommitLists:
    """The lists of a commit as an address selects them, what moved most first.

    Quiet verdicts need no action; ``quiet_counts`` are the kinds of them by the name of their list.
    """

    query: ListQuery
    compared: ListPage[Verdict]
    quiet: ListPage[Verdict]
    base: ListPage[Verdict]
    quiet_base: ListPage[Verdict]
    measured: ListPage[CellRows[SeriesAtCommit]]
    informational: ListPage[CellRows[SeriesAtCommit]]
    failed: tuple[MissingReason, ...]
    unavailable: tuple[MissingReason, ...]
    quiet_counts: Mapping[str, str]

    @property
    def lists(self) -> tuple[ListPage[Any], ...]:
        return self.compared, self.quiet, self.base, self.quiet_base, self.measured, self.informational

    @property
    def linked_series(self) -> list[Series]:
        """All series that the page links to."""
        verdicts = (*self.compared.rows, *self.quiet.rows, *self.base.rows, *self.quiet_base.rows)
        cells = (*self.measured.rows, *self.informational.rows)
        reasons = (*self.failed, *self.unavailable)
        return [
            *(verdict.series for verdict in verdicts),
            *(value.series for cell in cells for value in cell.rows),
            *(series for reason in reasons for series in reason.series),
        ]


def paginate_lists(page: CommitView, query: ListQuery) -> CommitLists:
    """Cut the lists of a commit to the page that an address selects."""

    def cut_verdicts(name: str, title: str, verdicts: Sequence[Verdict], *, quiet: bool) -> ListPage[Verdict]:
        chosen = [verdict for verdict in verdicts if (verdict.kind in QUIET_KINDS) == quiet]
        return build_list_page(name, title, chosen, query, lambda verdict: verdict.series)

    def cut_values(name: str, title: str, *, informational: bool) -> ListPage[CellRows[SeriesAtCommit]]:
        with_level = (value for value in page.series_values if value.dot.level is not None)
        chosen = [value for value in with_level if value.informational == informational]
        most_moved_first = sorted(chosen, key=lambda value: (-value.absolute_log_change, value.series.cell))
        return build_cell_list_page(name, title, most_moved_first, query, lambda value: value.series)

    values = search_rows(page.series_values, query, lambda value: value.series)
    return CommitLists(
        query,
        compared=cut_verdicts("compared", "Compared with an earlier state", page.verdicts, quiet=False),
        quiet=cut_verdicts("quiet", "Unchanged or open", page.verdicts, quiet=True),
        base=cut_verdicts("base", "As the base of a later one", page.verdicts_as_base, quiet=False),
        quiet_base=cut_verdicts("quiet_base", "Unchanged or open as base", page.verdicts_as_base, quiet=True),
        measured=cut_values("measured", "Measured", informational=False),
        informational=cut_values("informational", "Informational", informational=True),
        failed=group_series_by_reason(
            (format_failure(value.dot.status, value.dot.reason), value.series)
            for value in values
            if value.has_failed
        ),
        unavailable=group_series_by_reason(
            (value.dot.reason, value.series) for value in values if value.is_unavailable
        ),
        quiet_counts={
            "quiet": _count_quiet(page.verdicts, query),
            "quiet_base": _count_quiet(page.verdicts_as_base, query),
        },
    )


def _count_quiet(verdicts: Iterable[Verdict], query: ListQuery) -> str:
    matches = search_rows(verdicts, query, lambda verdict: verdict.series)
    return verdict_counts_sentence(verdict for verdict in matches if verdict.kind in QUIET_KINDS)


def build_commit_view(
    project: str,
    commit: Commit,
    commits: Sequence[Commit],
    records: Sequence[RunRecord],
    runs: Sequence[Run],
    verdicts: Sequence[VerdictRecord],
    changes: Iterable[ChangePoint] = (),
) -> CommitView:
    """Join what was measured at a commit with what was decided about it.

    ``commits``, newest first, have at least its neighbours; ``changes`` are the change points at this commit.
    """
    # A working tree is in no history; the page of one shows it alone among its neighbours.
    line = [other for other in commits if not other.dirty or other.sha == commit.sha]
    position = next((k for k, other in enumerate(line) if other.sha == commit.sha), None)
    all_verdicts = [record.verdict for record in verdicts]
    as_head = rank_verdicts_by_severity(verdict for verdict in all_verdicts if verdict.head == commit.sha)
    as_base = rank_verdicts_by_severity(
        verdict for verdict in all_verdicts if verdict.base == commit.sha and verdict.head != commit.sha
    )
    judged = set(select_judged_series(collect_processes_by_series(runs)))
    before = line[position + 1] if position is not None and position + 1 < len(line) else None
    moves = _collect_moves(changes, as_head, before)
    values = [
        SeriesAtCommit(series, dot, series not in judged, *moves.get(series, (None, None)))
        for series, dot in merge_runs_into_dots(runs).items()
    ]
    newest = max(runs, key=lambda run: run.started_at, default=None)
    return CommitView(
        project=project,
        commit=commit,
        sentence=_format_sentence(as_head, values),
        before=before,
        after=line[position - 1] if position else None,
        verdicts=tuple(as_head),
        verdicts_as_base=tuple(as_base),
        series_values=tuple(values),
        runs=tuple(records),
        environment=newest.environment.values if newest else (),
    )


def _collect_moves(
    changes: Iterable[ChangePoint], verdicts: Iterable[Verdict], before: Commit | None
) -> Mapping[Series, tuple[ChangePoint, TailVerdict | None]]:
    """The change of each series at a commit and its tail: as pairs with the commit before it confirmed it,
    else as its history has it."""
    moves: dict[Series, tuple[ChangePoint, TailVerdict | None]] = {
        change.series: (change, None) for change in changes
    }
    for verdict in verdicts:
        change, _ = moves.get(verdict.series, (None, None))
        last_good = change.last_good if change else before and before.sha
        is_confirmed = verdict.stage is Stage.CONFIRMATION and verdict.kind in CHANGE_KINDS
        if is_confirmed and verdict.ratio and verdict.base == last_good:
            moves[verdict.series] = verdict.as_change_point, verdict.tail
    return moves


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
