"""Stages on a fake machine: what they add up to, what they leave out, what they wait for."""

from __future__ import annotations

import re

import pytest
from fake_device import FakeDevice

from perfci.bench.readings import Absent, Reading, check_and_serialize_readings
from perfci.bench.timers import stage_timers as stages_module
from perfci.bench.timers.stage_timers import Stages, declare_stage_metrics
from perfci.model import Clock


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(kind="cpu").install(monkeypatch, "perfci.bench.timers.stage_timers")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(launch_s=0.0).install(monkeypatch, "perfci.bench.timers.stage_timers")


def samples(stages: Stages, name: str) -> list[float]:
    reading = stages.readings()[name]
    assert isinstance(reading, Reading)
    return list(reading.samples)


def test_times_each_stage_of_each_run_by_both_clocks(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    for prefill in (2.0, 3.0):
        with stages:
            with stages("prefill"):
                cpu.work(prefill)
            with stages("decode"):
                cpu.work(6.0)
                cpu.host_s += 1.0

    readings = stages.readings()

    assert readings["prefill"] == Reading([2.0, 3.0], Clock.WALL, cpu=[2.0, 3.0])
    assert readings["decode"] == Reading([7.0, 7.0], Clock.WALL, cpu=[6.0, 6.0])


def test_gives_shares_that_sum_to_one(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages:
        with stages("prefill"):
            cpu.work(1.0)
        with stages("decode"):
            cpu.work(3.0)

    assert samples(stages, "prefill_share") == [0.25]
    assert samples(stages, "decode_share") == [0.75]


def test_excludes_a_nested_stage_from_the_outer_one(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages, stages("decode"):
        cpu.work(1.0)
        with stages("sample"):
            cpu.work(2.0)
            with stages("softmax"):
                cpu.work(4.0)

    assert [samples(stages, name) for name in ("decode", "sample", "softmax")] == [[1.0], [2.0], [4.0]]
    assert sum(samples(stages, f"{name}_share")[0] for name in stages.names) == pytest.approx(1.0)


def test_sums_repeated_entries_of_a_stage_in_one_run(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages:
        for _ in range(3):
            with stages("chunk"):
                cpu.work(2.0)

    assert samples(stages, "chunk") == [6.0]


def test_attributes_queued_work_to_the_stage_that_queued_it(gpu: FakeDevice) -> None:
    stages = Stages(gpu)
    with stages:
        with stages("prefill"):
            gpu.kernel(5.0)
        with stages("decode"):
            gpu.kernel(1.0)

    assert samples(stages, "prefill") == pytest.approx([5.0])
    assert samples(stages, "decode") == pytest.approx([1.0])


def test_judges_the_wall_where_an_accelerator_computes(gpu: FakeDevice) -> None:
    stages = Stages(gpu)
    with stages, stages("prefill"):
        gpu.kernel(5.0)

    reading = stages.readings()["prefill"]

    assert isinstance(reading, Reading)
    assert not reading.cpu


def test_synchronises_only_at_stage_boundaries(gpu: FakeDevice) -> None:
    stages = Stages(gpu)
    with stages, stages("decode"):
        for _ in range(10):
            gpu.kernel(1.0)

    assert gpu.synchronised == 4


def test_accepts_two_percent_outside_all_stages(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages:
        with stages("decode"):
            cpu.work(0.9801)
        cpu.work(0.0199)

    assert samples(stages, "decode_share") == pytest.approx([0.9801])


def test_rejects_stages_that_leave_more_out(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages:
        with stages("prefill"):
            cpu.work(0.4)
        with stages("decode"):
            cpu.work(0.5)
        cpu.work(0.1)

    message = (
        "the stages add up to 0.9 s of 1 s (wall time): 10.0 % of it is in none of prefill, "
        "decode, 2.0 % is allowed; "
        "time the rest too"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        stages.readings()


def with_a_gap(cpu: FakeDevice, *gaps: float) -> Stages:
    """Runs whose one stage takes a second, each followed by so many seconds in none."""
    stages = Stages(cpu)
    for gap in gaps:
        with stages:
            with stages("decode"):
                cpu.work(1.0)
            cpu.work(gap)
    return stages


def test_judges_completeness_by_the_median_run(cpu: FakeDevice) -> None:
    assert samples(with_a_gap(cpu, 0.0, 5.0, 0.01), "decode") == pytest.approx([1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=re.escape("add up to 1 s of 1.25 s (wall time): 20.0 % of it")):
        with_a_gap(cpu, 0.25, 5.0, 0.01).readings()


def test_tolerates_interpreter_overhead_in_runs_of_microseconds(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages:
        with stages("decode"):
            cpu.work(50e-6)
        cpu.work(10e-6)

    assert samples(stages, "decode_share") == pytest.approx([5 / 6])


def test_does_not_check_the_sum_of_incomplete_stages(cpu: FakeDevice) -> None:
    readings = with_a_gap(cpu, 1.0).readings(complete=False)

    assert readings["decode_share"] == Reading((0.5,), Clock.INFORMATIONAL)


def test_pauses_the_clocks_during_its_own_bookkeeping(
    cpu: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is read at the beginning and at the end of each bookkeeping; what lies between is nobody's
    time.
    """
    stages = Stages(cpu)
    opened = stages_module.OpenStage

    def slow_books(*args: object) -> object:
        cpu.work(100.0)
        return opened(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(stages_module, "OpenStage", slow_books)
    with stages, stages("decode"):
        cpu.work(1.0)

    assert samples(stages, "decode") == pytest.approx([1.0])
    assert samples(stages, "decode_share") == pytest.approx([1.0])


def test_detects_uncovered_time_that_only_the_cpu_clock_shows(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages:
        with stages("load"):
            cpu.host_s += 100.0
        cpu.work(1.0)

    with pytest.raises(ValueError, match="CPU time"):
        stages.readings()


def test_gives_a_reason_for_a_declared_stage_that_is_absent(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with stages, stages("prefill"):
        cpu.work(1.0)

    readings = stages.readings(("prefill", "postprocess"))

    assert readings["postprocess"] == Absent("no run entered the stage 'postprocess'")
    assert check_and_serialize_readings(declare_stage_metrics("prefill", "postprocess"), readings)["metrics"][
        0
    ]["samples"] == [1.0]


def test_drops_a_run_that_raised_and_continues(cpu: FakeDevice) -> None:
    stages = Stages(cpu)
    with pytest.raises(ZeroDivisionError), stages, stages("decode"):
        cpu.work(9.0 / 0)
    with stages, stages("decode"):
        cpu.work(1.0)

    assert samples(stages, "decode") == [1.0]


def test_rejects_use_that_would_count_time_twice_or_not_at_all(cpu: FakeDevice) -> None:
    stages = Stages(cpu)

    with pytest.raises(ValueError, match="inside itself"), stages, stages("decode"), stages("decode"):
        pass
    with pytest.raises(ValueError, match="already being timed"), stages, stages:
        pass
    with pytest.raises(ValueError, match="outside a run"), stages("decode"):
        pass


def test_has_no_readings_without_a_run_or_with_zero_seconds(cpu: FakeDevice) -> None:
    with pytest.raises(ValueError, match="no run"):
        Stages(cpu).readings()
    stages = Stages(cpu)
    with stages:
        pass
    with pytest.raises(ValueError, match="took no wall time"):
        stages.readings()
