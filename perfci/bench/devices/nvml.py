"""NVIDIA's management library (NVML): queries of one GPU, and a sampler process beside the measured one.

It needs ``nvidia-ml-py`` (the module ``pynvml``), nothing of perfci and no CUDA. Run as a program it is the
sampler: it samples until it is asked to stop, so that no thread of the measured process ever wakes for it.
So it must not import anything of perfci.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple


class NvmlUnavailable(Exception):
    """NVML cannot answer a query here; the message is one clause that gives the reason."""


class GpuProcess(NamedTuple):
    """A process that holds a compute context on a GPU; the name is empty where NVML does not report it."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU by its NVML handle. Every query may raise ``NvmlUnavailable``; results are in SI units."""

    nvml: Any
    handle: Any

    def sm_clock(self) -> float:
        """The clock of the streaming multiprocessors, in hertz."""
        return 1e6 * float(self._query("nvmlDeviceGetClockInfo", self.nvml.NVML_CLOCK_SM))

    def sm_clock_max(self) -> float:
        """The highest clock this model can boost to, in hertz."""
        return 1e6 * float(self._query("nvmlDeviceGetMaxClockInfo", self.nvml.NVML_CLOCK_SM))

    def temperature(self) -> float:
        """Temperature of the die, in degrees Celsius."""
        return float(self._query("nvmlDeviceGetTemperature", self.nvml.NVML_TEMPERATURE_GPU))

    def power(self) -> float:
        """Power of the whole board, in watts; newer GPUs return the mean of the last second."""
        return float(self._query("nvmlDeviceGetPowerUsage")) / 1e3

    def busy_share(self) -> float:
        """The share of the last period of 1/6 to 1 s in which any kernel ran, one thread or a full GPU
        alike.
        """
        return float(self._query("nvmlDeviceGetUtilizationRates").gpu) / 100

    def total_energy(self) -> float:
        """Joules since the driver was loaded, of the whole board (Volta or newer)."""
        return float(self._query("nvmlDeviceGetTotalEnergyConsumption")) / 1e3

    def clock_event_reasons(self) -> int:
        """The bits of ``nvmlClocksEventReasons``: why the clock is not higher."""
        return int(self._query("nvmlDeviceGetCurrentClocksEventReasons"))

    def processes(self) -> list[GpuProcess]:
        """Processes with a compute context on this GPU, as far as this container can see them."""
        listed = self._query("nvmlDeviceGetComputeRunningProcesses")
        return [GpuProcess(int(process.pid), self._process_name(int(process.pid))) for process in listed]

    def take_sm_activity_sample(self) -> Any:
        """Sample the counters of GPU performance monitoring (Hopper or newer), for ``sm_active``."""
        support = self._query("nvmlGpmQueryDeviceSupport")
        if not support.isSupportedDevice:
            raise NvmlUnavailable("SM activity needs a Hopper GPU or newer, or DCGM")
        sample = self.nvml.nvmlGpmSampleAlloc()
        self._query("nvmlGpmSampleGet", sample)
        return sample

    def sm_active(self, start_sample: Any) -> float:
        """The share of streaming multiprocessors that were busy since a sample taken at least 0.1 s ago."""
        now = self.take_sm_activity_sample()
        query = self.nvml.c_nvmlGpmMetricsGet_t()
        # NVML refuses a structure that does not say which layout it has.
        query.version = self.nvml.NVML_GPM_METRICS_GET_VERSION
        query.sample1, query.sample2, query.numMetrics = start_sample, now, 1
        query.metrics[0].metricId = self.nvml.NVML_GPM_METRIC_SM_UTIL
        try:
            self.nvml.nvmlGpmMetricsGet(query)
        except self.nvml.NVMLError as error:
            raise NvmlUnavailable(f"NVML cannot read SM activity: {error}") from error
        finally:
            self.nvml.nvmlGpmSampleFree(start_sample)
            self.nvml.nvmlGpmSampleFree(now)
        if query.metrics[0].nvmlReturn:  # each metric has a status of its own, beside that of the call
            raise NvmlUnavailable(f"NVML cannot read SM activity: error {query.metrics[0].nvmlReturn}")
        return float(query.metrics[0].value) / 100

    def _query(self, function_name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.nvml, function_name)(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            raise NvmlUnavailable(f"NVML answers {function_name} with: {error}") from error

    def _process_name(self, pid: int) -> str:
        try:
            return Path(str(self.nvml.nvmlSystemGetProcessName(pid))).name
        except self.nvml.NVMLError:
            return ""


def open_gpu(uuid: str | None) -> Gpu:
    """Find a GPU by its UUID (``Device.uuid``), which ``CUDA_VISIBLE_DEVICES`` does not renumber."""
    if uuid is None:
        raise NvmlUnavailable("NVML reads NVIDIA GPUs only, and this device is not one")
    try:
        library: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise NvmlUnavailable("NVML is read through nvidia-ml-py, which is not installed") from error
    try:
        library.nvmlInit()  # counted by NVML, and cheap but for the first time
        return Gpu(library, library.nvmlDeviceGetHandleByUUID(uuid))
    except library.NVMLError as error:
        raise NvmlUnavailable(f"NVML cannot open {uuid}: {error}") from error


SAMPLED_QUERIES: dict[str, Callable[[Gpu], float]] = {
    "sm_clock": Gpu.sm_clock,
    "temperature": Gpu.temperature,
    "power": Gpu.power,
    "busy_share": Gpu.busy_share,
    "clock_events": Gpu.clock_event_reasons,
}


@dataclass(slots=True)
class GpuSamples:
    """Samples by query, or the reason why there are none."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    missing_reasons: dict[str, str] = field(default_factory=dict)

    def add_sample(self, name: str, query: Callable[[], float]) -> None:
        """Take one more sample, unless the query failed before."""
        if name in self.missing_reasons:
            return
        try:
            self.samples.setdefault(name, []).append(query())
        except NvmlUnavailable as error:
            self.missing_reasons[name] = str(error)
            self.samples.pop(name, None)


@contextmanager
def sample_gpu_during_block(uuid: str, interval_s: float) -> Iterator[GpuSamples]:
    """Sample a GPU from a process of its own until the block ends; the samples are filled in then.

    A thread would take the interpreter lock from code that launches kernels, and its CPU seconds would be
    counted as ours; a process costs a few milliseconds of another core per second. It is started, and has
    taken its first sample, before the block begins, and it ends on request, or by itself when its parent is
    gone.
    """
    # -P keeps the folder of this file off the path, where its neighbours would hide modules of their names.
    command = [sys.executable, "-P", __file__, uuid, str(interval_s)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    sampled = GpuSamples()
    with subprocess.Popen(command, text=True, **pipes) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()  # "ready"
        try:
            yield sampled
        finally:
            _stop_sampler(beside, sampled)


def _stop_sampler(sampler: subprocess.Popen[str], sampled: GpuSamples) -> None:
    try:
        output, errors = sampler.communicate("stop\n", timeout=10)
    except subprocess.TimeoutExpired:
        sampler.kill()
        output, errors = "", "it did not stop when asked to"
    if output:
        answer = json.loads(output)
        sampled.samples.update(answer["samples"])
        sampled.missing_reasons.update(answer["reasons"])
    else:
        last_line = (errors.strip().splitlines() or ["it was killed"])[-1]
        reason = f"the NVML sampler failed: {last_line}"
        sampled.missing_reasons.update(dict.fromkeys([*SAMPLED_QUERIES, "sm_active"], reason))


def sample_until_stopped(gpu: Gpu, interval_s: float, should_stop: Callable[[float], bool]) -> GpuSamples:
    """Sample now, every ``interval_s`` seconds, and once more when stopped."""
    sampled = GpuSamples()
    marks: list[Any] = []
    try:
        marks.append(gpu.take_sm_activity_sample())
    except NvmlUnavailable as error:
        sampled.missing_reasons["sm_active"] = str(error)
    stop = False
    while True:
        for name, query in SAMPLED_QUERIES.items():
            sampled.add_sample(name, partial(query, gpu))
        if stop:
            break
        stop = should_stop(interval_s)
    for mark in marks:
        sampled.add_sample("sm_active", partial(gpu.sm_active, mark))
    return sampled


def wait_for_stop(timeout_s: float, parent: int) -> bool:
    """Wait for input, for the end of input, or for the parent to die: a fork of it may hold the pipe open."""
    return bool(select.select([sys.stdin], [], [], timeout_s)[0]) or os.getppid() != parent


def sampler_process_main(uuid: str, interval_s: str) -> None:
    """Sample until stopped and print the samples as JSON; ``ready`` is printed after the first sample."""
    parent = os.getppid()
    ready = iter(["ready"])

    def should_stop(timeout_s: float) -> bool:
        for word in ready:
            print(word, flush=True)
        return wait_for_stop(timeout_s, parent)

    sampled = sample_until_stopped(open_gpu(uuid), float(interval_s), should_stop)
    print(json.dumps({"samples": sampled.samples, "reasons": sampled.missing_reasons}), flush=True)


if __name__ == "__main__":
    sampler_process_main(*sys.argv[1:])
