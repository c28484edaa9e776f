"""What differs in one place stays apart, and what is the same is one row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from store_sessions import measured_run, started

from perfci.model import PerfciError, Series, Status
from perfci.store import Store
from perfci.store.queries import measured_samples, series_search
from perfci.store.writes import measured_sessions
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_variant,
    an_environment,
)
from tests.support.stored_runs import ingest_run


def series_that_differ_in_one_coordinate() -> Iterable[Series]:
    yield a_series()
    yield a_series("training.Step.time_other")
    yield a_series(version="2")
    yield a_series(parameters={"n": "1"})
    yield a_series(parameters={"n": "2"})
    yield a_series(parameters={"n": "1", "m": "2"})
    yield a_series(parameters={"m": "2", "n": "1"})
    yield a_series(parameters={"n": "1, m=2"})
    yield a_series(metric="cpu_time")
    yield a_series(unit="ms")
    yield a_series(direction="higher")
    yield a_series(machine=a_machine("Intel"))
    yield a_series(machine=a_machine(cores=4))
    yield a_series(machine=a_machine(cores=None))
    yield a_series(machine=a_machine(memory_gb=24))
    yield a_series(machine=a_machine(accelerator="NVIDIA H200", accelerators=1))
    yield a_series(machine=a_machine(accelerator="NVIDIA H200", accelerators=2))
    yield a_series(machine=a_machine(name="ubuntu-latest"))
    yield a_series(variant=a_variant(python="3.11"))
    yield a_series(variant=a_variant(python="3.12"))
    yield a_series(variant=a_variant(python="3.12", numpy=""))
    yield a_series(harness="perfci/2")


def test_no_two_series_become_one(store: Store) -> None:
    different = list(series_that_differ_in_one_coordinate())
    started(store)

    run_id = measured_run(store, *((item, a_process()) for item in different))

    with store.read() as tx:
        assert {record.series for record in series_search.search_series(tx, PROJECT)} == set(different)
        assert len({result.series for result in measured_samples.load_run(tx, run_id).results}) == len(
            different
        )


def test_series_of_two_projects_have_separate_rows(store: Store) -> None:
    with store.begin() as tx:
        for project in ("acme/model", "acme/other"):
            ingest_run(tx, a_run(a_result(), project=project, session=project), project, "body")

    with store.read() as tx:
        ids = [series_search.search_series(tx, project)[0].id for project in ("acme/model", "acme/other")]
        assert [len(measured_samples.load_history(tx, row_id)) for row_id in ids] == [1, 1]
    assert ids[0] != ids[1]


def test_a_resumed_run_continues_in_the_same_row(store: Store) -> None:
    started(store)

    with store.begin() as tx:
        first = measured_sessions.find_or_add_run(tx, a_run())
        again = measured_sessions.find_or_add_run(tx, a_run(started_at=NOON + timedelta(hours=1)))

    assert again == first


@pytest.mark.parametrize(
    "change",
    [
        {"commit": a_commit(2)},
        {"commit": a_commit(1, dirty=True)},
        {"machine": a_machine("Intel")},
        {"environment": an_environment(torch="2.12.0")},
        {"variant": a_variant(compile="on")},
        {"suite": "other"},
        {"harness": "perfci/2"},
        {"session": "session-2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_runs_that_differ_in_one_field_are_separate(store: Store, change: dict[str, Any]) -> None:
    started(store)
    started(store, "session-2")

    with store.begin() as tx:
        assert measured_sessions.find_or_add_run(tx, a_run()) != measured_sessions.find_or_add_run(
            tx, a_run(**change)
        )


def test_stores_the_results_of_a_run_once(store: Store) -> None:
    started(store)
    unbuilt = a_result(a_series(), status=Status.FAILED, reason="the commit does not build", processes=())
    run = replace(a_run(), results=(replace(unbuilt, processes=()),))

    for _ in range(2):
        with store.begin() as tx:
            run_id = measured_sessions.find_or_add_run(tx, run)

    with store.read() as tx:
        assert measured_samples.load_run(tx, run_id) == run


def test_a_run_needs_its_session(store: Store) -> None:
    with pytest.raises(PerfciError, match="There is no session session-1"), store.begin() as tx:
        measured_sessions.find_or_add_run(tx, a_run())
