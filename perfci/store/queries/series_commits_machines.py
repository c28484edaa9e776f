"""Load the series and commits of a project, and the machines, variants and environments they name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, Commit, Environment, Machine, Metric, PerfciError, Series, Variant
from perfci.store.column_conversions import named_values_from_json
from perfci.store.queries.history_conditions import Condition, project_id_condition
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    ProjectRow,
    SeriesRow,
    VariantRow,
)
from perfci.store.transactions import CHUNK, SERIES_CACHE, execute_on_driver, in_chunks

MAX_CACHED_SERIES = 50_000
"""Series a store caches for readers, in at most some hundred MB."""


def load_series_by_ids(tx: Session, ids: Iterable[int]) -> dict[int, Series]:
    """Load series by id. Series never change, so all readers of a store share a cache."""
    cache: dict[int, Series] = tx.info.get(SERIES_CACHE, {})
    cached = {row_id: cache.get(row_id) for row_id in sorted(ids)}
    missing = [row_id for row_id, series in cached.items() if series is None]
    read: dict[int, Series] = {}
    if missing:
        machines, variants = load_machines_by_id(tx), load_variants_by_id(tx)
        query = sa.select(*SeriesRow.__table__.c, BenchmarkRow.name, BenchmarkRow.version).join(
            BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id
        )
        for some in in_chunks(missing):
            for row in tx.connection().execute(query.where(SeriesRow.id.in_(some))):
                read[row.id] = Series(
                    benchmark=Benchmark(row.name, row.version),
                    parameters=named_values_from_json(row.parameters),
                    metric=Metric(row.metric, row.unit, row.direction),
                    machine=machines[row.machine_id],
                    variant=variants[row.variant_id],
                    harness=row.harness,
                )
        if len(cache) + len(read) > MAX_CACHED_SERIES:
            cache.clear()
        cache.update(islice(read.items(), MAX_CACHED_SERIES))
    return {row_id: series or read[row_id] for row_id, series in cached.items()}


def load_project_series(tx: Session, project: str, *conditions: Condition) -> dict[int, Series]:
    """Load the series of a project that meet all conditions, by id; not those that were renamed."""
    return load_all_project_series(tx, project, SeriesRow.renamed_to.is_(None), *conditions)


def load_all_project_series(tx: Session, project: str, *conditions: Condition) -> dict[int, Series]:
    """Load the series of a project that meet all conditions, by id; those that were renamed too."""
    query = sa.select(SeriesRow.id).join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
    chosen = query.where(project_id_condition(BenchmarkRow.project_id, project), *conditions)
    return load_series_by_ids(tx, tx.connection().scalars(chosen))


def find_series_ids_by_identity(tx: Session, identities: Collection[str]) -> dict[str, int]:
    """Find the ids of stored series by identity; identities that are not stored are left out."""
    query = sa.select(SeriesRow.identity, SeriesRow.id)
    ids_by_identity: dict[str, int] = {}
    for some in in_chunks(identities):
        ids_by_identity |= dict(tx.execute(query.where(SeriesRow.identity.in_(some))).all())
    return ids_by_identity


def load_series_of_same_cells(tx: Session, project: str, series: Iterable[Series]) -> list[Series]:
    """Load all series with the same benchmarks and parameters, to make addresses unambiguous."""
    cells: dict[str, list[Any]] = defaultdict(list)
    for item in series:
        cells[item.benchmark.name].append(item.parameters)
    matching: list[Series] = []
    for start in range(0, len(names := sorted(cells)), BENCHMARKS_PER_QUERY):
        some = names[start : start + BENCHMARKS_PER_QUERY]
        parameters = list(dict.fromkeys(cell for name in some for cell in cells[name]))[:CHUNK]
        chosen = (BenchmarkRow.name.in_(some), SeriesRow.parameters.in_(parameters))
        matching += load_project_series(tx, project, *chosen).values()
    return matching


BENCHMARKS_PER_QUERY = 50
"""Benchmarks per query: a page names few, and their parameters mostly agree."""


def load_series_identities(tx: Session) -> Iterator[tuple[int, str, str, Series]]:
    """Every series as (id, stored identity, project, what its columns say)."""
    query = (
        sa.select(SeriesRow.id, SeriesRow.identity, ProjectRow.slug)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .join(ProjectRow, BenchmarkRow.project_id == ProjectRow.id)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, [row.id for row in rows])
    for row_id, stored, slug in rows:
        yield row_id, stored, slug, series[row_id]


def load_commits_by_id(
    tx: Session, *conditions: Condition, ids: Collection[int] | None = None
) -> dict[int, Commit]:
    """Load the commits that meet all conditions, by id; with ``ids``, only those of them."""
    query = sa.select(*COMMIT_COLUMNS).where(*conditions)
    queries = [query]
    if ids is not None:
        queries = [query.where(CommitRow.id.in_(some)) for some in in_chunks(ids)]
    commits = {}
    for query in queries:
        for row in tx.connection().execute(query):
            row_id, sha, subject, author, at, parents, branch, tags, position, dirty = row
            commits[row_id] = Commit(
                sha, subject, author, at, tuple(parents), branch, tuple(tags), position, dirty
            )
    return commits


COMMIT_COLUMNS = tuple(CommitRow.__table__.c[name] for name in ("id", *Commit.__dataclass_fields__))

FULL_SHA_LENGTH = 40


def sha_prefix_condition(column: Any, prefix: str) -> sa.ColumnElement[bool]:
    """Build the condition that a sha has a prefix: a range, which an index on the column answers."""
    whole = len(prefix) >= FULL_SHA_LENGTH
    condition: sa.ColumnElement[bool] = (
        column == prefix if whole else sa.and_(column >= prefix, column < prefix + "g")
    )
    return condition


LONG_AGO = datetime.min.replace(tzinfo=UTC)


def sort_commits(commits: Iterable[Commit]) -> list[Commit]:
    """Sort commits, oldest first, by position on the first-parent line.

    A commit without a position (an import without its git repository) is placed by its date.
    """
    commits = list(commits)
    placed = sorted(
        (commit for commit in commits if commit.position is not None),
        key=lambda commit: (commit.position or 0, commit.sha),
    )
    keys: dict[Commit, tuple[datetime, int, str]] = {}
    latest = LONG_AGO
    for place, commit in enumerate(placed):
        # Rebased commits may be dated before their parents.
        latest = max(latest, commit.committed_at or LONG_AGO)
        keys[commit] = (latest, place, commit.sha)
    for commit in commits:
        if commit.position is None:
            keys[commit] = (commit.committed_at or LONG_AGO, len(placed), commit.sha)
    return sorted(commits, key=lambda commit: (*keys[commit], commit.dirty))


def load_commits_newest_first(tx: Session, project: str, *, limit: int | None = None) -> list[Commit]:
    """Load the commits of a project, newest first; with a ``limit``, without reading all."""
    chosen = [project_id_condition(CommitRow.project_id, project)]
    if limit is not None and (order := _find_newest_first_order(tx, chosen)):
        newest = sa.select(CommitRow.id).where(*chosen).order_by(*order).limit(limit)
        chosen.append(CommitRow.id.in_(newest))
    return sort_commits(load_commits_by_id(tx, *chosen).values())[::-1][:limit]


def _find_newest_first_order(tx: Session, chosen: Sequence[Condition]) -> tuple[Any, ...]:
    """The columns that order commits as ``sort_commits`` does, where all of them have a position or none has.

    Where only some have one, those without are placed by their dates, for which all have to be read: empty.
    """
    of_project = sa.select(CommitRow.id).where(*chosen).limit(1)
    ties = (CommitRow.sha.desc(), CommitRow.dirty.desc())
    if tx.scalar(of_project.where(CommitRow.position.is_(None))) is None:
        return (CommitRow.position.desc(), *ties)
    if tx.scalar(of_project.where(CommitRow.position.is_not(None))) is None:
        return (CommitRow.committed_at.is_(None), CommitRow.committed_at.desc(), *ties)
    return ()


def load_commit_with_neighbours(tx: Session, project: str, commit: Commit) -> list[Commit]:
    """Load a commit with the clean ones before and after it on the line, newest first.

    Where that takes all commits to tell, these are loaded.
    """
    of_project = project_id_condition(CommitRow.project_id, project)
    order = _find_newest_first_order(tx, [of_project])
    if not order or (commit.position is None and commit.committed_at is None):
        return load_commits_newest_first(tx, project)
    column: Any = CommitRow.committed_at if commit.position is None else CommitRow.position
    value = commit.committed_at if commit.position is None else commit.position
    clean = sa.select(CommitRow.id).where(of_project, CommitRow.dirty.is_(False))
    older = sa.or_(column < value, sa.and_(column == value, CommitRow.sha < commit.sha))
    newer = sa.or_(column > value, sa.and_(column == value, CommitRow.sha > commit.sha))
    if commit.position is None:
        older = sa.or_(older, column.is_(None))
    before = clean.where(older).order_by(*order).limit(1)
    after = clean.where(newer).order_by(column, CommitRow.sha).limit(1)
    same = sa.select(CommitRow.id).where(of_project, CommitRow.sha == commit.sha)
    ids = [*tx.scalars(before), *tx.scalars(same), *tx.scalars(after)]
    return sort_commits(load_commits_by_id(tx, ids=ids).values())[::-1]


def load_commits_by_sha(tx: Session, project: str, shas: Collection[str]) -> dict[str, Commit]:
    """Load commits by full sha; a clean commit is preferred to a dirty working tree."""
    commits: dict[str, Commit] = {}
    for some in in_chunks(shas):
        stored = load_commits_by_id(
            tx, project_id_condition(CommitRow.project_id, project), CommitRow.sha.in_(some)
        ).values()
        commits |= {item.sha: item for item in sorted(stored, key=lambda item: not item.dirty)}
    return commits


def load_shas_by_commit_id(tx: Session, commit_ids: Collection[int]) -> dict[int, str]:
    """Load the shas of commits by id."""
    query = sa.select(CommitRow.id, CommitRow.sha)
    shas: dict[int, str] = {}
    for some in in_chunks(commit_ids):
        shas |= dict(tx.execute(query.where(CommitRow.id.in_(some))).all())
    return shas


def load_commit_ids_by_sha(tx: Session, project: str, shas: Collection[str]) -> dict[str, int]:
    """Load the ids of clean commits by full sha."""
    query = sa.select(CommitRow.sha, CommitRow.id).where(
        project_id_condition(CommitRow.project_id, project), CommitRow.dirty.is_(False)
    )
    commit_ids: dict[str, int] = {}
    for some in in_chunks(shas):
        commit_ids |= dict(tx.execute(query.where(CommitRow.sha.in_(some))).all())
    return commit_ids


def find_commit(tx: Session, project: str, prefix: str) -> Commit | None:
    """Find a commit by a prefix of its sha; a clean commit is preferred to a dirty working tree."""
    prefix = prefix.lower()
    if not prefix:
        return None
    starting = CommitRow.sha.startswith(prefix, autoescape=True)
    matching = sorted(
        load_commits_by_id(tx, project_id_condition(CommitRow.project_id, project), starting).values(),
        key=lambda item: item.dirty,
    )
    shas = sorted({commit.sha for commit in matching})
    if len(shas) > 1 and prefix not in shas:
        raise PerfciError(
            f"The prefix {prefix} fits {len(shas)} commits, among them {shas[0]} and {shas[1]}: "
            "give more of it."
        )
    exact = [commit for commit in matching if commit.sha == prefix]
    return next(iter(exact or matching), None)


def is_commit_stored(tx: Session, project_id: int, sha: str) -> bool:
    """Whether a commit is stored."""
    return (
        execute_on_driver(
            tx, "SELECT 1 FROM commits WHERE project_id = ? AND sha = ?", [project_id, sha]
        ).fetchone()
        is not None
    )


def load_machines_by_id(tx: Session) -> dict[int, Machine]:
    """Load all machine classes, by id."""
    return {
        row.id: Machine(
            cpu=row.cpu,
            cores=row.cores,
            memory_gb=row.memory_gb,
            accelerator=row.accelerator,
            accelerators=row.accelerators,
            name=row.name,
        )
        for row in tx.connection().execute(sa.select(*MachineRow.__table__.c))
    }


def load_variants_by_id(tx: Session) -> dict[int, Variant]:
    """Load all variants, by id."""
    rows = tx.execute(sa.select(VariantRow.id, VariantRow.chosen))
    return {row_id: Variant(named_values_from_json(chosen)) for row_id, chosen in rows}


def load_environments_by_id(tx: Session, ids: Collection[int]) -> dict[int, Environment]:
    """Load environments by id; only those needed, since each driver or clock change adds one."""
    query = sa.select(EnvironmentRow.id, EnvironmentRow.observed)
    rows = (row for some in in_chunks(ids) for row in tx.execute(query.where(EnvironmentRow.id.in_(some))))
    return {row_id: Environment(named_values_from_json(observed)) for row_id, observed in rows}
