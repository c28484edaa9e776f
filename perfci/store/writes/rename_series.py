"""Move what was measured and decided of series to others, under whose names their histories go on.

A series that was moved stays as an empty row that names the other one, so that later results of the old name
go there too. The caller owns the transaction ``tx``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, Series
from perfci.store.projects import mark_projects_changed
from perfci.store.tables.base import TableBase
from perfci.store.tables.chart_notes import ChartNoteRow
from perfci.store.tables.incidents import ImpactRow, IncidentMemberRow
from perfci.store.tables.measurements import InvalidMarkRow, ResultRow, RunRow, SeriesRow
from perfci.store.tables.series_archive import ArchivedSeriesRow
from perfci.store.tables.variant_comparisons import GoalClauseRow, VariantVerdictRow
from perfci.store.tables.verdicts import ChangePointRow, VerdictRow
from perfci.store.transactions import forget_cached_ids, in_chunks
from perfci.store.writes.series_points import delete_series_points

SERIES, RESULTS, RUNS = SeriesRow.__table__, ResultRow.__table__, RunRow.__table__

MOVED_ROWS: tuple[tuple[type[TableBase], tuple[str, ...]], ...] = (
    (ResultRow, ("run_id",)),
    (InvalidMarkRow, ("run_id",)),
    (IncidentMemberRow, ("incident_id",)),
    (ImpactRow, ("commit",)),
    (ChartNoteRow, ("id",)),
    (VariantVerdictRow, ("step_id",)),
    (GoalClauseRow, ("session_id", "goal", "subject", "clause")),
)
"""Tables that refer to series, each with the columns in which two rows of one series may not agree."""


def move_results_between_series(tx: Session, project_id: int, renamed: Mapping[int, int]) -> int:
    """Move series, old id to new; return how many results moved.

    What both have for the same run, incident or question stays with the old one, which keeps it.
    """
    moved = 0
    for old, new in renamed.items():
        tx.execute(sa.update(SERIES).where(SERIES.c.id == new).values(renamed_to=None))
        followers = sa.or_(SERIES.c.id == old, SERIES.c.renamed_to == old)
        tx.execute(sa.update(SERIES).where(followers, SERIES.c.id != new).values(renamed_to=new))
        for row, same in MOVED_ROWS:
            count = _move_rows(tx, row.__table__, same, old, new)
            moved += count if row is ResultRow else 0
        _move_verdicts(tx, old, new)
        tx.execute(sa.delete(ChangePointRow.__table__).where(ChangePointRow.series_id.in_([old, new])))
        # What goes on under another name is measured: it is not archived with the old name.
        tx.execute(sa.delete(ArchivedSeriesRow.__table__).where(ArchivedSeriesRow.series_id == old))
        delete_series_points(tx, [old, new])
    update_machine_of_runs(tx, list(renamed.values()))
    forget_cached_ids(tx)
    mark_projects_changed(tx, [project_id])
    return moved


def update_machine_of_runs(tx: Session, series_ids: Collection[int]) -> None:
    """Let the runs that measured some series name the machine of these: one that was renamed is another."""
    for some in in_chunks(series_ids):
        of_series = RESULTS.c.series_id.in_(some)
        machine = (
            sa.select(SERIES.c.machine_id)
            .join(RESULTS, RESULTS.c.series_id == SERIES.c.id)
            .where(RESULTS.c.run_id == RUNS.c.id, of_series)
            .limit(1)
            .correlate(RUNS)
            .scalar_subquery()
        )
        runs = sa.select(RESULTS.c.run_id).where(of_series)
        tx.execute(sa.update(RUNS).where(RUNS.c.id.in_(runs)).values(machine_id=machine))


def _move_rows(tx: Session, table: sa.Table, same: tuple[str, ...], old: int, new: int) -> int:
    """Move the rows of one table, except those that the new series has already; return how many."""
    taken = _select_taken(table, same, new)
    statement: Any = sa.update(table).where(table.c.series_id == old, ~taken).values(series_id=new)
    return int(tx.connection().execute(statement).rowcount)


def _move_verdicts(tx: Session, old: int, new: int) -> None:
    """Let verdicts follow their series, which a trigger allows where ``renamed_to`` says so."""
    columns = VerdictRow.__table__.c
    taken = _select_taken(VerdictRow.__table__, ("base", "head", "superseded_by"), new)
    mine = (columns.series_id == old, ~taken)
    tx.execute(sa.update(VerdictRow.__table__).where(*mine).values(series_id=new))


def _select_taken(table: sa.Table, same: tuple[str, ...], new: int) -> sa.ColumnElement[bool]:
    """Build the condition that the new series has a row that agrees with the one that would move."""
    other = table.alias()
    agree = [
        sa.or_(other.c[name] == table.c[name], other.c[name].is_(None) & table.c[name].is_(None))
        for name in same
    ]
    return sa.select(other.c.id).where(other.c.series_id == new, *agree).exists()


def follow_renames(series: Series, renamed: Sequence[tuple[Series, Series]]) -> Series:
    """The series under whose identity a new one goes on, as ``renamed`` ones of its name and grid did."""
    names = {name for name, _ in series.parameters}
    of_grid = [
        (old, new)
        for old, new in renamed
        if old.benchmark.name == series.benchmark.name and {name for name, _ in old.parameters} == names
    ]
    same_version = [pair for pair in of_grid if pair[0].benchmark == series.benchmark]
    if of_grid:
        new = (same_version or of_grid)[-1][1]
        version = new.benchmark.version if same_version else series.benchmark.version
        values = dict(new.parameters) | dict(series.parameters)
        parameters = tuple((name, values[name]) for name, _ in new.parameters)
        series = replace(series, benchmark=Benchmark(new.benchmark.name, version), parameters=parameters)
    machines = {old.machine: new.machine for old, new in renamed if old.machine != new.machine}
    return replace(series, machine=machines.get(series.machine, series.machine))


def replace_renamed_series_ids(tx: Session, series_ids: list[int]) -> list[int]:
    """Replace series that were renamed by those under whose names they go on."""
    rows = tx.connection().execute(
        sa.select(SERIES.c.id, SERIES.c.renamed_to).where(SERIES.c.renamed_to.is_not(None))
    )
    renamed = {row.id: row.renamed_to for row in rows}
    return [renamed.get(row_id, row_id) for row_id in series_ids] if renamed else series_ids


def find_rename_target_ids(tx: Session) -> list[int]:
    """Find the ids of the series under whose names others go on."""
    return list(tx.scalars(sa.select(SERIES.c.renamed_to).where(SERIES.c.renamed_to.is_not(None)).distinct()))
