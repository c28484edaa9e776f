"""Load the commits of a history, which readers share. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.history_conditions import HISTORY_KINDS, project_id_condition
from perfci.store.queries.series_commits_machines import load_commits_by_id, sort_commits
from perfci.store.tables.measurements import CommitRow, RunRow, SessionRow


@dataclass(frozen=True, slots=True, eq=False)
class BranchCommits:
    """The commits of a history, measured or not, oldest first, and the same by id."""

    commits: tuple[Commit, ...]
    by_id: Mapping[int, Commit]


def load_branch_commits(tx: Session, project: str) -> BranchCommits:
    """Load the commits of the history of a project.

    Those that only pull requests or comparisons measured are left out, and so are changed working trees.
    """

    def load() -> BranchCommits:
        of_commit = sa.select(RunRow.id).where(RunRow.commit_id == CommitRow.id).correlate(CommitRow)
        in_history = of_commit.join(SessionRow, RunRow.session_id == SessionRow.id).where(
            SessionRow.kind.in_(HISTORY_KINDS)
        )
        chosen = (
            project_id_condition(CommitRow.project_id, project),
            CommitRow.dirty.is_(False),
            sa.or_(~of_commit.exists(), in_history.exists()),
        )
        by_id = load_commits_by_id(tx, *chosen)
        return BranchCommits(tuple(sort_commits(by_id.values())), by_id)

    return load_or_derive(tx, project, "branch commits", load)


def load_commits_of_history(tx: Session, project: str, ids: Collection[int]) -> Mapping[int, Commit]:
    """Load at least the commits with these ids, most of which are of the history of a project."""
    by_id = load_branch_commits(tx, project).by_id
    missing = [row_id for row_id in ids if row_id not in by_id]
    return {**by_id, **load_commits_by_id(tx, ids=missing)} if missing else by_id
