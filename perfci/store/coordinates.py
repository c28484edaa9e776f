"""Find or add the rows that measurements hang on: project, commit, machine, environment, variant, benchmark, series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, Commit, Environment, Machine, PerfciError, Run, Series, Variant
from perfci.store import values
from perfci.store.dialects import insert_or_ignore
from perfci.store.tables import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    ProjectRow,
    RunRow,
    SeriesRow,
    SessionRow,
    Table,
    VariantRow,
)
from perfci.store.values import Ids, identity, machine_identity

CHUNK = 500
"""Values in one IN list, well under what any database accepts."""


def table(row: type[Table]) -> sa.Table:
    """The plain table behind a mapped class: statements on it skip the object bookkeeping nobody needs here."""
    return cast(sa.Table, row.__table__)


def ids(tx: Session) -> Ids:
    return cast(Ids, tx.info.setdefault("ids", Ids()))


def project_id(tx: Session, slug: str) -> int:
    return ids(tx).get(("project", slug), lambda: _find_or_add(tx, ProjectRow, {"slug": slug}))


def project_of_run(tx: Session, run_id: int) -> int:
    """The project a run was stored for; the ids a store has seen make this free for the run being measured."""

    def find() -> int:
        query = sa.select(SessionRow.project_id).join(RunRow, RunRow.session_id == SessionRow.id)
        found = tx.scalar(query.where(RunRow.id == run_id))
        if found is None:
            raise PerfciError(f"There is no run {run_id} to add measurements to.")
        return int(found)

    return ids(tx).get(("project of run", run_id), find)


def session_id(tx: Session, uid: str) -> int:
    def find() -> int:
        found = tx.scalar(sa.select(SessionRow.id).where(SessionRow.uid == uid))
        if found is None:
            raise PerfciError(f"There is no session {uid}: start it before adding to it.")
        return found

    return ids(tx).get(("session", uid), find)


def imported_session_id(tx: Session, project: int, run: Run, kind: str) -> int:
    """The session a finished run from elsewhere belongs to, added with the first run of it."""

    def find_or_add() -> int:
        started = {"started_at": run.started_at, "finished_at": run.finished_at or run.started_at}
        plan = {"kind": kind, "spec_hash": "", "seed": "0", "rounds": 0, "state": "finished"}
        found = _find_or_add(tx, SessionRow, {"uid": run.session}, {"project_id": project, **plan, **started})
        if tx.scalar(sa.select(SessionRow.project_id).where(SessionRow.id == found)) != project:
            raise PerfciError(f"The session {run.session} belongs to another project than {run.project}.")
        return found

    return ids(tx).get(("session", project, run.session), find_or_add)


def machine_id(tx: Session, machine: Machine) -> int:
    def find_or_add() -> int:
        row = {name: getattr(machine, name) for name in machine.__dataclass_fields__}
        return _find_or_add(tx, MachineRow, {"identity": machine_identity(machine)}, row)

    return ids(tx).get(machine, find_or_add)


def environment_id(tx: Session, environment: Environment) -> int:
    key, row = {"identity": identity(environment.values)}, {"observed": environment.values}
    return ids(tx).get(environment, lambda: _find_or_add(tx, EnvironmentRow, key, row))


def variant_id(tx: Session, variant: Variant) -> int:
    key, row = {"identity": identity(variant.values)}, {"chosen": variant.values}
    return ids(tx).get(variant, lambda: _find_or_add(tx, VariantRow, key, row))


def benchmark_id(tx: Session, project: int, benchmark: Benchmark) -> int:
    key = {"project_id": project, "name": benchmark.name, "version": benchmark.version}
    return ids(tx).get((project, benchmark), lambda: _find_or_add(tx, BenchmarkRow, key))


def series_id(tx: Session, project: int, series: Series) -> int:
    def find_or_add() -> int:
        slug = tx.scalar(sa.select(ProjectRow.slug).where(ProjectRow.id == project))
        row = {
            "benchmark_id": benchmark_id(tx, project, series.benchmark),
            "parameters": series.parameters,
            "metric": series.metric.name,
            "unit": series.metric.unit,
            "direction": series.metric.direction,
            "machine_id": machine_id(tx, series.machine),
            "variant_id": variant_id(tx, series.variant),
            "harness": series.harness,
        }
        return _find_or_add(tx, SeriesRow, {"identity": values.series_identity(str(slug), series)}, row)

    return ids(tx).get((project, series), find_or_add)


def commit_ids(tx: Session, project: int, commits: Sequence[Commit]) -> dict[tuple[str, bool], int]:
    """Add commits, or complete what is known of them, and answer their ids by (sha, dirty)."""
    known = _stored_commits(tx, project, [commit.sha for commit in commits])
    new = {(commit.sha, commit.dirty): commit for commit in commits if (commit.sha, commit.dirty) not in known}
    if new:
        rows = [{"project_id": project, **_commit_columns(commit)} for commit in new.values()]
        tx.execute(insert_or_ignore(tx, CommitRow), rows)
        known |= _stored_commits(tx, project, [commit.sha for commit in new.values()])
    for commit in commits:
        row = known[commit.sha, commit.dirty]
        if change := _completed(row, commit):
            tx.execute(sa.update(table(CommitRow)).where(CommitRow.id == row.id).values(**change))
    return {key: row.id for key, row in known.items()}


def _stored_commits(tx: Session, project: int, shas: Sequence[str]) -> dict[tuple[str, bool], Any]:
    query = sa.select(table(CommitRow)).where(CommitRow.project_id == project)
    found = {}
    for start in range(0, len(shas), CHUNK):
        for row in tx.execute(query.where(CommitRow.sha.in_(shas[start : start + CHUNK]))):
            found[row.sha, row.dirty] = row
    return found


def _commit_columns(commit: Commit) -> dict[str, Any]:
    return {name: getattr(commit, name) for name in commit.__dataclass_fields__}


def _completed(row: Any, commit: Commit) -> dict[str, Any]:
    """What a newer report of a commit changes.

    What git alone knows (a subject, parents, a position) marks a report as coming from git: it may correct the rest.
    Other reports, such as asv's with the author's date, only fill gaps.
    """
    from_git = bool(commit.subject or commit.parents or commit.position is not None)
    change = {}
    for name, value in _commit_columns(commit).items():
        stored = getattr(row, name)
        stored = tuple(stored) if isinstance(stored, list) else stored
        if value not in (None, "", ()) and value != stored and (from_git or stored in (None, "", ())):
            change[name] = value
    return change


def _find_or_add(tx: Session, row: type[Table], key: Mapping[str, Any], rest: Mapping[str, Any] | None = None) -> int:
    """Answer the id of the row with this key, adding it if need be; another writer may add it at the same moment."""
    columns = table(row).c
    query = sa.select(columns.id).where(*(columns[name] == value for name, value in key.items()))
    found = tx.scalar(query)
    if found is None:
        tx.execute(insert_or_ignore(tx, row), {**key, **(rest or {})})
        found = tx.scalar(query)
    assert found is not None
    return int(found)
