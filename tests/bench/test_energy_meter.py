from __future__ import annotations

from dataclasses import dataclass

import pytest
from fake_device import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.devices.nvml import NvmlUnavailable
from perfci.bench.devices.torch_devices import Cpu
from perfci.bench.readings import Absent, Reading
from perfci.model import Clock


@dataclass
class Counter:
    """A board that draws constant power and says so only at every tick."""

    device: FakeDevice
    watts: float
    tick_s: float

    def total_energy(self) -> float:
        if not self.tick_s:
            raise NvmlUnavailable("NVML answers nvmlDeviceGetTotalEnergyConsumption with: Not Supported")
        return self.watts * self.tick_s * (self.device.host_s // self.tick_s)


def measured(watts: float, tick_s: float, call_s: float) -> Reading | Absent:
    gpu = FakeDevice()
    with pytest.MonkeyPatch.context() as monkeypatch:
        gpu.install(monkeypatch)
        monkeypatch.setattr("perfci.bench.devices.energy_meter.perf_counter", lambda: gpu.host_s)
        monkeypatch.setattr(
            "perfci.bench.devices.energy_meter.open_gpu", lambda uuid: Counter(gpu, watts, tick_s)
        )
        return joules_per_call(gpu.launching(call_s), device=gpu)


def test_counts_the_joules_of_a_call() -> None:
    reading = measured(watts=300, tick_s=0.1, call_s=0.01)

    assert isinstance(reading, Reading)
    assert reading.samples == pytest.approx([3.0] * 3, rel=0.01)
    assert (reading.clock, reading.number >= 200) == (Clock.VALUE, True)


@settings(max_examples=30)
@given(watts=st.floats(20, 1000), tick_s=st.floats(0.005, 0.2), call_s=st.floats(1e-3, 0.05))
def test_is_exact_to_one_update_of_the_counter(watts: float, tick_s: float, call_s: float) -> None:
    reading = measured(watts, tick_s, call_s)

    look_s = 0.005 + 2 * call_s
    assert isinstance(reading, Reading)
    assert reading.samples == pytest.approx([watts * call_s] * 3, rel=look_s / 2.0 + 0.01)


def test_a_counter_that_stands_still_gives_no_joules() -> None:
    assert measured(300, 1e9, 0.01) == Absent("the GPU's energy counter did not move in 2 s of work")


def test_a_gpu_without_a_counter_gives_the_reason() -> None:
    answer = "NVML answers nvmlDeviceGetTotalEnergyConsumption with: Not Supported"

    assert measured(300, 0, 0.01) == Absent(answer)


def test_a_cpu_gives_the_reason() -> None:
    assert joules_per_call(lambda: None, device=Cpu()) == Absent(
        "NVML reads NVIDIA GPUs only, and this device is not one"
    )
