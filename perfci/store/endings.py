"""How the history of each series ends: its newest commit, whether that has a value, and what it was read from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Clock, Series, Status
from perfci.store.coordinates import CHUNK
from perfci.store.loading import in_history, load_commits, project_of
from perfci.store.order import along_the_line
from perfci.store.records import SeriesRecord
from perfci.store.tables import CommitRow, ProcessRow, ResultRow, RunRow, SessionRow


class _Outcome(NamedTuple):
    """What the runs of one commit gave of one series: the newest result, the newest with a value, any failure."""

    place: int
    result: int
    measured: int | None
    failed: int


def series_records(tx: Session, project: str, series: Mapping[int, Series]) -> list[SeriesRecord]:
    """The series with the ends of their histories, by name, in as many queries for a thousand as for one hundred."""
    shas, outcomes = _outcomes(tx, project, series)
    newest = {row_id: max(found) for row_id, found in outcomes.items()}
    measured = {row_id: max((one for one in found if one.measured), default=None) for row_id, found in outcomes.items()}
    why = _statuses(tx, [one.result for one in newest.values() if one.measured is None])
    clocks = _clocks(tx, [one.measured for one in measured.values() if one and one.measured])
    records = []
    for row_id, one in series.items():
        if row_id not in newest:
            records.append(SeriesRecord(row_id, one, 0, None, None))
            continue
        end, last = newest[row_id], measured[row_id]
        status, reason = why.get(end.result, (Status.OK, ""))
        never = last is None and not any(outcome.failed for outcome in outcomes[row_id])
        clock = clocks.get(last.measured or 0) if last else None
        records.append(SeriesRecord(row_id, one, len(outcomes[row_id]), shas[end.place], status, reason, never, clock))
    return sorted(records, key=lambda record: (record.series.label, record.id))


def in_chunks(ids: Collection[int]) -> Iterator[Sequence[int]]:
    """As many ids at a time as a query may name."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


def _outcomes(tx: Session, project: str, wanted: Collection[int]) -> tuple[dict[int, str], dict[int, list[_Outcome]]]:
    """The shas of a project by their place on the line, and the commits of each series that has any, in no order."""
    commits = load_commits(tx, project_of(CommitRow.project_id, project))
    line = {commit: place for place, commit in enumerate(along_the_line(commits.values()))}
    place_of = {row_id: line[commit] for row_id, commit in commits.items()}
    quiet = (Status.OK.value, Status.SKIPPED.value)
    columns = (
        sa.func.max(ResultRow.id),
        sa.func.max(sa.case((ResultRow.status == Status.OK.value, ResultRow.id))),
        sa.func.max(sa.case((ResultRow.status.in_(quiet), 0), else_=1)),
    )
    query = in_history(sa.select(ResultRow.series_id, RunRow.commit_id, *columns)).where(
        project_of(SessionRow.project_id, project)
    )
    if len(wanted) <= CHUNK:
        query = query.where(ResultRow.series_id.in_(wanted))
    found: dict[int, list[_Outcome]] = defaultdict(list)
    for series_id, commit_id, *outcome in tx.execute(query.group_by(ResultRow.series_id, RunRow.commit_id)):
        found[series_id].append(_Outcome(place_of[commit_id], *outcome))
    return {place_of[row_id]: commit.sha for row_id, commit in commits.items()}, found


def _statuses(tx: Session, result_ids: Collection[int]) -> dict[int, tuple[Status, str]]:
    """How results ended that gave no value, and why."""
    query = sa.select(ResultRow.id, ResultRow.status, ResultRow.reason)
    rows = (row for some in in_chunks(result_ids) for row in tx.execute(query.where(ResultRow.id.in_(some))))
    return {row_id: (Status(status), reason) for row_id, status, reason in rows}


def _clocks(tx: Session, result_ids: Collection[int]) -> dict[int, Clock]:
    """What the samples of results were read from; nothing where only a summary is known."""
    query = sa.select(ProcessRow.result_id, sa.func.max(ProcessRow.clock)).group_by(ProcessRow.result_id)
    measured = query.where(ProcessRow.status == Status.OK.value)
    rows = (row for some in in_chunks(result_ids) for row in tx.execute(measured.where(ProcessRow.result_id.in_(some))))
    return {row_id: Clock(clock) for row_id, clock in rows}
