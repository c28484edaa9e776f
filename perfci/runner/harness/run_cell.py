"""What happens inside one cell: set up, run, tear down, and read the metrics."""

from __future__ import annotations

import math
import numbers
import pickle
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

from .cell_profile import profiled
from .interleaved_samples import share_turns
from .messages import Json, Report, write_report
from .processes import end_daemons
from .suite_discovery import CLOCKS, CPU_TWIN, declared_clock, foreign_code, single_metric, uses_default_timer
from .turn_slots import Seat, turns


def run_cell(benchmark: Any, cell: Json, request: Json, seat: Seat | None, report: Report) -> None:
    """Set up, run (or profile) and tear down one cell; report it, unless it imported code of another commit."""
    if seat is not None:
        turns.join(seat, request["core"])
    resident = reset_peak_memory()
    begin = time.perf_counter()
    if cell["param_idx"] is not None:
        benchmark.set_param_idx(cell["param_idx"])
    benchmark.set_cache(read_cache(cell))
    measured = measured_cell(benchmark, cell, resident) | {"work_s": time.perf_counter() - begin}
    measured["took_turns"] = turns.offered
    wrong = foreign_code(request)
    write_report(report, {"status": "failed", "reason": wrong} if wrong else measured)
    end_daemons()


def read_cache(cell: Json) -> Any:
    if not cell["cache_dir"]:
        return None
    with open("cache.pickle", "rb") as file:
        return pickle.load(file)  # written by this very suite a moment ago


def measured_cell(benchmark: Any, cell: Json, resident: int | None) -> Json:
    from asv_runner.benchmarks.mark import SkipNotImplemented

    stopwatch = TwoClocks() if uses_default_timer(benchmark) else None
    if why := skipped_by_setup(benchmark):
        return {"status": "skipped", "reason": why}
    try:
        if cell["profile"]:
            return profiled(benchmark, cell["profile"])
        if stopwatch is not None:
            benchmark.timer = stopwatch
        if benchmark.type == "time" and turns.shared:
            share_turns(benchmark)
        value = benchmark.do_run()
        if benchmark.type == "measure":
            return read_report_of(value)
        metrics = read_metrics(benchmark, value, stopwatch, resident)
    except (SkipNotImplemented, NotApplicable) as skip:
        return {"status": "skipped", "reason": str(skip) or "not implemented here"}
    finally:
        benchmark.do_teardown()
    return {"status": "ok", "metrics": metrics}


def skipped_by_setup(benchmark: Any) -> str:
    """Set up, or say why not: asv skips on NotImplementedError and keeps its message to itself."""
    setups, said = benchmark._setups, []

    def noting(setup: Callable[..., Any]) -> Callable[..., Any]:
        def call(*parameters: Any) -> None:
            try:
                setup(*parameters)
            except NotImplementedError as skip:
                said.append(str(skip))
                raise

        return call

    benchmark._setups = [noting(setup) for setup in setups]
    try:
        skipped = benchmark.do_setup()
    finally:
        benchmark._setups = setups
    generic = "setup raised NotImplementedError, or its parameters are skipped"
    return (next(iter(said), "") or generic) if skipped else ""


class NotApplicable(Exception):
    """The machine or the benchmark cannot give this reading; the message says why."""


class TwoClocks:
    """asv's wall timer that notes the CPU clock of the process at the same moments."""

    def __init__(self) -> None:
        self.cpu: list[float] = []

    def __call__(self) -> float:
        self.cpu.append(time.process_time())
        return timeit.default_timer()

    def samples(self, count: int, number: int, spans_per_sample: int) -> list[float]:
        """CPU seconds per call of the last ``count`` samples (warm-up readings come before them)."""
        spans = [stop - start for start, stop in zip(self.cpu[::2], self.cpu[1::2], strict=True)]
        used = spans[len(spans) - count * spans_per_sample :]
        return [sum(used[i : i + spans_per_sample]) / number for i in range(0, len(used), spans_per_sample)]


