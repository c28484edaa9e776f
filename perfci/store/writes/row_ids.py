"""Find or add the rows that measurements refer to: projects, commits, machines, environments, series."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, Commit, Environment, Machine, PerfciError, Run, Series, Variant
from perfci.store import conversions
from perfci.store.conversions import identity, machine_identity
from perfci.store.dialects import in_chunks, insert_or_ignore, insert_rows
from perfci.store.id_cache import get_id_cache
from perfci.store.queries.loaders import find_series_ids
from perfci.store.tables.base import TableBase, core_table
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    ProjectRow,
    RunRow,
    SeriesRow,
    SessionRow,
    VariantRow,
)

COMMITS = core_table(CommitRow)
SESSIONS = core_table(SessionRow)


def ensure_project_id(tx: Session, slug: str) -> int:
    """Find or add a project."""
    return get_id_cache(tx).get_or_add(
        ("project", slug), lambda: _find_or_add(tx, ProjectRow, {"slug": slug})
    )


def load_run_project_id(tx: Session, run_id: int) -> int:
    """Load the project id of a run; it is cached for the run being measured."""

    def find() -> int:
        query = sa.select(SessionRow.project_id).join(RunRow, RunRow.session_id == SessionRow.id)
        project_id = tx.scalar(query.where(RunRow.id == run_id))
        if project_id is None:
            raise PerfciError(f"There is no run {run_id} to add measurements to.")
        return int(project_id)

    return get_id_cache(tx).get_or_add(("project of run", run_id), find)


def require_session_id(tx: Session, uid: str) -> int:
    """Find the id of a session; raise if it was not started."""

    def find() -> int:
        session_id = tx.scalar(sa.select(SessionRow.id).where(SessionRow.uid == uid))
        if session_id is None:
            raise PerfciError(f"There is no session {uid}: start it before adding to it.")
        return session_id

    return get_id_cache(tx).get_or_add(("session", uid), find)


def add_imported_sessions(tx: Session, project: int, runs: Sequence[Run], kind: str) -> None:
    """Add the sessions of finished runs from elsewhere; a session starts with its first run."""
    cache = get_id_cache(tx)
    new = {
        run.session: run for run in reversed(runs) if cache.find(("session", project, run.session)) is None
    }
    plan = {"kind": kind, "spec_hash": "", "seed": "0", "rounds": 0, "state": "finished"}
    rows = [
        {
            "uid": uid,
            "project_id": project,
            **plan,
            "started_at": run.started_at,
            "finished_at": run.finished_at or run.started_at,
        }
        for uid, run in sorted(new.items())
    ]
    session_ids = dict(insert_rows(tx, SESSIONS, rows, "uid", "id", ignore=True))
    for some in in_chunks([uid for uid in new if uid not in session_ids]):
        query = sa.select(SessionRow.uid, SessionRow.id, SessionRow.project_id).where(
            SessionRow.uid.in_(some)
        )
        for uid, row_id, its_project in tx.execute(query):
            if its_project != project:
                raise PerfciError(f"The session {uid} belongs to another project than {new[uid].project}.")
            session_ids[uid] = row_id
    for run in runs:
        row_id = session_ids.get(run.session) or cast(int, cache.find(("session", project, run.session)))
        cache.add(("session", run.session), cache.add(("session", project, run.session), row_id))


def ensure_machine_id(tx: Session, machine: Machine) -> int:
    """Find or add a machine class."""

    def find_or_add() -> int:
        row = {name: getattr(machine, name) for name in machine.__dataclass_fields__}
        return _find_or_add(tx, MachineRow, {"identity": machine_identity(machine)}, row)

    return get_id_cache(tx).get_or_add(machine, find_or_add)


def ensure_environment_id(tx: Session, environment: Environment) -> int:
    """Find or add an environment."""

    def find_or_add() -> int:
        key = {"identity": identity(environment.values)}
        return _find_or_add(tx, EnvironmentRow, key, {"observed": environment.values})

    return get_id_cache(tx).get_or_add(environment, find_or_add)


def ensure_variant_id(tx: Session, variant: Variant) -> int:
    """Find or add a variant."""

    def find_or_add() -> int:
        return _find_or_add(
            tx, VariantRow, {"identity": identity(variant.values)}, {"chosen": variant.values}
        )

    return get_id_cache(tx).get_or_add(variant, find_or_add)


def ensure_benchmark_id(tx: Session, project: int, benchmark: Benchmark) -> int:
    """Find or add a benchmark version."""
    key = {"project_id": project, "name": benchmark.name, "version": benchmark.version}
    return get_id_cache(tx).get_or_add((project, benchmark), lambda: _find_or_add(tx, BenchmarkRow, key))


def ensure_series_id(tx: Session, project: int, series: Series) -> int:
    """Find or add one series."""
    return ensure_series_ids(tx, project, [series])[0]


def ensure_series_ids(tx: Session, project: int, series: Sequence[Series]) -> list[int]:
    """Find or add series; return their ids in order. New ones are added together."""
    cache = get_id_cache(tx)
    # By object, since a run shares its machine and variant and comparing them for each series is slow.
    machines = {id(each.machine): each.machine for each in series}
    variants = {id(each.variant): each.variant for each in series}
    machine_ids = {key: ensure_machine_id(tx, machine) for key, machine in machines.items()}
    variant_ids = {key: ensure_variant_id(tx, variant) for key, variant in variants.items()}
    keys = [
        (
            "series",
            project,
            each_series.benchmark.name,
            each_series.benchmark.version,
            each_series.parameters,
            each_series.metric.name,
            each_series.metric.unit,
            each_series.metric.direction,
            machine_ids[id(each_series.machine)],
            variant_ids[id(each_series.variant)],
            each_series.harness,
        )
        for each_series in series
    ]
    series_ids = [cache.find(key) for key in keys]
    if None in series_ids:
        new = {
            key: item for key, item, row_id in zip(keys, series, series_ids, strict=True) if row_id is None
        }
        for key, row_id in _add_series(tx, project, new).items():
            cache.add(key, row_id)
        series_ids = [cache.find(key) for key in keys]
    return cast(list[int], series_ids)


def _add_series(tx: Session, project: int, new: Mapping[Any, Series]) -> dict[Any, int]:
    """Find or add series in one order for all writers, which prevents deadlocks."""
    slug = str(tx.scalar(sa.select(ProjectRow.slug).where(ProjectRow.id == project)))
    identities = {key: conversions.series_identity(slug, item) for key, item in new.items()}
    stored = find_series_ids(tx, identities.values())
    absent = {identities[key]: item for key, item in new.items() if identities[key] not in stored}
    if absent:
        benchmarks = _ensure_benchmark_ids(tx, project, {item.benchmark for item in absent.values()})
        rows = [
            {
                "identity": identity,
                "benchmark_id": benchmarks[item.benchmark],
                "parameters": item.parameters,
                "metric": item.metric.name,
                "unit": item.metric.unit,
                "direction": item.metric.direction,
                "machine_id": ensure_machine_id(tx, item.machine),
                "variant_id": ensure_variant_id(tx, item.variant),
                "harness": item.harness,
            }
            for identity, item in sorted(absent.items())
        ]
        tx.execute(insert_or_ignore(tx, SeriesRow), rows)
        stored |= find_series_ids(tx, absent)
    return {key: stored[identity] for key, identity in identities.items()}


def _ensure_benchmark_ids(
    tx: Session, project: int, benchmarks: Collection[Benchmark]
) -> dict[Benchmark, int]:
    """Find or add benchmarks, the missing ones in one statement and one order."""
    ordered = sorted(benchmarks, key=lambda item: (item.name, item.version))
    rows = [{"project_id": project, "name": item.name, "version": item.version} for item in ordered]
    missing = [
        row for row, item in zip(rows, ordered, strict=True) if get_id_cache(tx).find((project, item)) is None
    ]
    if len(missing) > 1:
        tx.execute(insert_or_ignore(tx, BenchmarkRow), missing)
    return {item: ensure_benchmark_id(tx, project, item) for item in ordered}


def ensure_commit_ids(tx: Session, project: int, commits: Sequence[Commit]) -> dict[tuple[str, bool], int]:
    """Find, add or complete commits; return their ids by (sha, dirty)."""
    cache = get_id_cache(tx)
    commit_ids = {commit: cache.find((project, commit)) for commit in commits}
    if new := [commit for commit, row_id in commit_ids.items() if row_id is None]:
        row_ids = _add_commits(tx, project, new)
        for commit in new:
            commit_ids[commit] = cache.add((project, commit), row_ids[commit.sha, commit.dirty])
    return {(commit.sha, commit.dirty): cast(int, row_id) for commit, row_id in commit_ids.items()}


def _add_commits(tx: Session, project: int, commits: Sequence[Commit]) -> dict[tuple[str, bool], int]:
    """Add new commits, complete stored ones, and return the ids of all."""
    by_key = {(commit.sha, commit.dirty): commit for commit in commits}
    rows = {key: {"project_id": project, **_commit_columns(by_key[key])} for key in sorted(by_key)}
    new = insert_rows(tx, COMMITS, list(rows.values()), "sha", "dirty", "id", ignore=True)
    added = {(sha, bool(dirty)): int(row_id) for sha, dirty, row_id in new}
    query = sa.select(COMMITS).where(COMMITS.c.project_id == project)
    stored: dict[tuple[str, bool], Any] = {}
    for shas in in_chunks([sha for sha, dirty in by_key if (sha, dirty) not in added]):
        stored |= {(row.sha, row.dirty): row for row in tx.execute(query.where(COMMITS.c.sha.in_(shas)))}
    for commit in commits:
        row = stored.get((commit.sha, commit.dirty))
        if row and (change := _changed_commit_columns(row, commit)):
            tx.execute(sa.update(COMMITS).where(COMMITS.c.id == row.id).values(**change))
    return {key: row.id for key, row in stored.items()} | added


def _commit_columns(commit: Commit) -> dict[str, Any]:
    return {name: getattr(commit, name) for name in commit.__dataclass_fields__}


def _changed_commit_columns(row: Any, commit: Commit) -> dict[str, Any]:
    """Compute the columns of a stored commit that a newer report changes.

    A subject, parents or a position mark a report as coming from git, which may correct the rest. Other
    reports, such as asv's with the author's date, only fill gaps.
    """
    from_git = bool(commit.subject or commit.parents or commit.position is not None)
    change = {}
    for name, value in _commit_columns(commit).items():
        stored = getattr(row, name)
        stored = tuple(stored) if isinstance(stored, list) else stored
        if value not in (None, "", ()) and value != stored and (from_git or stored in (None, "", ())):
            change[name] = value
    return change


def _find_or_add(
    tx: Session, row: type[TableBase], key: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> int:
    """Find or add the row with this key; another writer may add it at the same moment."""
    columns = core_table(row).c
    query = sa.select(columns.id).where(*(columns[name] == value for name, value in key.items()))
    row_id = tx.scalar(query)
    if row_id is None:
        row_id = tx.scalar(insert_or_ignore(tx, row, "id"), {**key, **(defaults or {})})
    if row_id is None:
        row_id = tx.scalar(query)
    assert row_id is not None
    return int(row_id)
