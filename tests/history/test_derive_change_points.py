"""Change points are written down for the histories that have something new, and for no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perfci.history.series_histories import update_change_points
from perfci.model import ChangePoint, ProcessBoundaries, Series
from perfci.store import Store, open_store, verdicts_and_change_points
from perfci.store.queries import measured_series
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import (
    PROJECT,
    a_change_point,
    a_commit,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
)
from tests.support.stored_runs import ingest_run, replace_change_points

QUIET, BUSY = a_series("suite.time_quiet"), a_series("suite.time_busy")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'perfci.db'}", create=True)
    yield store
    store.close()


def import_history(store: Store, series: Series, *values: float, first: int = 0) -> None:
    """One run per value, a commit each."""
    with store.begin() as tx:
        for number, value in enumerate(values, first):
            result = a_result(
                series, processes=(), summary=a_summary(value), boundaries=ProcessBoundaries.UNKNOWN
            )
            run = a_run(result, commit=a_commit(number), session=f"{series.benchmark.name} {number}")
            ingest_run(tx, run, run.session, "body")


def update(store: Store, since: int = 0) -> int:
    with store.begin() as tx:
        update_change_points(
            tx, PROJECT, measured_series.load_series_ids_with_newer_results(tx, PROJECT, since), Policy()
        )
        return len(verdicts_and_change_points.load_change_points(tx, PROJECT))


def stored_change_points(store: Store) -> list[ChangePoint]:
    with store.read() as tx:
        return verdicts_and_change_points.load_change_points(tx, PROJECT)


def test_finds_the_step_in_an_imported_history(store: Store) -> None:
    import_history(store, BUSY, *[1.0, 1.01] * 10, *[1.3, 1.31] * 3)

    assert update(store) == 1
    assert [(change.series, change.commit) for change in stored_change_points(store)] == [(BUSY, a_sha(20))]


def test_does_not_rewrite_an_unchanged_history(store: Store) -> None:
    import_history(store, QUIET, *[1.0, 1.01] * 10)
    as_it_was = a_change_point(QUIET)
    with store.begin() as tx:
        replace_change_points(tx, PROJECT, QUIET, [as_it_was])
        since = measured_series.load_latest_result_id(tx)
    import_history(store, BUSY, *[1.0, 1.01] * 10, *[1.3, 1.31] * 3)

    assert update(store, since=since) == 2
    assert [(change.series, change.commit) for change in stored_change_points(store)] == [
        (QUIET, as_it_was.commit),
        (BUSY, a_sha(20)),
    ]


def test_incremental_change_points_equal_those_of_the_whole_history(store: Store) -> None:
    values = [*[1.0, 1.01] * 10, *[1.3, 1.31] * 3, *[1.0, 1.01] * 5]
    for number, value in enumerate(values):
        import_history(store, BUSY, value, first=number)
        update(store)
    import_history(store, QUIET, *values)

    update(store)

    item, other = (
        [change.commit for change in stored_change_points(store) if change.series == series]
        for series in (BUSY, QUIET)
    )
    assert item == other == [a_sha(20), a_sha(26)]
