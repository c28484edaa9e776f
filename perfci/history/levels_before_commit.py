"""The level that each series had before a commit, without reading the histories."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import join_results_into_points
from perfci.model import Commit
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.queries.judging_inputs import load_result_levels
from perfci.store.queries.series_commits_machines import load_commits_by_id, sort_commits
from perfci.store.tables.measurements import CommitRow

FIRST_BATCH, BATCH_GROWTH, MAX_BATCH = 2, 8, 500
"""Most series were measured at one of the last commits, so that these are searched first."""

LevelAtCommit = tuple[str, float]
"""A full sha and the level there."""


def load_newest_levels_before(
    tx: Transaction, project: str, commit: Commit, series_ids: Collection[int]
) -> dict[int, LevelAtCommit]:
    """The newest level of each series before a commit, by series id; a series without one is left out."""
    commits = load_commits_by_id(
        tx, project_id_condition(CommitRow.project_id, project), CommitRow.dirty.is_(False)
    )
    row_ids = {item: row_id for row_id, item in commits.items()}
    line = sort_commits({*commits.values(), commit})
    newest_first = [row_ids[item] for item in line[: line.index(commit)] if item.sha != commit.sha][::-1]
    levels: dict[int, LevelAtCommit] = {}
    start, count = 0, FIRST_BATCH
    while start < len(newest_first) and len(levels) < len(series_ids):
        missing = [row_id for row_id in series_ids if row_id not in levels]
        levels |= _load_newest_levels(tx, missing, newest_first[start : start + count], commits)
        start, count = start + count, min(count * BATCH_GROWTH, MAX_BATCH)
    return levels


def _load_newest_levels(
    tx: Transaction, series_ids: Collection[int], newest_first: Sequence[int], commits: dict[int, Commit]
) -> dict[int, LevelAtCommit]:
    """The first of these commits, by id, at which a series has a level."""
    place = {row_id: number for number, row_id in enumerate(newest_first)}
    judged = join_results_into_points(tx, load_result_levels(tx, series_ids, newest_first))
    levels: dict[int, LevelAtCommit] = {}
    for series_id, points in judged.points.items():
        measured = [(place[point.commit_id], point) for point in points if point.level is not None]
        if measured:
            _, newest = min(measured, key=lambda item: item[0])
            assert newest.level is not None
            levels[series_id] = commits[newest.commit_id].sha, newest.level
    return levels
