"""The one door to NVIDIA's management library: what a GPU says about itself, asked here or by a process beside us.

It needs ``nvidia-ml-py`` (the module ``pynvml``), nothing of perfci and no CUDA. Run as a program it is the process
beside: it samples until it is told to stop, so that no thread of the measured process ever wakes for it.
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


class Unreadable(Exception):
    """Why NVML cannot answer a question here, as one clause."""


class GpuProcess(NamedTuple):
    """A process that holds a compute context on a GPU; the name is empty where NVML keeps it to itself."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, asked by its handle. Every question may raise ``Unreadable``; answers are in SI units."""

    nvml: Any
    handle: Any

    def sm_clock(self) -> float:
        """The clock of the streaming multiprocessors, in hertz."""
        return 1e6 * float(self._ask("nvmlDeviceGetClockInfo", self.nvml.NVML_CLOCK_SM))

    def sm_clock_max(self) -> float:
        """The highest clock this model can boost to, in hertz."""
        return 1e6 * float(self._ask("nvmlDeviceGetMaxClockInfo", self.nvml.NVML_CLOCK_SM))

    def temperature(self) -> float:
        """Of the die, in degrees Celsius."""
        return float(self._ask("nvmlDeviceGetTemperature", self.nvml.NVML_TEMPERATURE_GPU))

    def power(self) -> float:
        """Of the whole board, in watts; newer GPUs answer with the mean of the last second."""
        return float(self._ask("nvmlDeviceGetPowerUsage")) / 1e3

    def busy_share(self) -> float:
        """The share of the last period of 1/6 to 1 s in which any kernel ran, one thread or a full GPU alike."""
        return float(self._ask("nvmlDeviceGetUtilizationRates").gpu) / 100

    def energy(self) -> float:
        """Joules since the driver was loaded, of the whole board (Volta or newer)."""
        return float(self._ask("nvmlDeviceGetTotalEnergyConsumption")) / 1e3

    def clock_events(self) -> int:
        """The bits of ``nvmlClocksEventReasons``: why the clock is not higher."""
        return int(self._ask("nvmlDeviceGetCurrentClocksEventReasons"))

    def processes(self) -> list[GpuProcess]:
        """Who holds a compute context on this GPU, as far as this container is shown."""
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return [GpuProcess(int(process.pid), self._name_of(int(process.pid))) for process in listed]

    def activity_mark(self) -> Any:
        """Remember the counters of GPU performance monitoring (Hopper or newer), for ``sm_active``."""
        support = self._ask("nvmlGpmQueryDeviceSupport")
        if not support.isSupportedDevice:
            raise Unreadable("SM activity needs a Hopper GPU or newer, or DCGM")
        sample = self.nvml.nvmlGpmSampleAlloc()
        self._ask("nvmlGpmSampleGet", sample)
        return sample

    def sm_active(self, since: Any) -> float:
        """The share of streaming multiprocessors that were busy since a mark at least 0.1 s ago."""
        now = self.activity_mark()
        wanted = self.nvml.c_nvmlGpmMetricsGet_t()
        wanted.version = self.nvml.NVML_GPM_METRICS_GET_VERSION
        wanted.sample1, wanted.sample2, wanted.numMetrics = since, now, 1
        wanted.metrics[0].metricId = self.nvml.NVML_GPM_METRIC_SM_UTIL
        try:
            self.nvml.nvmlGpmMetricsGet(wanted)
        except self.nvml.NVMLError as error:
            raise Unreadable(f"NVML cannot tell SM activity: {error}") from error
        finally:
            self.nvml.nvmlGpmSampleFree(since)
            self.nvml.nvmlGpmSampleFree(now)
        if wanted.metrics[0].nvmlReturn:
            raise Unreadable(f"NVML cannot tell SM activity: error {wanted.metrics[0].nvmlReturn}")
        return float(wanted.metrics[0].value) / 100

    def _ask(self, question: str, *about: Any) -> Any:
        try:
            return getattr(self.nvml, question)(self.handle, *about)
        except self.nvml.NVMLError as error:
            raise Unreadable(f"NVML answers {question} with: {error}") from error

    def _name_of(self, pid: int) -> str:
        try:
            return Path(str(self.nvml.nvmlSystemGetProcessName(pid))).name
        except self.nvml.NVMLError:
            return ""


