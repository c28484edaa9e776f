"""A process is loaded exactly as it was stored, once, with how it ended."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_sessions import measured_run, started, stored_processes

from perfci.model import Clock, PerfciError, Process, Role, Status
from perfci.store import Store
from perfci.store.column_conversions import UtcMs, pack_samples, unpack_samples
from perfci.store.queries import measured_samples
from perfci.store.writes import measured_sessions
from tests.support.builders import a_failed_process, a_process, a_run, a_series


def test_a_process_comes_back_as_it_was_stored(store: Store) -> None:
    started(store)
    process = Process(
        index=3,
        role=Role.HEAD,
        status=Status.OK,
        samples=(0.1, 1e-300, 5e-324, -0.0, 1.7976931348623157e308, 2**53 + 1.0),
        clock=Clock.CPU,
        pair=0,
        round=2,
        order=5,
        started_at=datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC),
        duration_s=0.1 + 0.2,
        reason="",
        exit_code=-11,
        stderr_tail="warning: slow\n",
        flags=("throttled: SM clock at 60 %", "shared_gpu: 2 other processes"),
    )

    measured_run(store, (a_series(), process))

    assert stored_processes(store) == [process]
    assert math.copysign(1, stored_processes(store)[0].samples[3]) == -1


@pytest.mark.parametrize("clock", Clock)
def test_every_clock_comes_back_as_it_was_stored(store: Store, clock: Clock) -> None:
    started(store)

    measured_run(store, (a_series(), a_process(clock=clock)))

    assert [process.clock for process in stored_processes(store)] == [clock]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_samples_are_exact(samples: list[float]) -> None:
    assert list(map(float.hex, unpack_samples(pack_samples(samples)))) == list(map(float.hex, samples))


@settings(deadline=None, derandomize=True)
@given(st.datetimes(timezones=st.just(UTC)))
def test_times_are_exact_to_the_millisecond(moment: datetime) -> None:
    column: Any = UtcMs()
    stored = column.process_bind_param(moment, None)
    back = column.process_result_value(stored, None)

    assert timedelta(0) <= moment - back < timedelta(milliseconds=1)


def test_stores_how_a_failed_process_ended(store: Store) -> None:
    started(store)
    failed = a_failed_process(Status.OOM, reason="killed by the kernel for memory", exit_code=-9)

    measured_run(store, (a_series(), failed))

    assert stored_processes(store) == [failed]


def test_stores_a_process_whose_output_is_not_valid_text(store: Store) -> None:
    started(store)

    measured_run(store, (a_series(), a_failed_process(stderr_tail="half \ud83d of it\x00, grün")))

    assert stored_processes(store)[0].stderr_tail == "half ? of it\ufffd, grün"


def test_metrics_of_one_process_share_its_index(store: Store) -> None:
    started(store)

    measured_run(
        store, (a_series(metric="time"), a_process(1.0)), (a_series(metric="memory"), a_process(5.0))
    )

    with store.read() as tx:
        session_processes = measured_samples.load_session_processes(tx, "session-1")
    assert [(item.series.metric.name, item.process.index) for item in session_processes] == [
        ("time", 0),
        ("memory", 0),
    ]


def test_ids_come_back_in_the_order_of_the_processes(store: Store) -> None:
    started(store)
    measured = [(a_series(metric=f"metric {number}"), a_process(float(number))) for number in range(20)]

    with store.begin() as tx:
        ids = measured_sessions.add_process_measurements(
            tx, measured_sessions.find_or_add_run(tx, a_run()), measured
        )

    with store.read() as tx:
        by_id = {
            session_process.id: session_process.process.samples
            for session_process in measured_samples.load_session_processes(tx, "session-1")
        }
    assert [by_id[row_id] for row_id in ids] == [(float(number),) for number in range(20)]


@pytest.mark.parametrize(
    "changes",
    [{}, {"pair": 1}, {"round": None, "order": None}, {"role": Role.BASE, "pair": 1, "round": None}],
    ids=["round", "pair", "neither", "base"],
)
def test_the_same_process_cannot_be_stored_twice(store: Store, changes: dict[str, Any]) -> None:
    started(store)
    process = a_process(**changes)
    run_id = measured_run(store, (a_series(), process))

    with pytest.raises(PerfciError, match="This process is stored already"), store.begin() as tx:
        measured_sessions.add_process_measurements(tx, run_id, [(a_series(), process)])

    assert stored_processes(store) == [process]


@pytest.mark.parametrize(
    "change", [{"pair": 1}, {"round": 1}, {"order": 1}, {"index": 1}, {"role": Role.BASE}]
)
def test_stores_processes_that_differ_in_one_field(store: Store, change: dict[str, Any]) -> None:
    started(store)

    measured_run(store, (a_series(), a_process()), (a_series(), a_process(**change)))

    assert len(stored_processes(store)) == 2


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ([Status.FAILED, Status.OK, Status.FAILED], Status.OK),
        ([Status.FAILED, Status.TIMEOUT], Status.TIMEOUT),
        ([Status.OK, Status.OOM], Status.OK),
    ],
)
def test_a_result_is_ok_once_any_process_is_else_the_latest_counts(
    store: Store, ends: list[Status], status: Status
) -> None:
    started(store)

    for index, end in enumerate(ends):
        process = a_process(index=index) if end is Status.OK else a_failed_process(end, index=index)
        measured_run(store, (a_series(), process))

    with store.read() as tx:
        assert measured_samples.load_history(tx, 1)[0].status is status


def test_processes_need_their_run(store: Store) -> None:
    with pytest.raises(PerfciError, match="There is no run 17"), store.begin() as tx:
        measured_sessions.add_process_measurements(tx, 17, [(a_series(), a_process())])
