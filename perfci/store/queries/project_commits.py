"""Load and find the commits of a project, and sort them by their place in the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, PerfciError
from perfci.store.queries.history_conditions import Condition, project_id_condition
from perfci.store.tables.measurements import CommitRow
from perfci.store.transactions import execute_on_driver, in_chunks


def load_commits(
    tx: Session, *conditions: Condition, ids: Collection[int] | None = None
) -> dict[int, Commit]:
    """Load the commits that meet all conditions, by id; with ``ids``, only those of them."""
    query = sa.select(*CommitRow.__table__.c).where(*conditions)
    queries = [query]
    if ids is not None:
        queries = [query.where(CommitRow.id.in_(some)) for some in in_chunks(ids)]
    return {
        row.id: Commit(
            sha=row.sha,
            subject=row.subject,
            author=row.author,
            committed_at=row.committed_at,
            parents=tuple(row.parents),
            branch=row.branch,
            tags=tuple(row.tags),
            position=row.position,
            dirty=row.dirty,
        )
        for query in queries
        for row in tx.connection().execute(query)
    }


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
    if limit is not None:
        unplaced = sa.select(CommitRow.id).where(*chosen, CommitRow.position.is_(None)).limit(1)
        # Commits without a position are placed by their dates, for which all have to be read.
        if tx.scalar(unplaced) is None:
            by_position = (CommitRow.position.desc(), CommitRow.sha.desc(), CommitRow.dirty.desc())
            newest = sa.select(CommitRow.id).where(*chosen).order_by(*by_position).limit(limit)
            chosen.append(CommitRow.id.in_(newest))
    return sort_commits(load_commits(tx, *chosen).values())[::-1][:limit]


def load_commits_by_sha(tx: Session, project: str, shas: Collection[str]) -> dict[str, Commit]:
    """Load commits by full sha; a clean commit is preferred to a dirty working tree."""
    commits: dict[str, Commit] = {}
    for some in in_chunks(shas):
        stored = load_commits(
            tx, project_id_condition(CommitRow.project_id, project), CommitRow.sha.in_(some)
        ).values()
        commits |= {item.sha: item for item in sorted(stored, key=lambda item: not item.dirty)}
    return commits


def find_commit(tx: Session, project: str, prefix: str) -> Commit | None:
    """Find a commit by a prefix of its sha; a clean commit is preferred to a dirty working tree."""
    prefix = prefix.lower()
    if not prefix:
        return None
    starting = CommitRow.sha.startswith(prefix, autoescape=True)
    matching = sorted(
        load_commits(tx, project_id_condition(CommitRow.project_id, project), starting).values(),
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
