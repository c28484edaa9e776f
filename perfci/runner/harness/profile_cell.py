"""A cell that is profiled instead of measured, with the tools of the perfci that its environment has."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .messages import JsonMessage


def profile_benchmark(benchmark: Any, request: JsonMessage) -> JsonMessage:
    """Write a profile of a benchmark that is set up into the requested folder; it defines no samples.

    Without a folder its calls only run in NVTX ranges, for another profiler to record.
    """
    try:
        tools = importlib.import_module("perfci.bench.profiles.profiler")
    except ImportError as error:
        return {"status": "failed", "reason": missing_profiler_reason(error)}
    work, prepare = resolve_profiled_work(benchmark)
    if request["folder"]:
        # An older perfci in the measured environment knows no such argument.
        sampled = {"sampled_cpu_s": request["sampled_cpu_s"]} if request.get("sampled_cpu_s") else {}
        tools.profile_work(
            work, Path(request["folder"]), before_call=prepare, roots=request["roots"], **sampled
        )
    else:
        tools.run_nvtx_ranges(work, before_call=prepare)
    return {"status": "ok", "metrics": []}


def missing_profiler_reason(error: ImportError) -> str:
    missing = (error.name or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and missing in ("perfci", "torch"):
        return (
            f"{missing} is not installed in the environment that measures, and it is what "
            "profiles; install it there: "
            f"{sys.executable} -m pip install 'perfci[torch]'"
        )
    return (
        "perfci.bench.profiles.profiler does not import in the environment that measures "
        f"({sys.executable}): {error}"
    )


def resolve_profiled_work(benchmark: Any) -> tuple[Callable[[Any], object], Callable[[], object]]:
    """What to call, and what makes it ready to be called again.

    A function that describes itself with ``build_profiled_work`` gives work with phases, on a model that it
    builds once. Any other is called as it is measured: asv sets it up anew before every call.
    """
    from asv_runner.benchmarks.mark import SkipNotImplemented
    from asv_runner.benchmarks.timeraw import TimerawBenchmark

    parameters = benchmark._current_params
    if isinstance(benchmark, TimerawBenchmark):
        raise SkipNotImplemented("timeraw_* gives code for a process of its own, which is not profiled")
    build_work = getattr(benchmark.func, "build_profiled_work", None)
    if build_work is None:
        return (lambda mark: benchmark.func(*parameters)), benchmark.redo_setup
    owner = [benchmark.func.__self__] if hasattr(benchmark.func, "__self__") else []
    return build_work(*owner, *parameters), lambda: None
