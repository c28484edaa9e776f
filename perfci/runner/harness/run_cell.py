"""One cell: set up, run, tear down, and read the metrics."""

from __future__ import annotations

import math
import numbers
import pickle
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from .interleaved_samples import enable_interleaved_sampling
from .messages import JsonMessage, ReportFile, write_report
from .process_control import terminate_daemonic_children
from .profile_cell import profile_benchmark
from .suite_discovery import (
    CLOCKS,
    CPU_TWIN,
    declared_clock,
    describe_metric_from_attributes,
    describe_wrong_commit_module,
    uses_default_timer,
)
from .turn_slots import TurnSlot, process_turns


def run_cell(
    benchmark: Any, cell: JsonMessage, request: JsonMessage, slot: TurnSlot | None, report: ReportFile
) -> None:
    """Set up, run (or profile) and tear down one cell; it fails if it imported code of another commit."""
    if slot is not None:
        process_turns.take_slot(slot, request["core"])
    resident = reset_peak_rss()
    begin = time.perf_counter()
    if cell["param_idx"] is not None:
        benchmark.set_param_idx(cell["param_idx"])
    benchmark.set_cache(load_setup_cache(cell))
    measured = measure_cell(benchmark, cell, resident) | {"work_s": time.perf_counter() - begin}
    measured["interleaved"] = process_turns.was_offered
    wrong = describe_wrong_commit_module(request)
    write_report(report, {"status": "failed", "reason": wrong} if wrong else measured)
    terminate_daemonic_children()  # else they would count as processes that the benchmark left behind


def load_setup_cache(cell: JsonMessage) -> Any:
    if not cell["cache_dir"]:
        return None
    with open("cache.pickle", "rb") as file:
        return pickle.load(file)  # written by this very suite a moment ago


def measure_cell(benchmark: Any, cell: JsonMessage, resident: int | None) -> JsonMessage:
    from asv_runner.benchmarks.mark import SkipNotImplemented

    stopwatch = WallAndCpuTimer() if uses_default_timer(benchmark) else None
    skip_reason = run_setup(benchmark)
    if skip_reason:
        return {"status": "skipped", "reason": skip_reason}
    try:
        if cell["profile"]:
            return profile_benchmark(benchmark, cell["profile"])
        if stopwatch is not None:
            benchmark.timer = stopwatch
        if benchmark.type == "time" and process_turns.takes_turns:
            enable_interleaved_sampling(benchmark)
        value = benchmark.do_run()
        if benchmark.type == "measure":
            return validate_report(value)
        metrics = convert_asv_result_to_metrics(benchmark, value, stopwatch, resident)
    except (SkipNotImplemented, NotApplicable) as skip:
        return {"status": "skipped", "reason": str(skip) or "not implemented here"}
    finally:
        benchmark.do_teardown()
    return {"status": "ok", "metrics": metrics}


def run_setup(benchmark: Any) -> str:
    """Set up, or return the reason of a skip: asv drops the message of a NotImplementedError."""
    setups = benchmark._setups
    reasons: list[str] = []

    def record_skip(setup: Callable[..., Any]) -> Callable[..., Any]:
        def call(*parameters: Any) -> None:
            try:
                setup(*parameters)
            except NotImplementedError as skip:
                reasons.append(str(skip))
                raise

        return call

    benchmark._setups = [record_skip(setup) for setup in setups]
    try:
        skipped = benchmark.do_setup()
    finally:
        benchmark._setups = setups
    generic = "setup raised NotImplementedError, or its parameters are skipped"
    return (next(iter(reasons), "") or generic) if skipped else ""


class NotApplicable(Exception):
    """The machine or the benchmark cannot give this reading; the message says why."""