def open_gpu(uuid: str | None) -> Gpu:
    """Find a GPU by its UUID (``Device.uuid``), which holds whatever ``CUDA_VISIBLE_DEVICES`` renumbers."""
    if uuid is None:
        raise Unreadable("NVML reads NVIDIA GPUs, and this is none")
    try:
        library: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError as error:
        raise Unreadable("NVML is read through nvidia-ml-py, which is not installed") from error
    try:
        library.nvmlInit()  # counted by NVML, and cheap but for the first time
        return Gpu(library, library.nvmlDeviceGetHandleByUUID(uuid))
    except library.NVMLError as error:
        raise Unreadable(f"NVML cannot open {uuid}: {error}") from error


SAMPLED: dict[str, Callable[[Gpu], float]] = {
    "sm_clock": Gpu.sm_clock,
    "temperature": Gpu.temperature,
    "power": Gpu.power,
    "busy_share": Gpu.busy_share,
    "clock_events": Gpu.clock_events,
}


@dataclass(slots=True)
class Sampled:
    """What the process beside has seen: samples by question, or the reason why there are none."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, question: Callable[[], float]) -> None:
        """Ask once more, unless the question was refused before."""
        if name in self.reasons:
            return
        try:
            self.samples.setdefault(name, []).append(question())
        except Unreadable as error:
            self.reasons[name] = str(error)
            self.samples.pop(name, None)


@contextmanager
def sampling(uuid: str, interval_s: float) -> Iterator[Sampled]:
    """Sample a GPU from a process of its own until the block ends; the answer is filled in then.

    A thread would take the interpreter lock from code that launches kernels, and its CPU seconds would be counted as
    ours; a process costs a few milliseconds of another core per second. It is started, and has taken its first sample,
    before the block begins, and it ends when told, or by itself when its parent is gone.
    """
    command = [sys.executable, "-P", __file__, uuid, str(interval_s)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    sampled = Sampled()
    with subprocess.Popen(command, text=True, **pipes) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()
        try:
            yield sampled
        finally:
            _collect(beside, sampled)


def _collect(beside: subprocess.Popen[str], sampled: Sampled) -> None:
    try:
        told, errors = beside.communicate("stop\n", timeout=10)
    except subprocess.TimeoutExpired:
        beside.kill()
        told, errors = "", "it did not stop when told"
    answer = json.loads(told) if told else _nothing(errors)
    sampled.samples.update(answer["samples"])
    sampled.reasons.update(answer["reasons"])


def _nothing(errors: str) -> dict[str, Any]:
    reason = f"the NVML sampler failed: {(errors.strip().splitlines() or ['it was killed'])[-1]}"
    return {"samples": {}, "reasons": dict.fromkeys([*SAMPLED, "sm_active"], reason)}


def sample_until_told(gpu: Gpu, interval_s: float, told: Callable[[float], bool]) -> Sampled:
    """Sample now, every ``interval_s`` seconds, and once more when told to stop."""
    sampled = Sampled()
    marks: list[Any] = []
    try:
        marks.append(gpu.activity_mark())
    except Unreadable as error:
        sampled.reasons["sm_active"] = str(error)
    stop = False
    while True:
        for name, question in SAMPLED.items():
            sampled.take(name, partial(question, gpu))
        if stop:
            break
        stop = told(interval_s)
    for mark in marks:
        sampled.take("sm_active", partial(gpu.sm_active, mark))
    return sampled


def told_or_orphaned(timeout_s: float, parent: int) -> bool:
    """Wait for a word, for the end of what is read from, or for another parent: a fork may hold the pipe open."""
    return bool(select.select([sys.stdin], [], [], timeout_s)[0]) or os.getppid() != parent


def main(uuid: str, interval_s: str) -> None:
    parent = os.getppid()
    ready = iter(["ready"])

    def told(timeout_s: float) -> bool:
        for word in ready:
            print(word, flush=True)
        return told_or_orphaned(timeout_s, parent)

    sampled = sample_until_told(open_gpu(uuid), float(interval_s), told)
    print(json.dumps({"samples": sampled.samples, "reasons": sampled.reasons}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
