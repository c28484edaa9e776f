"""The view model of one commit: its values and the verdicts on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfci.history.comparisons.run_level_columns import RunLevels
from perfci.history.comparisons.series_columns import Column, SeriesColumns
from perfci.history.point_columns import STATUS_CODES
from perfci.model import ChangePoint, Commit, Series, Stage, Status, TailVerdict, Verdict
from perfci.number_format import format_count
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import (
    CHANGE_KINDS,
    QUIET_KINDS,
    rank_verdicts_by_severity,
    verdict_counts_sentence,
)
from perfci.store.queries.query_records import RunRecord, VerdictRecord
from perfci_web.view_parts.list_search_and_paging import (
    ListPage,
    ListQuery,
    build_list_page,
    number_pages_of_cells,
    search_rows,
)
from perfci_web.view_parts.table_row_groups import (
    CellRows,
    MissingReason,
    format_failure,
    group_rows_by_benchmark_cell,
    group_series_by_reason,
)

Move = tuple[ChangePoint, TailVerdict | None]
"""How the level of a series moved at a commit, and what its tail did in the pairs that measured it."""


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


@dataclass(frozen=True, slots=True, eq=False)
class CommitValues:
    """What a commit came to in each series; ``judged`` tells by place which of them verdicts are given on."""

    series: SeriesColumns
    levels: RunLevels
    judged: Column

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def has_level(self) -> Column:
        has_level: Column = ~np.isnan(self.levels.rows["level"])
        return has_level

    @property
    def is_unavailable(self) -> Column:
        is_skipped: Column = self.levels.rows["status"] == STATUS_CODES[Status.SKIPPED]
        return is_skipped

    @property
    def has_failed(self) -> Column:
        return ~self.has_level & ~self.is_unavailable

    def list_reasons(self, chosen: Column, search: str) -> Iterator[tuple[Status, str, Series]]:
        """Status, reason and series of some of them that a search leaves, by name."""
        places = self.series.search(self.levels.places[chosen], search)
        for place in places[np.argsort(self.series.cells[places], kind="stable")].tolist():
            level = self.levels.others[place]
            status = Status.FAILED if level.status is Status.OK else level.status
            yield status, level.reason, self.series.series[place]

    def order(self, *, informational: bool, moves: Mapping[Series, Move], search: str) -> Column:
        """The places of the series with a level, what moved most first."""
        places = self.levels.places[self.has_level]
        places = self.series.search(places[self.judged[places] != informational], search)
        sizes = np.zeros(len(self.series.ids))
        for series, (change, _) in moves.items():
            if series in self.series.places:
                sizes[self.series.places[series]] = _absolute_log_change(change)
        chosen: Column = places[np.lexsort((places, self.series.cells[places], -sizes[places]))]
        return chosen


def _absolute_log_change(change: ChangePoint) -> float:
    """How far the level moved either way: halved is as far as doubled."""
    return abs(math.log1p(change.relative_change)) if change.relative_change > -1 else math.inf


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
    values: CommitValues
    moves: Mapping[Series, Move]
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


def paginate_lists(
    page: CommitView, query: ListQuery, load_dots: Callable[[Collection[int]], Mapping[Series, Dot]]
) -> CommitLists:
    """Cut the lists of a commit to the page that an address selects, and load the dots of their series, which
    are given by id."""

    def cut_verdicts(name: str, title: str, verdicts: Sequence[Verdict], *, quiet: bool) -> ListPage[Verdict]:
        chosen = [verdict for verdict in verdicts if (verdict.kind in QUIET_KINDS) == quiet]
        return build_list_page(name, title, chosen, query, lambda verdict: verdict.series)

    values = page.values
    measured = _cut_cells("measured", "Measured", page, query, informational=False)
    informational = _cut_cells("informational", "Informational", page, query, informational=True)
    shown = np.concatenate([*measured.rows, *informational.rows]).astype(np.int64)
    dots = load_dots(values.series.ids[shown].tolist())
    return CommitLists(
        query,
        compared=cut_verdicts("compared", "Compared with an earlier state", page.verdicts, quiet=False),
        quiet=cut_verdicts("quiet", "Unchanged or open", page.verdicts, quiet=True),
        base=cut_verdicts("base", "As the base of a later one", page.verdicts_as_base, quiet=False),
        quiet_base=cut_verdicts("quiet_base", "Unchanged or open as base", page.verdicts_as_base, quiet=True),
        measured=_fill_cells(measured, page, dots),
        informational=_fill_cells(informational, page, dots),
        failed=group_series_by_reason(
            (format_failure(status, reason), series)
            for status, reason, series in values.list_reasons(values.has_failed, query.search)
        ),
        unavailable=group_series_by_reason(
            (reason, series) for _, reason, series in values.list_reasons(values.is_unavailable, query.search)
        ),
        quiet_counts={
            "quiet": _count_quiet(page.verdicts, query),
            "quiet_base": _count_quiet(page.verdicts_as_base, query),
        },
    )


def _cut_cells(
    name: str, title: str, page: CommitView, query: ListQuery, *, informational: bool
) -> ListPage[Column]:
    """The places of one page of a list, in whole cells: the processes that measured several metrics."""
    places = page.values.order(informational=informational, moves=page.moves, search=query.search)
    _, first, cell, counts = np.unique(
        page.values.series.processes[places], return_index=True, return_inverse=True, return_counts=True
    )
    in_order = np.argsort(first)
    numbers = np.zeros(len(counts), np.int64)
    numbers[in_order] = list(number_pages_of_cells(counts[in_order].tolist()))
    pages = int(numbers.max(initial=1))
    number = min(query.page_number_of(name), pages)
    return ListPage(name, title, (places[numbers[cell] == number],), len(places), number, pages)


def _fill_cells(
    cut: ListPage[Column], page: CommitView, dots: Mapping[Series, Dot]
) -> ListPage[CellRows[SeriesAtCommit]]:
    """Put what is shown of each series in the place of it."""
    all_series = page.values.series.series
    rows = [
        SeriesAtCommit(
            series, dots[series], cut.name == "informational", *page.moves.get(series, (None, None))
        )
        for places in cut.rows
        for series in (all_series[place] for place in places.tolist())
    ]
    cells = group_rows_by_benchmark_cell(rows, lambda row: row.series)
    return ListPage(cut.name, cut.title, tuple(cells), cut.total, cut.page, cut.pages)


def _count_quiet(verdicts: Iterable[Verdict], query: ListQuery) -> str:
    matches = search_rows(verdicts, query, lambda verdict: verdict.series)
    return verdict_counts_sentence(verdict for verdict in matches if verdict.kind in QUIET_KINDS)


def build_commit_view(
    project: str,
    commit: Commit,
    commits: Sequence[Commit],
    records: Sequence[RunRecord],
    values: CommitValues,
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
    before = line[position + 1] if position is not None and position + 1 < len(line) else None
    newest = max(records, key=lambda run: run.started_at, default=None)
    return CommitView(
        project=project,
        commit=commit,
        sentence=_format_sentence(as_head, values),
        before=before,
        after=line[position - 1] if position else None,
        verdicts=tuple(as_head),
        verdicts_as_base=tuple(as_base),
        values=values,
        moves=_collect_moves(changes, as_head, before),
        runs=tuple(records),
        environment=newest.environment.values if newest else (),
    )


def _collect_moves(
    changes: Iterable[ChangePoint], verdicts: Iterable[Verdict], before: Commit | None
) -> Mapping[Series, Move]:
    """The change of each series at a commit and its tail: as pairs with the commit before it confirmed it,
    else as its history has it."""
    moves: dict[Series, Move] = {change.series: (change, None) for change in changes}
    for verdict in verdicts:
        change, _ = moves.get(verdict.series, (None, None))
        last_good = change.last_good if change else before and before.sha
        is_confirmed = verdict.stage is Stage.CONFIRMATION and verdict.kind in CHANGE_KINDS
        if is_confirmed and verdict.ratio and verdict.base == last_good:
            moves[verdict.series] = verdict.as_change_point, verdict.tail
    return moves


def _format_sentence(verdicts: Sequence[Verdict], values: CommitValues) -> str:
    unavailable = int(values.is_unavailable.sum())
    failed = int(values.has_failed.sum())
    measured = format_count(len(values) - failed - unavailable, "series", "series") + " measured"
    parts = [measured if len(values) else "Nothing was measured here"]
    if failed:
        parts.append(f"{failed:,} failed")
    if unavailable:
        parts.append(f"{unavailable:,} not available here")
    if verdicts:
        parts.append(f"compared with another commit: {verdict_counts_sentence(verdicts)}")
    return "; ".join(parts) + "."
