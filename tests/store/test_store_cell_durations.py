"""How long a cell took in earlier runs on the machine: what a run is planned by."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from store_sessions import measured_run, started

from perfci.model import Machine, Process, Series, Status, Variant
from perfci.store import Store
from perfci.store.queries.cell_durations import load_cell_durations
from tests.support.builders import NOON, PROJECT, a_run, a_series


def a_process(duration_s: float, index: int = 0, status: Status = Status.OK) -> Process:
    samples = (1.0,) if status is Status.OK else ()
    return Process(index=index, status=status, samples=samples, duration_s=duration_s, round=index)


def durations(store: Store, series: Series, machine: Machine | None = None) -> dict[str, float]:
    with store.read() as tx:
        loaded = load_cell_durations(tx, PROJECT, machine or series.machine, series.variant)
    return {name: seconds for (name, _), seconds in loaded.items()}


def test_the_newest_run_that_has_a_cell_says_how_long_it_takes(store: Store) -> None:
    series = a_series()
    other = replace(series, benchmark=replace(series.benchmark, name="suite.other"))
    started(store)
    started(store, "session-2", spec_hash="another plan")
    measured_run(store, (series, a_process(9.0)), (other, a_process(4.0)))
    newer = a_run(session="session-2", started_at=NOON + timedelta(hours=3))
    measured_run(store, (series, a_process(2.0)), (series, a_process(3.0, 1)), run=newer)

    assert durations(store, series) == {series.benchmark.name: 2.5, "suite.other": 4.0}


def test_processes_that_failed_and_other_machines_say_nothing(store: Store) -> None:
    series = a_series()
    started(store)
    measured_run(store, (series, a_process(0.1, status=Status.FAILED)))

    assert durations(store, series) == {}

    measured_run(store, (series, a_process(60.0, 1, Status.TIMEOUT)))
    assert durations(store, series) == {series.benchmark.name: 60.0}
    assert durations(store, series, Machine(cpu="another", cores=64)) == {}
    smoke = replace(series, variant=Variant((("size", "smoke"),)))
    assert durations(store, smoke) == {}
