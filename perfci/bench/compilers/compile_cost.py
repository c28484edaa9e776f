"""What ``torch.compile`` costs and gives: seconds until nothing is compiled any more, and exact counts."""

from __future__ import annotations

import functools
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from perfci.bench.compilers.compile_cache_fingerprint import fingerprint_caches
from perfci.bench.compilers.compile_model import missing_compiler_as_skip
from perfci.bench.devices.torch_devices import Device, this_device
from perfci.bench.processes.run_in_child_processes import (
    ChildProcess,
    fork_child,
    fork_unsafe_reason,
    kill_children_on_exit,
    spawn_child,
    wait_for_results,
)
from perfci.bench.readings import Reading
from perfci.bench.timers.timed_blocks import Timing, time_blocks
from perfci.bench.timers.warmup import count_compile_events
from perfci.model import Clock

QUIET_CALLS = 3
"""Steady state begins when this many calls in a row have compiled, autotuned or recorded nothing."""

MAX_CALLS = 64
"""A function that still compiles after so many calls has no steady state."""


@dataclass(frozen=True, slots=True)
class CompilationResult:
    """What became of a compiled function in one process.

    ``seconds`` (wall) and ``cpu_seconds`` (of this process and of compilers it waited for) are what the
    first ``calls`` calls, up to the last that compiled, took longer than as many steady ones.
    ``graph_breaks`` are places where dynamo gave the code back to Python, ``recompiles`` compilations of
    code that had one already, ``graphs`` what was compiled. ``cache_misses`` counts graphs that inductor's
    caches did not have or could not keep. ``value`` is what the last call returned, as a number.
    ``fingerprint`` names the kernels generated and the configurations autotuned: equal ones ran the same
    code.
    """

    seconds: float
    cpu_seconds: float
    calls: int
    graph_breaks: int
    recompiles: int
    graphs: int
    generated_kernels: int
    cache_misses: int
    value: float
    timing: Timing | None
    fingerprint: str = ""

    def reading(self, device: Device | None = None) -> Reading:
        """Seconds of compiling; where the host is what is measured, its CPU seconds are judged."""
        cpu = (self.cpu_seconds,) if (device or this_device()).kind == "cpu" else ()
        return Reading((self.seconds,), Clock.WALL, cpu=cpu)


def compile_twice(
    make_function: Callable[..., Callable[[], Any]],
    *arguments: Any,
    timing: Mapping[str, Any],
    cap_s: float = 600.0,
) -> tuple[CompilationResult, CompilationResult]:
    """Compile ``make_function(*arguments)``, a function without arguments, cold and then warm.

    Each in a process of its own that has compiled nothing (forked where this one is fit for it, else
    started from nothing: ``make_function`` must be picklable). Cold begins with empty caches of inductor,
    of Triton and of the GPU's driver; warm finds what cold left. Raises TimeoutError after ``cap_s``
    seconds of one of them, ChildFailed where compiling fails, and NotImplementedError (asv's
    SkipNotImplemented) where inductor has no compiler here.
    """
    with tempfile.TemporaryDirectory(prefix="perfci-compile-") as caches:
        work = functools.partial(_compile_isolated, make_function, arguments, timing, caches)
        cold = _compile_in_child("the cold compilation", work, caches, cap_s)
        warm = _compile_in_child("the warm compilation", work, caches, cap_s)
    return cold, warm


def _compile_in_child(
    name: str, work: Callable[[], CompilationResult], caches: str, cap_s: float
) -> CompilationResult:
    start = spawn_child if fork_unsafe_reason() or count_compile_events() else fork_child
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(caches, "inductor"),
        "TRITON_CACHE_DIR": os.path.join(caches, "triton"),
        "CUDA_CACHE_PATH": os.path.join(caches, "driver"),
    }
    children: list[ChildProcess] = []
    with kill_children_on_exit(children):
        children.append(start(name, work, variables))
        with missing_compiler_as_skip():
            compilation: CompilationResult = wait_for_results(children, cap_s)[0]
    return compilation


