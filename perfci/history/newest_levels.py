"""The level of each series at its newest commit, without reading its history."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import join_results_into_points
from perfci.model import Commit
from perfci.store.queries.judging_inputs import load_result_levels
from perfci.store.queries.measured_series import load_newest_series_commits
from perfci.store.queries.series_commits_machines import load_commits_by_id


class NewestLevel(NamedTuple):
    """The newest commit of a series, and its level there."""

    commit: Commit
    level: float


def load_newest_levels(tx: Transaction, project: str, series_ids: Collection[int]) -> dict[int, NewestLevel]:
    """Load them by series id; a series without a value at its newest commit is left out."""
    newest = {
        series_id: end.commit_id
        for series_id, end in load_newest_series_commits(tx, project, series_ids).items()
    }
    commits = load_commits_by_id(tx, ids=set(newest.values()))
    judged = join_results_into_points(tx, load_result_levels(tx, list(newest), list(commits)))
    return {
        series_id: NewestLevel(commits[point.commit_id], point.level)
        for series_id, points in judged.points.items()
        for point in points
        if point.commit_id == newest[series_id] and point.level is not None
    }
