"""The clocks of a stream are read on a fake machine: the wall's always, the CPU's once a millisecond."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fake_device import FakeDevice

from perfci.bench.streams import stream_clock
from perfci.bench.streams.stream_clock import StreamClock, share_cpu_seconds


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(kind="cpu").install(monkeypatch, "perfci.bench.streams.stream_clock")


def test_reads_the_cpu_clock_once_a_millisecond_however_many_chunks_come(
    cpu: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(stream_clock, "process_time", lambda: asked.append(cpu.host_s) or cpu.cpu_s)
    clock = StreamClock()

    clock.record_moment()
    for _ in range(100):
        cpu.work(0.0001)
        clock.record_moment()
    clock.finish_and_get_moments()

    assert 10 <= len(asked) <= 13  # 10 ms of chunks, both ends and the first chunk


def test_reads_both_clocks_at_the_send_the_first_chunk_and_the_end(cpu: FakeDevice) -> None:
    clock = StreamClock()

    clock.record_moment()
    cpu.work(0.0002)
    clock.record_moment()
    cpu.work(0.0001)
    cpu.host_s += 0.0003  # another process ran
    moments = clock.finish_and_get_moments()

    assert [cpu_s - 5.0 for _, cpu_s in moments] == pytest.approx([0.0, 0.0002, 0.0003])


def test_takes_the_time_of_another_process_from_the_gap_it_made_long(cpu: FakeDevice) -> None:
    clock = StreamClock()
    clock.record_moment()
    clock.record_moment()

    for interrupted_s in (0.0, 0.008, 0.0):
        cpu.work(0.0002)
        cpu.host_s += interrupted_s
        clock.record_moment()
    moments = clock.finish_and_get_moments()

    gaps = [after - before for (_, before), (_, after) in pairwise(moments)]
    assert gaps == pytest.approx([0.0, 0.0002, 0.0002, 0.0002, 0.0])


@pytest.mark.parametrize(
    ("cpu_s", "shared"),
    [
        (0.6, [0.1, 0.3, 0.2]),  # it computed all the time
        (0.5, [0.1, 0.2, 0.2]),
        (0.3, [0.1, 0.1, 0.1]),
        (1.2, [0.2, 0.6, 0.4]),  # on two threads
        (0.0, [0.0, 0.0, 0.0]),
    ],
)
def test_shares_cpu_seconds_out(cpu_s: float, shared: list[float]) -> None:
    assert share_cpu_seconds([0.1, 0.3, 0.2], cpu_s) == pytest.approx(shared)


def test_never_goes_back_where_no_time_passes(cpu: FakeDevice) -> None:
    clock = StreamClock()
    for _ in range(5):
        clock.record_moment()

    assert clock.finish_and_get_moments() == [(100.0, 5.0)] * 6