def _compile_isolated(
    make_function: Callable[..., Callable[[], Any]],
    arguments: Any,
    timing: Mapping[str, Any] | None,
    caches: str,
) -> CompilationResult:
    import torch
    import torch._inductor.compile_fx  # takes a second, which is none of compiling
    from torch._inductor import config

    if this_device().kind == "cpu":
        torch.set_num_threads(1)
        config.compile_threads = 1  # else compilers run beside, and their CPU seconds are not known
    return compile_in_this_process(
        make_function, *arguments, warm_backend="aot_eager", timing=timing, caches=caches
    )


def compile_in_this_process(
    make_function: Callable[..., Callable[[], Any]],
    *arguments: Any,
    warm_backend: str = "eager",
    timing: Mapping[str, Any] | None = None,
    caches: str = "",
) -> CompilationResult:
    """Compile ``make_function(*arguments)`` in this process, which forgets what it compiled before.

    The clocks run from the first call of what ``make_function`` returned; what torch imports when a backend
    is first used is imported before, for ``warm_backend``. With ``timing``, which is handed to
    ``time_blocks``, the steady state is timed; ``caches`` is the folder whose contents are fingerprinted.
    """
    from torch._dynamo.callback import callback_handler
    from torch._dynamo.utils import counters, get_compilation_metrics

    device = this_device()
    _warm_up_backend(warm_backend)
    events: list[Any] = []
    callback_handler.register_start_callback(events.append)
    step = make_function(*arguments)
    calls, value = _call_until_steady(step, events, device)
    timed = None if timing is None else time_blocks(step, device=device, **timing)
    noisy = max((index + 1 for index, call in enumerate(calls) if call[2]), default=0)
    inductor = sys.modules.get("torch._inductor.metrics")
    return CompilationResult(
        seconds=_excess_over_steady([wall for wall, _, _ in calls], noisy),
        cpu_seconds=_excess_over_steady([cpu for _, cpu, _ in calls], noisy),
        calls=noisy,
        graph_breaks=int(sum(counters["graph_break"].values())),
        recompiles=sum(metrics.recompile_reason is not None for metrics in get_compilation_metrics()),
        graphs=int(counters["stats"]["unique_graphs"]),
        generated_kernels=int(getattr(inductor, "generated_kernel_count", 0)),
        cache_misses=sum(int(counters[where][what]) for where, what in CACHE_MISSES),
        value=value,
        timing=timed,
        fingerprint=fingerprint_caches([Path(caches)]) if caches else "",
    )


CACHE_MISSES = (
    ("inductor", "fxgraph_cache_miss"),
    ("inductor", "fxgraph_cache_bypass"),
    ("aot_autograd", "autograd_cache_miss"),
    ("aot_autograd", "autograd_cache_bypass"),
)


def _warm_up_backend(backend: str) -> None:
    """Compile a trivial function, since torch imports its compiler on first use; then reset it."""
    import torch
    from torch._dynamo.utils import clear_compilation_metrics, counters, set_compilation_metrics_limit

    # With a gradient and dynamic shapes, so that what handles those is imported as well.
    torch.compile(lambda x: x + 1, backend=backend, dynamic=True)(torch.ones(2, requires_grad=True)).sum()
    torch._dynamo.reset()
    counters.clear()
    set_compilation_metrics_limit(10_000)  # torch keeps the last 64 alone
    clear_compilation_metrics()


def _call_until_steady(
    step: Callable[[], Any], events: list[Any], device: Device
) -> tuple[list[tuple[float, float, int]], float]:
    """Call until nothing is compiled; return (wall s, CPU s, events) of each call and the last value."""
    calls: list[tuple[float, float, int]] = []
    while len(calls) < QUIET_CALLS or any(happened for _, _, happened in calls[-QUIET_CALLS:]):
        if len(calls) == MAX_CALLS:
            raise RuntimeError(
                f"something is compiled even after {MAX_CALLS} calls: this has no steady state"
            )
        before, wall_s, cpu_s = len(events), perf_counter(), _cpu_seconds()
        value = step()
        device.synchronize()
        calls.append((perf_counter() - wall_s, _cpu_seconds() - cpu_s, len(events) - before))
    return calls, float(getattr(value, "detach", lambda: value)())


def _cpu_seconds() -> float:
    import resource

    # Compilers such as g++ are processes of their own, which process_time leaves out.
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def _excess_over_steady(seconds: list[float], compiling_calls: int) -> float:
    return sum(seconds[:compiling_calls]) - compiling_calls * statistics.median(seconds[compiling_calls:])
