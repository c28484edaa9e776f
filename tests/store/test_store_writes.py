"""Verdicts supersede, change points are replaced, and commits are completed."""

from __future__ import annotations

from datetime import timedelta

from store_sessions import started

from perfci.model import Stage, VerdictKind
from perfci.store import Store, verdicts_and_change_points
from perfci.store.queries import series_commits_machines
from perfci.store.writes import find_or_add_rows
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_commit,
    a_series,
    a_sha,
    a_verdict,
    an_imported_commit,
)
from tests.support.stored_runs import replace_change_points


def test_a_newer_verdict_supersedes_the_older_on_the_same_question(store: Store) -> None:
    started(store)
    screening = a_verdict(
        stage=Stage.SCREENING, kind=VerdictKind.INCONCLUSIVE, interval=None, pairs_to_decide=6
    )
    other_question = a_verdict(head=a_sha(3))

    with store.begin() as tx:
        old, other = verdicts_and_change_points.add_verdicts(
            tx, PROJECT, "session-1", [screening, other_question], NOON
        )
        [new] = verdicts_and_change_points.add_verdicts(
            tx, PROJECT, "session-1", [a_verdict()], NOON + timedelta(hours=1)
        )

    with store.read() as tx:
        current = verdicts_and_change_points.load_verdict_records(tx, PROJECT)
        everything = {
            verdict_record.id: verdict_record
            for verdict_record in verdicts_and_change_points.load_verdict_records(
                tx, PROJECT, current_only=False
            )
        }
    assert [item.id for item in current] == [new, other]
    assert current[0].verdict == a_verdict()
    assert everything[old].verdict == screening
    assert everything[old].superseded_by == new


def test_change_points_of_a_series_are_replaced_as_a_whole(store: Store) -> None:
    first, second, elsewhere = (
        a_change_point(),
        a_change_point(commit=a_sha(5)),
        a_change_point(a_series(metric="memory")),
    )
    with store.begin() as tx:
        replace_change_points(tx, PROJECT, a_series(), [first])
        replace_change_points(tx, PROJECT, elsewhere.series, [elsewhere])
        replace_change_points(tx, PROJECT, a_series(), [second, first])

    with store.read() as tx:
        assert verdicts_and_change_points.load_change_points(tx, PROJECT) == [elsewhere, second, first]
        assert verdicts_and_change_points.load_change_points(tx, PROJECT, series_id=1) == [second, first]
    with store.begin() as tx:
        replace_change_points(tx, PROJECT, a_series(), [])
        assert verdicts_and_change_points.load_change_points(tx, PROJECT) == [elsewhere]


def test_git_completes_a_commit_imported_with_its_date_only(store: Store) -> None:
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [an_imported_commit(3, committed_at=NOON)])
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(3), a_commit(4)])
        find_or_add_rows.upsert_commits(tx, PROJECT, [an_imported_commit(3, committed_at=NOON)])

    with store.read() as tx:
        assert series_commits_machines.load_commits_newest_first(tx, PROJECT) == [a_commit(4), a_commit(3)]


def test_a_commit_gains_branch_tags_and_position(store: Store) -> None:
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(1, branch="topic", position=None)])
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(1, branch="main", tags=("v1",), position=40)])

    with store.read() as tx:
        assert series_commits_machines.load_commits_newest_first(tx, PROJECT) == [
            a_commit(1, branch="main", tags=("v1",), position=40)
        ]