class WallAndCpuTimer:
    """asv's wall timer that notes the CPU clock of the process at the same moments."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def __call__(self) -> float:
        self.cpu.append(time.process_time())
        return timeit.default_timer()

    def cpu_samples(self, count: int, number: int, spans_per_sample: int) -> list[float]:
        """CPU seconds per call of the last ``count`` samples (warm-up readings come before them)."""
        spans = [stop - start for start, stop in zip(self.cpu[::2], self.cpu[1::2], strict=True)]
        used = spans[len(spans) - count * spans_per_sample :]
        return [sum(used[i : i + spans_per_sample]) / number for i in range(0, len(used), spans_per_sample)]


def validate_report(report: Any) -> JsonMessage:
    """Check the report of a measuring function: metrics with samples, and metrics absent with a reason."""
    if not isinstance(report, dict) or not isinstance(report.get("metrics"), list):
        raise TypeError(
            f"returned {type(report).__name__}; the report that @metrics of perfci.bench makes was expected"
        )
    rows = [validate_report_row(row) for row in report["metrics"]]
    names = [row["name"] for row in rows]
    repeated = [name for k, name in enumerate(names) if name in names[:k]]
    if repeated:
        raise ValueError(
            f"two metrics are called {repeated[0]!r}; every metric of one process needs its own name"
        )
    flags = [str(flag) for flag in report.get("flags", ())]
    if any(row["status"] == "ok" for row in rows):
        return {"status": "ok", "metrics": rows, "flags": flags}
    reasons = "; ".join(dict.fromkeys(row["reason"] for row in rows))
    return {"status": "skipped", "reason": reasons, "metrics": rows, "flags": flags}


def validate_report_row(row: JsonMessage) -> JsonMessage:
    fields = {key: row[key] for key in ("name", "unit", "direction")}
    if row["status"] != "ok":
        return {
            **fields,
            "status": "skipped",
            "reason": row["reason"],
            "clock": "value",
            "number": 1,
            "samples": [],
        }
    samples, number = parse_samples(row)
    clock = validate_clock(row["clock"])
    return {**fields, "status": "ok", "reason": "", "clock": clock, "number": number, "samples": samples}


def convert_asv_result_to_metrics(
    benchmark: Any, value: Any, stopwatch: WallAndCpuTimer | None, resident: int | None
) -> list[JsonMessage]:
    """Turn what asv's ``do_run`` returned into metrics with samples."""
    if benchmark.type == "peakmemory":
        value = peak_rss_growth(resident)
    samples, number = parse_samples(value)
    metric = {**describe_metric_from_attributes(benchmark), "status": "ok", "reason": "", "number": number}
    metrics = [metric | {"clock": validate_clock(declared_clock(benchmark)), "samples": samples}]
    if stopwatch is not None and not is_cuda_initialized():
        # With setup hooks asv reads the clock around every call of a sample, else around the sample.
        spans_per_sample = number if benchmark._setups else 1
        cpu = stopwatch.cpu_samples(len(samples), number, spans_per_sample)
        metrics.append({**metric, "name": CPU_TWIN + metric["name"], "clock": "cpu", "samples": cpu})
    return metrics


def validate_clock(clock: str) -> str:
    if clock not in CLOCKS:
        raise ValueError(f"clock = {clock!r} is unknown; known are {', '.join(CLOCKS)}")
    return clock


def is_cuda_initialized() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def parse_samples(value: Any) -> tuple[list[float], int]:
    """Accept a number or asv's ``{"samples": [...], "number": n}``; refuse the rest in one sentence."""
    number = 1
    if isinstance(value, dict) and "samples" in value:
        number = int(value.get("number") or 1)
        value = value["samples"]
    elif isinstance(value, dict | str) or value is None:
        raise TypeError(f"returned {type(value).__name__}; a number or a mapping with samples was expected")
    values = list(value) if isinstance(value, list | tuple) else [value]
    samples = [
        float(v.item() if hasattr(v, "item") and not isinstance(v, numbers.Number) else v) for v in values
    ]
    if samples and all(math.isnan(sample) for sample in samples):
        raise NotApplicable("returned NaN, which means not applicable here")
    if not samples or not all(math.isfinite(sample) for sample in samples):
        raise ValueError(f"returned {value!r}; finite numbers were expected")
    return samples, number


def reset_peak_rss() -> int | None:
    """Forget the peak inherited through the fork, and return the resident bytes the peak is counted from."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # proc_pid_clear_refs(5): reset VmHWM to the current resident size
    except OSError:
        return None
    return read_memory_status_bytes("VmRSS")


def peak_rss_growth(resident: int | None) -> int:
    if resident is None:
        raise NotApplicable(
            "this kernel does not let a process reset its peak memory (/proc/self/clear_refs)"
        )
    return max(0, read_memory_status_bytes("VmHWM") - resident)


def read_memory_status_bytes(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))
