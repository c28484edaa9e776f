"""The clocks of a stream are read on a fake machine: the wall's always, the CPU's once a millisecond."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fake_device import FakeDevice

from perfci.bench.streams import stream_clock
from perfci.bench.streams.stream_clock import StreamClock


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(kind="cpu").install(monkeypatch, "perfci.bench.streams.stream_clock")


def test_reads_the_cpu_clock_once_a_millisecond_however_many_chunks_come(
    cpu: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(stream_clock, "process_time", lambda: asked.append(cpu.host_s) or cpu.cpu_s)
    clock = StreamClock()

    clock.read()
    for _ in range(100):
        cpu.work(0.0001)
        clock.read()
    clock.read_last()

    assert 10 <= len(asked) <= 13  # 10 ms of chunks, both ends and the first chunk


def test_reads_both_clocks_at_the_send_the_first_chunk_and_the_end(cpu: FakeDevice) -> None:
    clock = StreamClock()

    clock.read()
    cpu.work(0.0002)
    clock.read()
    cpu.work(0.0001)
    cpu.host_s += 0.0003  # another process ran
    moments = clock.read_last()

    assert [cpu_s - 5.0 for _, cpu_s in moments] == pytest.approx([0.0, 0.0002, 0.0003])


def test_shares_cpu_seconds_between_two_readings_as_the_wall_seconds(cpu: FakeDevice) -> None:
    clock = StreamClock()
    clock.read()
    clock.read()

    for seconds in (0.0001, 0.0003, 0.0002):
        cpu.work(seconds / 2)
        cpu.host_s += seconds / 2
        clock.read()
    moments = clock.read_last()

    gaps = [after - before for (_, before), (_, after) in pairwise(moments)]
    assert gaps == pytest.approx([0.0, 0.00005, 0.00015, 0.0001, 0.0])


def test_never_goes_back_where_no_time_passes(cpu: FakeDevice) -> None:
    clock = StreamClock()
    for _ in range(5):
        clock.read()

    assert clock.read_last() == [(100.0, 5.0)] * 6
