"""SQL conditions of queries: which results, sessions and series belong to the history of a project."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from perfci.store.tables.measurements import (
    CommitRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)
from perfci.store.tables.verdicts import VerdictRow

HISTORY_KINDS = ("history", "import")
"""Kinds of sessions whose runs enter histories; pull requests and A/A runs do not."""

VARIANTS_KIND = "variants"
"""Kind of the sessions that compare variants of one commit, or the steps of an ablation."""

PULL_REQUEST_KIND = "pull_request"
"""Kind of the sessions that a pull request, or a job without the right to write a history, uploaded: they
are shown as comparisons, and nothing about the main branch is derived from them.
"""

BISECT_KIND = "bisect"
"""Kind of the sessions that searched a range: their commits were chosen by what the earlier ones showed, so
they make up no history.
"""

PURPOSE_FIELD = "purpose"
"""What a run says in its origin that it was measured for, where that is not the history."""

Condition = sa.ColumnElement[bool]


def project_id_condition(column: Any, project: str) -> Condition:
    """Build the condition that a project id column is that of a project."""
    condition: Condition = (
        column == sa.select(ProjectRow.id).where(ProjectRow.slug == project).scalar_subquery()
    )
    return condition


def restrict_to_history(query: Any) -> Any:
    """Restrict a query over results to those that make up the history of a series.

    Results that were marked invalid are left out: nothing is derived from them.
    """
    return restrict_to_main_line(query).where(RunRow.invalid.is_(False), ResultRow.invalid.is_(False))


def restrict_to_invalid_results(query: Any) -> Any:
    """Restrict a query over results to those that would make up a history but are marked invalid."""
    return restrict_to_main_line(query).where(sa.or_(RunRow.invalid, ResultRow.invalid))


def restrict_to_main_line(query: Any) -> Any:
    """Restrict a query over results to those of commits on the main line, valid or not."""
    return (
        query.select_from(ResultRow)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.kind.in_(HISTORY_KINDS), CommitRow.dirty.is_(False))
    )


def current_verdict_condition() -> Condition:
    """Build the condition that a verdict stands: superseded by none, and on results that are valid."""
    return sa.and_(VerdictRow.superseded_by.is_(None), VerdictRow.invalid.is_(False))


def pull_request_session_condition(session_id: Any) -> Condition:
    """Build the condition that a session id column is that of a session of a pull request."""
    return (
        sa.select(SessionRow.id)
        .where(SessionRow.id == session_id, SessionRow.kind == PULL_REQUEST_KIND)
        .exists()
    )


def select_results_without_pulls() -> sa.Select[Any]:
    """Select the ids of results that are not of a pull request, which may claim any clock and any state."""
    return (
        sa.select(ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .where(~pull_request_session_condition(RunRow.session_id))
    )


def series_only_in_pulls_condition() -> Condition:
    """Build the condition that all results of a series are of pull requests: its name is a stranger's."""
    results = sa.select(ResultRow.id).where(ResultRow.series_id == SeriesRow.id).correlate(SeriesRow)
    others = select_results_without_pulls().where(ResultRow.series_id == SeriesRow.id).correlate(SeriesRow)
    return sa.and_(results.exists(), ~others.exists())
