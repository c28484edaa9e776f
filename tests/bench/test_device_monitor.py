from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_device import FakeDevice
from fake_nvml import install_nvml

from perfci.bench.devices.device_monitor import (
    CONDITION_METRICS,
    exclude_own_processes,
    monitor_device,
    throttle_flags,
)
from perfci.bench.devices.nvml import GpuProcess, GpuSamples
from perfci.bench.devices.torch_devices import Cpu
from perfci.bench.readings import UNITS, Absent, Reading, informational, metrics
from perfci.model import Clock


def watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **answers: Any
) -> tuple[tuple[str, ...], dict[str, Any]]:
    install_nvml(folder, monkeypatch, **answers)
    with monitor_device(FakeDevice(), interval_s=0.01) as seen:
        pass
    return seen.flags, seen.readings


def test_a_healthy_gpu_alone_has_no_flag_and_every_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags, readings = watched(tmp_path, monkeypatch)

    assert flags == ()
    assert {name: reading.samples[0] for name, reading in readings.items()} == {
        "sm_clock": 1.98e9,
        "temperature": 55,
        "power": 310,
        "busy_share": 0.97,
        "sm_active": 0.615,
        "gpu_neighbours": 0,
    }


def test_condition_readings_are_declared_and_informational(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, readings = watched(tmp_path, monkeypatch)

    result = metrics(*CONDITION_METRICS)(lambda: readings)()

    assert {row["clock"] for row in result["metrics"]} == {Clock.INFORMATIONAL}
    assert {metric.unit for metric in CONDITION_METRICS} <= UNITS


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x8, "HW slowdown"),
        (0x10, "sync boost"),
        (0x20, "SW thermal slowdown"),
        (0x40, "HW thermal slowdown"),
        (0x80, "HW power brake"),
    ],
)
def test_flags_whatever_slowed_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bit: int, name: str
) -> None:
    flags, readings = watched(tmp_path, monkeypatch, reasons=[bit, 0])

    samples = len(readings["sm_clock"].samples)
    assert flags == (f"throttled: {name} in 1 of {samples} samples",)


@pytest.mark.parametrize("bit", [0x0, 0x1, 0x2, 0x100])
def test_an_idle_sample_or_a_locked_clock_is_not_throttling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bit: int
) -> None:
    flags, _ = watched(tmp_path, monkeypatch, reasons=bit, sm_mhz=1200)

    assert flags == ()


def test_a_power_cap_is_noted_while_the_clock_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags, readings = watched(tmp_path, monkeypatch, reasons=0x4, sm_mhz=1500)

    samples = len(readings["sm_clock"].samples)
    assert flags == (f"power_capped: in {samples} of {samples} samples, mean 1500, least 1500 of 1980 MHz",)


def test_a_power_cap_is_throttling_below_three_quarters_of_the_highest_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags, readings = watched(tmp_path, monkeypatch, reasons=0x4, sm_mhz=1400)

    samples = len(readings["sm_clock"].samples)
    assert flags == (
        f"throttled: SW power cap in {samples} of {samples} samples, mean 1400, least 1400 of 1980 MHz",
    )


def test_a_single_slow_sample_at_full_power_is_no_throttling() -> None:
    """As an H200 at its 700 W: idle, then matrix products at 1.5 to 1.8 GHz, and a dip."""
    clocks = [0.345e9, 1.74e9, 1.52e9, 1.29e9, 1.61e9, 1.98e9, 1.66e9, 1.58e9, 1.71e9]
    events = [1.0, 4.0, 4.0, 4.0, 4.0, 0.0, 4.0, 4.0, 4.0]
    sampled = GpuSamples({"clock_events": events, "sm_clock": clocks})

    flags = list(throttle_flags(sampled, SimpleNamespace(sm_clock_max=lambda: 1.98e9)))

    assert flags == ["power_capped: in 7 of 9 samples, mean 1636, least 1290 of 1980 MHz"]


def test_flags_another_process_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        name = {f"name of {other.pid}": "/opt/bin/trainer"}
        flags, readings = watched(tmp_path, monkeypatch, pids=f"{os.getpid()} {other.pid}", **name)
        other.communicate(b"\n")

    assert flags == (f"shared_gpu: pid {other.pid} trainer",)
    assert readings["gpu_neighbours"] == informational(1)


@pytest.mark.parametrize("when", ["came", "went"])
def test_flags_a_process_that_started_or_ended_during_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        looks = ["", str(other.pid)] if when == "came" else [str(other.pid), ""]
        flags, _ = watched(tmp_path, monkeypatch, pids=looks)
        other.communicate(b"\n")

    assert flags == (f"shared_gpu: pid {other.pid} (outside this container)",)


def test_our_own_ranks_are_not_flagged() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as rank:
        result = exclude_own_processes([GpuProcess(os.getpid(), "python"), GpuProcess(rank.pid, "python")])
        rank.communicate(b"\n")

    assert result == []


def test_attributes_one_host_pid_to_ourselves_and_no_second() -> None:
    nowhere = [GpuProcess(2**22 + number, "") for number in range(2)]

    assert exclude_own_processes(nowhere[:1]) == []
    assert exclude_own_processes(nowhere) == nowhere[1:]
    assert exclude_own_processes([GpuProcess(os.getpid(), "python"), *nowhere]) == nowhere


def test_what_nvml_refuses_is_absent_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags, readings = watched(tmp_path, monkeypatch, milliwatts=None, pids=None, gpm=0)

    assert flags == ()
    assert readings["power"] == Absent("NVML answers nvmlDeviceGetPowerUsage with: Not Supported")
    assert readings["sm_active"] == Absent("SM activity needs a Hopper GPU or newer, or DCGM")
    assert readings["gpu_neighbours"].reason.startswith(
        "NVML answers nvmlDeviceGetComputeRunningProcesses with"
    )


def test_without_nvml_only_the_busy_share_of_the_cpu_is_read() -> None:
    with monitor_device(Cpu()) as seen:
        sum(range(100_000))

    absent = {name: reading for name, reading in seen.readings.items() if isinstance(reading, Absent)}
    assert set(absent.values()) == {Absent("NVML reads NVIDIA GPUs only, and this device is not one")}
    assert set(seen.readings) - set(absent) == {"busy_share"}


def test_the_busy_share_of_a_cpu_is_cpu_seconds_over_wall_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = FakeDevice(kind="cpu", uuid=None).install(monkeypatch, "perfci.bench.devices.device_monitor")

    with monitor_device(cpu) as seen:
        cpu.work(3.0)
        cpu.host_s += 1.0

    assert isinstance(seen.readings["busy_share"], Reading)
    assert seen.readings["busy_share"].samples == pytest.approx((0.75,))


def test_an_exception_of_the_benchmark_propagates_and_ends_the_sampler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch)

    with pytest.raises(ZeroDivisionError), monitor_device(FakeDevice(), interval_s=0.01):
        _ = 1 / 0

    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if "nvml.py" in Path(f"/proc/{pid}/cmdline").read_text()]
