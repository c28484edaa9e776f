"""Search a project by a few words: its benchmarks, commits and incidents."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit
from perfci.store.queries.history_conditions import Condition, series_only_in_pulls_condition
from perfci.store.queries.series_commits_machines import load_commits_by_id, sha_prefix_condition
from perfci.store.tables.incidents import IncidentRow
from perfci.store.tables.measurements import BenchmarkRow, CommitRow, SeriesRow


def find_benchmark_names(tx: Session, project_id: int, text: str, *, limit: int) -> list[str]:
    """Find the benchmarks whose names contain every word, by name."""
    series = sa.select(SeriesRow.id).where(
        SeriesRow.benchmark_id == BenchmarkRow.id,
        SeriesRow.renamed_to.is_(None),
        ~series_only_in_pulls_condition(),
    )
    query = (
        sa.select(BenchmarkRow.name)
        .distinct()
        .where(
            BenchmarkRow.project_id == project_id,
            _contains_every_word(BenchmarkRow.name, text),
            series.correlate(BenchmarkRow).exists(),
        )
        .order_by(BenchmarkRow.name)
        .limit(limit)
    )
    return list(tx.scalars(query))


def find_commits(tx: Session, project_id: int, text: str, *, limit: int) -> list[Commit]:
    """Find the commits by the start of their sha, or every word in their author and subject, newest first."""
    named = _contains_every_word(CommitRow.author + " " + CommitRow.subject, text)
    if len(text) >= 4 and set(text.lower()) <= set("0123456789abcdef"):
        named = sa.or_(named, sha_prefix_condition(CommitRow.sha, text.lower()))
    query = (
        sa.select(CommitRow.id)
        .where(CommitRow.project_id == project_id, CommitRow.dirty.is_(False), named)
        .order_by(CommitRow.committed_at.desc(), CommitRow.sha)
        .limit(limit)
    )
    ids = list(tx.scalars(query))
    commits = load_commits_by_id(tx, ids=ids)
    return [commits[row_id] for row_id in ids]


def find_incident_headlines(tx: Session, project_id: int, text: str, *, limit: int) -> list[tuple[int, str]]:
    """Find the incidents whose headlines contain every word, as number and headline, newest first."""
    query = (
        sa.select(IncidentRow.number, IncidentRow.headline)
        .where(IncidentRow.project_id == project_id, _contains_every_word(IncidentRow.headline, text))
        .order_by(IncidentRow.number.desc())
        .limit(limit)
    )
    return [(row.number, row.headline) for row in tx.execute(query)]


def _contains_every_word(column: Any, text: str) -> Condition:
    return sa.and_(
        sa.true(), *(sa.func.lower(column).contains(word, autoescape=True) for word in text.lower().split())
    )
