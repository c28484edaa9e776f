"""Requests are served on a fake machine, where sleeping is the only thing that takes no CPU time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean

import pytest
from fake_device import FakeDevice
from hypothesis import given
from hypothesis import strategies as st

from perfci.bench.readings import Measurement, Reading, check_and_serialize_readings
from perfci.bench.streams import request_metrics
from perfci.bench.streams.request_metrics import RequestTrace
from perfci.bench.streams.serving import (
    SERVING_METRICS,
    measure_serving,
    poisson_arrivals,
    serve_requests,
    serving_readings,
    simulate_queue,
)
from perfci.bench.streams.stream_requests import StreamRequest
from perfci.model import Clock


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    device = FakeDevice(kind="cpu", uuid=None)

    def sleep(seconds: float) -> None:
        device.host_s += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("perfci.bench.streams.serving.perf_counter", lambda: device.host_s)
    return device.install(monkeypatch, "perfci.bench.streams.stream_clock", "perfci.bench.timers.warmup")


def working(device: FakeDevice, *seconds: float) -> Callable[[], Iterator[str]]:
    """A pipeline that answers in one chunk; the last of the times holds for all further requests."""
    left = list(seconds)

    def stream() -> Iterator[str]:
        device.work(left.pop(0) if len(left) > 1 else left[0])
        yield "answer"

    return stream


def read(measured: Measurement, name: str) -> Reading:
    reading = measured.readings[name]
    assert isinstance(reading, Reading), reading
    return reading


def test_counts_what_a_request_waited_for_the_one_before(cpu: FakeDevice) -> None:
    served = serve_requests(StreamRequest(working(cpu, 4.0, 4.0, 1.0), cpu), [1.0, 2.0, 20.0])

    assert [request_metrics.e2el(trace) for trace in served.from_arrival.wall] == pytest.approx(
        [4.0, 7.0, 1.0]
    )
    assert [request_metrics.e2el(trace) for trace in served.from_start.wall] == pytest.approx([4.0, 4.0, 1.0])


def test_computes_the_same_queue_by_the_cpu_clock_though_it_stops_while_the_worker_sleeps(
    cpu: FakeDevice,
) -> None:
    served = serve_requests(StreamRequest(working(cpu, 4.0, 4.0, 1.0), cpu), [1.0, 2.0, 20.0])

    assert [request_metrics.e2el(trace) for trace in served.from_arrival.cpu] == pytest.approx(
        [4.0, 7.0, 1.0]
    )


def test_excludes_other_processes_from_the_queue_by_the_cpu_clock(cpu: FakeDevice) -> None:
    def preempted() -> Iterator[str]:
        cpu.host_s += 10.0
        yield from working(cpu, 1.0)()

    served = serve_requests(StreamRequest(preempted, cpu), [0.0, 2.0])

    assert [request_metrics.e2el(trace) for trace in served.from_arrival.wall] == pytest.approx([11.0, 20.0])
    assert [request_metrics.e2el(trace) for trace in served.from_arrival.cpu] == pytest.approx([1.0, 1.0])


def test_sends_the_next_request_when_the_last_has_ended_in_a_closed_loop(cpu: FakeDevice) -> None:
    served = serve_requests(StreamRequest(working(cpu, 4.0, 1.0), cpu), 3)

    assert [request_metrics.e2el(trace) for trace in served.from_arrival.wall] == pytest.approx(
        [4.0, 1.0, 1.0]
    )
    assert read(serving_readings(served), "queue_time").samples == (0.0,)


def test_counts_goodput_from_the_first_arrival_to_the_last_end(cpu: FakeDevice) -> None:
    served = serve_requests(StreamRequest(working(cpu, 4.0, 4.0, 1.0), cpu), [1.0, 2.0, 20.0])

    measured = serving_readings(served, sla=request_metrics.parse_sla({"e2el": 5.0}))

    assert read(measured, "goodput").samples == pytest.approx([2 / 20])
    assert read(measured, "goodput").cpu == pytest.approx([2 / 20])
    assert read(measured, "throughput").samples == pytest.approx([3 / 20])


def test_shows_waiting_and_work_as_informational_metrics(cpu: FakeDevice) -> None:
    served = serve_requests(StreamRequest(working(cpu, 4.0, 4.0, 1.0), cpu), [1.0, 2.0, 20.0])

    measured = serving_readings(served)

    assert read(measured, "queue_time").samples == pytest.approx((1.0,))
    assert read(measured, "utilisation").samples == pytest.approx((9 / 20,))
    assert read(measured, "utilisation").clock is Clock.INFORMATIONAL


def test_flags_requests_that_come_faster_than_they_are_served(cpu: FakeDevice) -> None:
    measured = serving_readings(serve_requests(StreamRequest(working(cpu, 2.0), cpu), [1.0, 2.0, 3.0, 4.0]))

    assert measured.flags == ("overloaded: 1 requests came per second and 0.5 can be served",)


def test_does_not_call_a_closed_loop_or_an_idle_worker_overloaded(cpu: FakeDevice) -> None:
    closed = serving_readings(serve_requests(StreamRequest(working(cpu, 2.0), cpu), 4))
    idle = serving_readings(serve_requests(StreamRequest(working(cpu, 0.5), cpu), [1.0, 2.0, 3.0]))

    assert (closed.flags, idle.flags) == ((), ())


def test_reports_a_p90_from_64_requests(cpu: FakeDevice) -> None:
    measured = measure_serving(working(cpu, 0.01), device=cpu, rate=20.0, sla={"e2el_p90": 1.0})

    rows = {row["name"]: row for row in check_and_serialize_readings(SERVING_METRICS, measured)["metrics"]}

    assert rows["e2el_p90"]["status"] == "ok"
    assert rows["e2el_p99"]["reason"] == "needs 662 requests, measured 64"


def test_warms_up_before_the_first_request_arrives(cpu: FakeDevice) -> None:
    measured = measure_serving(working(cpu, 3.0, 0.02), device=cpu, rate=None, requests=2, warmup_s=4.0)

    assert read(measured, "e2el").samples == pytest.approx([0.02, 0.02])
    assert measured.flags == ()


def test_flags_a_pipeline_that_did_not_settle(cpu: FakeDevice) -> None:
    slower = working(cpu, *(0.02 * 1.1**request for request in range(40)))

    measured = measure_serving(slower, device=cpu, rate=None, requests=2, warmup_s=0.01)

    assert [flag.split(":")[0] for flag in measured.flags] == ["unsettled"]


def test_draws_one_schedule_from_one_seed() -> None:
    assert poisson_arrivals(5.0, 100, seed=1) == poisson_arrivals(5.0, 100, seed=1)
    assert poisson_arrivals(5.0, 100, seed=1) != poisson_arrivals(5.0, 100, seed=2)


def test_draws_gaps_that_are_exponential() -> None:
    arrivals = poisson_arrivals(4.0, 20_000, seed=3)

    gaps = [later - earlier for earlier, later in zip((0.0, *arrivals), arrivals, strict=False)]

    assert fmean(gaps) == pytest.approx(0.25, rel=0.03)
    assert sum(gap > 0.25 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.02)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_refuses_a_rate_at_which_nothing_arrives(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        poisson_arrivals(rate, 3)


def test_refuses_to_serve_zero_requests(cpu: FakeDevice) -> None:
    with pytest.raises(ValueError, match="at least 1 request"):
        measure_serving(working(cpu, 1.0), device=cpu, rate=1.0, requests=0)


seconds = st.floats(min_value=0, max_value=1e3)


@given(st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=20))
def test_a_queue_works_each_request_as_long_as_alone_and_one_at_a_time(
    requests: list[tuple[float, float, float]],
) -> None:
    arrivals = sorted(arrival for arrival, _, _ in requests)
    alone = [RequestTrace(9.0, ((9.0 + first, 1),), 9.0 + first + rest) for _, first, rest in requests]

    laid = simulate_queue(alone, arrivals)

    begun = [item.ended_at - request_metrics.e2el(each) for item, each in zip(laid, alone, strict=True)]
    assert all(begin >= arrival - 1e-6 for begin, arrival in zip(begun, arrivals, strict=True))
    assert all(begin >= before.ended_at - 1e-6 for begin, before in zip(begun[1:], laid, strict=False))
