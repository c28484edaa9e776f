"""Parts of many histories at once."""

from __future__ import annotations

from datetime import timedelta

from perfci.model import ProcessBoundaries
from perfci.store import Store
from perfci.store.queries.judging_inputs import load_levels_at_commits, load_session_commit_visits
from perfci.store.queries.series_search import search_series
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
)
from tests.support.stored_runs import ingest_run
from tests.support.stored_summaries import compute_stored_summaries

OURS, THEIRS = a_series("training.Step.time_step"), a_series("foreign.time_it")


def fill(store: Store) -> dict[str, int]:
    """Four commits measured here in rounds, and two runs of a foreign tool of the second."""
    with store.begin() as tx:
        start_session(tx, PROJECT, "rounds", "history", "spec", 7, 5, NOON)
        start_session(tx, PROJECT, "pairs", "confirm", "spec", 7, 0, NOON)
        for number in range(1, 5):
            process = a_process(float(number))
            find_or_add_run(tx, a_run(a_result(OURS, process), commit=a_commit(number), session="rounds"))
        find_or_add_run(tx, a_run(a_result(OURS, a_process(9.0)), commit=a_commit(2), session="pairs"))
        for later, value in ((0, 5.0), (1, 6.0)):
            result = a_result(
                THEIRS, processes=(), summary=a_summary(value), boundaries=ProcessBoundaries.UNKNOWN
            )
            run = a_run(
                result, commit=a_commit(2), session=f"asv-{later}", started_at=NOON + timedelta(hours=later)
            )
            ingest_run(tx, run, f"key-{later}", "body")
        compute_stored_summaries(tx)
    with store.read() as tx:
        return {row.series.benchmark.name: row.id for row in search_series(tx, PROJECT)}


def test_loads_which_sessions_measured_a_commit_for_the_history(store: Store) -> None:
    fill(store)

    with store.read() as tx:
        visits = load_session_commit_visits(tx, PROJECT)

    of_second = [(item.session, item.kind, item.rounds) for item in visits if item.sha == a_sha(2)]
    assert of_second == [("asv-0", "import", 0), ("rounds", "history", 5), ("asv-1", "import", 0)]


def test_reads_only_the_requested_commits_and_series(store: Store) -> None:
    ids = fill(store)

    with store.read() as tx:
        ours = list(
            load_levels_at_commits(tx, PROJECT, {a_sha(1), a_sha(2)}, [ids["training.Step.time_step"]])
        )
        theirs = list(load_levels_at_commits(tx, PROJECT, {a_sha(1), a_sha(2)}, [ids["foreign.time_it"]]))

    assert sorted((sha, row.level, row.is_value_without_processes) for sha, row in ours) == [
        (a_sha(1), 1.0, False),
        (a_sha(2), 2.0, False),
    ]
    assert sorted((sha, row.value, row.is_value_without_processes) for sha, row in theirs) == [
        (a_sha(2), 5.0, True),
        (a_sha(2), 6.0, True),
    ]


def test_finds_the_levels_of_many_series_by_commit(store: Store) -> None:
    ids = fill(store)
    many = [*ids.values(), *range(10_000, 12_000)]

    with store.read() as tx:
        levels = list(load_levels_at_commits(tx, PROJECT, {a_sha(2)}, many))

    assert sorted(row.value or row.level or 0.0 for _, row in levels) == [2.0, 5.0, 6.0]