def read_report_of(value: Any) -> Json:
    """What a measuring function gave: the metrics that are there beside those that are absent with a reason."""
    if not isinstance(value, dict) or not isinstance(value.get("metrics"), list):
        raise TypeError(f"returned {type(value).__name__}; the report that @metrics of perfci.bench makes was expected")
    rows = [row_of_report(row) for row in value["metrics"]]
    repeated = [row["name"] for k, row in enumerate(rows) if row["name"] in {one["name"] for one in rows[:k]}]
    if repeated:
        raise ValueError(f"two metrics are called {repeated[0]!r}; every metric of one process needs its own name")
    flags = [str(flag) for flag in value.get("flags", ())]
    if any(row["status"] == "ok" for row in rows):
        return {"status": "ok", "metrics": rows, "flags": flags}
    reasons = "; ".join(dict.fromkeys(row["reason"] for row in rows))
    return {"status": "skipped", "reason": reasons, "metrics": rows, "flags": flags}


def row_of_report(row: Json) -> Json:
    about = {key: row[key] for key in ("name", "unit", "direction")}
    if row["status"] != "ok":
        return {**about, "status": "skipped", "reason": row["reason"], "clock": "value", "number": 1, "samples": []}
    samples, number = numeric_samples(row)
    clock = known_clock(row["clock"])
    return {**about, "status": "ok", "reason": "", "clock": clock, "number": number, "samples": samples}


def read_metrics(benchmark: Any, value: Any, stopwatch: TwoClocks | None, resident: int | None) -> list[Json]:
    """Turn what asv's ``do_run`` returned into metrics with samples."""
    if benchmark.type == "peakmemory":
        value = peak_memory_since(resident)
    samples, number = numeric_samples(value)
    metric = {**single_metric(benchmark), "status": "ok", "reason": "", "number": number}
    metrics = [metric | {"clock": known_clock(declared_clock(benchmark)), "samples": samples}]
    if stopwatch is not None and not cuda_was_used():
        # With setup hooks asv reads the clock around every call of a sample, else around the sample.
        spans_per_sample = number if benchmark._setups else 1
        cpu = stopwatch.samples(len(samples), number, spans_per_sample)
        metrics.append({**metric, "name": CPU_TWIN + metric["name"], "clock": "cpu", "samples": cpu})
    return metrics


def known_clock(clock: str) -> str:
    if clock not in CLOCKS:
        raise ValueError(f"clock = {clock!r} is unknown; known are {', '.join(CLOCKS)}")
    return clock


def cuda_was_used() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def numeric_samples(value: Any) -> tuple[list[float], int]:
    """Accept a number or asv's ``{"samples": [...], "number": n}``; refuse the rest in one sentence."""
    number = 1
    if isinstance(value, dict) and "samples" in value:
        number = int(value.get("number") or 1)
        value = value["samples"]
    elif isinstance(value, dict | str) or value is None:
        raise TypeError(f"returned {type(value).__name__}; a number or a mapping with samples was expected")
    values = list(value) if isinstance(value, list | tuple) else [value]
    samples = [float(v.item() if hasattr(v, "item") and not isinstance(v, numbers.Number) else v) for v in values]
    if samples and all(math.isnan(sample) for sample in samples):
        raise NotApplicable("returned NaN, which means not applicable here")
    if not samples or not all(math.isfinite(sample) for sample in samples):
        raise ValueError(f"returned {value!r}; finite numbers were expected")
    return samples, number


def reset_peak_memory() -> int | None:
    """Forget the peak inherited through the fork, and return the resident bytes the peak is counted from."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return None
    return memory_status("VmRSS")


def peak_memory_since(resident: int | None) -> int:
    if resident is None:
        raise NotApplicable("this kernel does not let a process reset its peak memory (/proc/self/clear_refs)")
    return max(0, memory_status("VmHWM") - resident)


def memory_status(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))
