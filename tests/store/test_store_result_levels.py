"""Two commits compare by stored levels, without a sample being read."""

from __future__ import annotations

from perfci.model import Clock, ProcessBoundaries, ResultSummary, Status
from perfci.store import Store, projects
from perfci.store.column_conversions import series_identity
from perfci.store.queries import series_search
from perfci.store.queries.comparisons.levels_at_two_commits import load_levels_of_two_commits
from perfci.store.queries.judging_inputs import load_result_levels
from tests.support.builders import (
    PROJECT,
    a_commit,
    a_failed_process,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
)
from tests.support.stored_runs import ingest_run
from tests.support.stored_summaries import compute_stored_summaries

STEP, IMPORTED, GONE = a_series("step"), a_series("imported"), a_series("gone")


def fill(store: Store) -> None:
    summarised = {"processes": (), "summary": a_summary(5.0), "boundaries": ProcessBoundaries.UNKNOWN}
    base = [a_result(STEP, a_process(1.0, 3.0), a_process(4.0, index=1)), a_result(GONE, a_process(9.0))]
    head = [
        a_result(STEP, a_process(6.0), a_process(2.0, index=1, flags=("throttled",))),
        a_result(IMPORTED, **summarised),
        a_result(GONE, a_failed_process(), status=Status.FAILED),
    ]
    with store.begin() as tx:
        for number, results in enumerate((base, head)):
            run = a_run(*results, commit=a_commit(number), session=f"session-{number}")
            ingest_run(tx, run, f"key {number}", "body", kind="history")
        compute_stored_summaries(tx)


def test_loads_the_level_of_each_series_at_both_commits(store: Store) -> None:
    fill(store)

    with store.read() as tx:
        project = projects.find_project(tx, PROJECT)
        assert project is not None
        level_pairs = load_levels_of_two_commits(tx, project.id, a_sha(0), a_sha(1))

    levels = {identity: (base, head) for _, identity, base, head in level_pairs}
    assert levels == {
        series_identity(PROJECT, STEP): (3.0, 6.0),
        series_identity(PROJECT, GONE): (9.0, None),
        series_identity(PROJECT, IMPORTED): (None, 5.0),
    }


def test_stores_the_summary_of_the_processes_of_a_result(store: Store) -> None:
    fill(store)

    with store.read() as tx:
        ids = {each_series.series: each_series.id for each_series in series_search.search_series(tx, PROJECT)}
        levels = {
            item: sorted(load_result_levels(tx, [ids[item]]), key=lambda row: row.id)
            for item in (STEP, IMPORTED, GONE)
        }
        result = {level: [row.result_summary for row in rows] for level, rows in levels.items()}

    assert result == {
        STEP: [ResultSummary(3.0, Clock.WALL, 3.0), ResultSummary(6.0, Clock.WALL, 0.0)],
        IMPORTED: [None],
        GONE: [ResultSummary(9.0, Clock.WALL, 0.0), None],
    }


def test_stores_no_clock_where_clocks_differ(store: Store) -> None:
    mixed = a_result(STEP, a_process(1.0), a_process(2.0, index=1, clock=Clock.CPU))
    with store.begin() as tx:
        ingest_run(tx, a_run(mixed), "key", "body", kind="history")
        compute_stored_summaries(tx)

    with store.read() as tx:
        [row] = load_result_levels(
            tx, [each_series.id for each_series in series_search.search_series(tx, PROJECT)]
        )

    assert (row.level, row.clock, row.result_summary) == (1.5, "", None)
