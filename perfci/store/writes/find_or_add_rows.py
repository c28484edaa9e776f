"""Find or add the rows that measurements refer to: projects, sessions, commits, machines, series."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, Commit, Environment, Machine, PerfciError, Run, Series, Variant
from perfci.store.column_conversions import hash_values, machine_identity, series_identity
from perfci.store.projects import mark_projects_changed, reserved_project_id_column
from perfci.store.queries.history_conditions import VARIANTS_KIND
from perfci.store.queries.renamed_series import load_renamed_series
from perfci.store.queries.series_commits_machines import find_series_ids_by_identity
from perfci.store.tables.base import TableBase
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    ProjectRow,
    SeriesRow,
    SessionRow,
    VariantRow,
)
from perfci.store.transactions import (
    IDS,
    IdCache,
    build_insert_or_ignore,
    execute_on_driver,
    in_chunks,
    insert_rows,
)
from perfci.store.writes.rename_series import follow_renames, replace_renamed_series_ids
from perfci.store.writes.series_points import mark_points_of_project_stale

COMMITS, SESSIONS = CommitRow.__table__, SessionRow.__table__
COMMIT_FIELDS, MACHINE_FIELDS = tuple(Commit.__dataclass_fields__), tuple(Machine.__dataclass_fields__)

ORDER_FIELDS = ("position", "committed_at")
"""What commits are sorted by."""

NEW_SERIES = "new series"
"""Key of ``Session.info`` under which a transaction counts the series that it adds."""


def ensure_project_id(tx: Session, slug: str) -> int:
    """Find or add a project."""
    ids: IdCache = tx.info[IDS]
    key = ("project", slug)
    project_id = ids.find(key)
    if project_id is None:
        project_id = ids.added[key] = _find_or_add(
            tx, ProjectRow, {"slug": slug}, reserved_project_id_column(tx)
        )
    return project_id


def require_session_id(tx: Session, uid: str) -> int:
    """Find the id of a session; raise if it was not started."""
    ids: IdCache = tx.info[IDS]
    session_id = ids.find(("session", uid)) or tx.scalar(
        sa.select(SessionRow.id).where(SessionRow.uid == uid)
    )
    if session_id is None:
        raise PerfciError(f"There is no session {uid}: start it before adding to it.")
    ids.added["session", uid] = session_id
    return session_id


def load_session_projects_and_kinds(tx: Session, uids: Collection[str]) -> dict[str, tuple[int, str]]:
    """Load the project ids and the kinds of sessions by uid; missing sessions are left out."""
    query = f"SELECT uid, project_id, kind FROM sessions WHERE uid IN ({', '.join('?' * len(uids))})"
    rows = execute_on_driver(tx, query, sorted(uids)).fetchall()
    return {uid: (project_id, kind) for uid, project_id, kind in rows}


def load_session_kinds(tx: Session, uids: Collection[str]) -> dict[str, str]:
    """Load the kinds of sessions by uid; missing sessions are left out."""
    return {uid: kind for uid, (_, kind) in load_session_projects_and_kinds(tx, uids).items()}


def ensure_imported_sessions(tx: Session, project: int, runs: Sequence[Run], kind: str) -> dict[str, int]:
    """Find or add the sessions of finished runs from elsewhere; return their ids by uid.

    A session starts with its first run. One that compares variants is of that kind.
    """
    ids: IdCache = tx.info[IDS]
    new = {run.session: run for run in reversed(runs) if ids.find(("session", project, run.session)) is None}
    plan = {"spec_hash": "", "seed": "0", "rounds": 0, "state": "finished"}
    rows = [
        {
            "uid": uid,
            "project_id": project,
            "kind": VARIANTS_KIND if run.variant_comparisons else kind,
            **plan,
            "started_at": run.started_at,
            "finished_at": run.finished_at or run.started_at,
        }
        for uid, run in sorted(new.items())
    ]
    session_ids = dict(insert_rows(tx, SESSIONS, rows, "uid", "id", ignore=True))
    if stored_before := [uid for uid in new if uid not in session_ids]:
        columns = (SessionRow.uid, SessionRow.id, SessionRow.project_id)
        stored = tx.execute(sa.select(*columns).where(SessionRow.uid.in_(stored_before)))
        for uid, row_id, its_project in stored:
            if its_project != project:
                raise PerfciError(f"The session {uid} belongs to another project than {new[uid].project}.")
            session_ids[uid] = row_id
    for uid, row_id in session_ids.items():
        ids.added["session", project, uid] = row_id
    return {run.session: cast(int, ids.find(("session", project, run.session))) for run in runs}


def ensure_measurement_context_id(tx: Session, context: Machine | Environment | Variant) -> int:
    """Find or add the machine class, the environment or the variant that a run was measured in."""
    ids: IdCache = tx.info[IDS]
    row_id = ids.find(context)
    if row_id is not None:
        return row_id
    if isinstance(context, Machine):
        columns = {name: getattr(context, name) for name in MACHINE_FIELDS}
        row_id = _find_or_add(tx, MachineRow, {"identity": machine_identity(context)}, columns)
    elif isinstance(context, Environment):
        key = {"identity": hash_values(context.values)}
        row_id = _find_or_add(tx, EnvironmentRow, key, {"observed": context.values})
    else:
        key = {"identity": hash_values(context.values)}
        row_id = _find_or_add(tx, VariantRow, key, {"chosen": context.values})
    ids.added[context] = row_id
    return row_id


def ensure_benchmark_id(tx: Session, project: int, benchmark: Benchmark) -> int:
    """Find or add a benchmark version."""
    ids: IdCache = tx.info[IDS]
    benchmark_id = ids.find((project, benchmark))
    if benchmark_id is None:
        columns = {"project_id": project, "name": benchmark.name, "version": benchmark.version}
        benchmark_id = ids.added[project, benchmark] = _find_or_add(tx, BenchmarkRow, columns)
    return benchmark_id


def ensure_series_id(tx: Session, project: int, series: Series) -> int:
    """Find or add one series."""
    return ensure_series_ids(tx, project, [series])[0]


def ensure_series_ids(
    tx: Session, project: int, series: Sequence[Series], *, follow: bool = True
) -> list[int]:
    """Find or add series; return their ids in order. New ones are added together.

    With ``follow``, a series that was renamed is the one under whose name it goes on.
    """
    ids: IdCache = tx.info[IDS]
    # By object, since a run shares its machine and variant and comparing them for each series is slow.
    machines = {id(each.machine): each.machine for each in series}
    variants = {id(each.variant): each.variant for each in series}
    machine_ids = {key: ensure_measurement_context_id(tx, machine) for key, machine in machines.items()}
    variant_ids = {key: ensure_measurement_context_id(tx, variant) for key, variant in variants.items()}
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
    series_ids = [ids.find(key) for key in keys]
    if None in series_ids:
        new = {
            key: item for key, item, row_id in zip(keys, series, series_ids, strict=True) if row_id is None
        }
        ids.added.update(_add_series(tx, project, new, follow=follow))
        series_ids = [ids.find(key) for key in keys]
    row_ids = cast(list[int], series_ids)
    return replace_renamed_series_ids(tx, row_ids) if follow else row_ids


def _add_series(tx: Session, project: int, new: Mapping[Any, Series], *, follow: bool) -> dict[Any, int]:
    """Find or add series in one order for all writers, which prevents deadlocks."""
    slug = str(tx.scalar(sa.select(ProjectRow.slug).where(ProjectRow.id == project)))
    identities = {key: series_identity(slug, item) for key, item in new.items()}
    stored = find_series_ids_by_identity(tx, identities.values())
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
                "machine_id": ensure_measurement_context_id(tx, item.machine),
                "variant_id": ensure_measurement_context_id(tx, item.variant),
                "harness": item.harness,
            }
            for identity, item in sorted(absent.items())
        ]
        tx.execute(build_insert_or_ignore(tx, SeriesRow), rows)
        tx.info[NEW_SERIES] = tx.info.get(NEW_SERIES, 0) + len(rows)
        stored |= find_series_ids_by_identity(tx, absent)
        if follow:
            added = {stored[identity]: item for identity, item in absent.items()}
            _lead_to_new_names(tx, project, slug, added)
    return {key: stored[identity] for key, identity in identities.items()}


def _lead_to_new_names(tx: Session, project: int, slug: str, added: Mapping[int, Series]) -> None:
    """Let a new cell or metric of a renamed benchmark or machine go on where the known ones went."""
    renamed = load_renamed_series(tx, slug)
    targets = {row_id: follow_renames(item, renamed) for row_id, item in added.items()} if renamed else {}
    led = {row_id: target for row_id, target in targets.items() if target != added[row_id]}
    for row_id, new_id in zip(
        led, ensure_series_ids(tx, project, list(led.values()), follow=False), strict=True
    ):
        tx.execute(sa.update(SeriesRow).where(SeriesRow.id == row_id).values(renamed_to=new_id))


def _ensure_benchmark_ids(
    tx: Session, project: int, benchmarks: Collection[Benchmark]
) -> dict[Benchmark, int]:
    """Find or add benchmarks, the missing ones in one statement and one order."""
    ids: IdCache = tx.info[IDS]
    ordered = sorted(benchmarks, key=lambda item: (item.name, item.version))
    rows = [{"project_id": project, "name": item.name, "version": item.version} for item in ordered]
    missing = [row for row, item in zip(rows, ordered, strict=True) if ids.find((project, item)) is None]
    if len(missing) > 1:
        tx.execute(build_insert_or_ignore(tx, BenchmarkRow), missing)
    return {item: ensure_benchmark_id(tx, project, item) for item in ordered}


def upsert_commits(tx: Session, project: str, commits: Sequence[Commit]) -> None:
    """Store commits, or complete the stored ones."""
    ensure_commit_ids(tx, ensure_project_id(tx, project), commits)


def ensure_commit_ids(tx: Session, project: int, commits: Sequence[Commit]) -> dict[tuple[str, bool], int]:
    """Find, add or complete commits; return their ids by (sha, dirty)."""
    ids: IdCache = tx.info[IDS]
    new = [commit for commit in commits if ids.find((project, commit)) is None]
    if new:
        by_key = {(commit.sha, commit.dirty): commit for commit in new}
        rows = [
            {"project_id": project, **{name: getattr(by_key[key], name) for name in COMMIT_FIELDS}}
            for key in sorted(by_key)
        ]
        added = insert_rows(tx, COMMITS, rows, "sha", "dirty", "id", ignore=True)
        row_ids = {(sha, bool(dirty)): int(row_id) for sha, dirty, row_id in added}
        if len(row_ids) < len(by_key):
            stored_before = [commit for commit in new if (commit.sha, commit.dirty) not in row_ids]
            row_ids |= _complete_commits(tx, project, stored_before)
        for commit in new:
            ids.added[project, commit] = row_ids[commit.sha, commit.dirty]
    return {(commit.sha, commit.dirty): cast(int, ids.find((project, commit))) for commit in commits}


def _complete_commits(tx: Session, project: int, commits: Sequence[Commit]) -> dict[tuple[str, bool], int]:
    """Add what newer reports say to stored commits; return their ids by (sha, dirty)."""
    query = sa.select(COMMITS).where(COMMITS.c.project_id == project)
    stored: dict[tuple[str, bool], Any] = {}
    for shas in in_chunks({commit.sha for commit in commits}):
        stored |= {(row.sha, row.dirty): row for row in tx.execute(query.where(COMMITS.c.sha.in_(shas)))}
    for commit in commits:
        row = stored[commit.sha, commit.dirty]
        if change := _changed_commit_columns(row, commit):
            tx.execute(sa.update(COMMITS).where(COMMITS.c.id == row.id).values(**change))
            if not change.keys().isdisjoint(ORDER_FIELDS):
                mark_points_of_project_stale(tx, project)
            mark_projects_changed(tx, [project])
    return {(commit.sha, commit.dirty): stored[commit.sha, commit.dirty].id for commit in commits}


def _changed_commit_columns(row: Any, commit: Commit) -> dict[str, Any]:
    """Compute the columns of a stored commit that a newer report changes.

    A subject, parents or a position mark a report as coming from git, which may correct the rest. Other
    reports, such as asv's with the author's date, only fill gaps.
    """
    from_git = bool(commit.subject or commit.parents or commit.position is not None)
    change = {}
    for name in COMMIT_FIELDS:
        value, stored = getattr(commit, name), getattr(row, name)
        stored = tuple(stored) if isinstance(stored, list) else stored
        if value not in (None, "", ()) and value != stored and (from_git or stored in (None, "", ())):
            change[name] = value
    return change


def _find_or_add(
    tx: Session, row: type[TableBase], key: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> int:
    """Find or add the row with this key; another writer may add it at the same moment."""
    columns = row.__table__.c
    query = sa.select(columns.id).where(*(columns[name] == value for name, value in key.items()))
    row_id = tx.scalar(query)
    if row_id is None:
        row_id = tx.scalar(build_insert_or_ignore(tx, row, "id"), {**key, **(defaults or {})})
    if row_id is None:
        row_id = tx.scalar(query)
    assert row_id is not None
    return int(row_id)
