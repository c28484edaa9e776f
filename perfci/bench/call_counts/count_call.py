"""Count everything about one call at once, with the reason for what cannot be counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from perfci.bench.call_counts.instruction_counter import count_instructions
from perfci.bench.memory_use.peak_memory import fake_peak_bytes
from perfci.bench.readings import Absent, Reading, exact
from perfci.bench.timers.timed_blocks import gc_disabled
from perfci.model import Clock, Metric, PerfciError

if TYPE_CHECKING:
    from perfci.bench.call_counts.compilation_counts import GraphCounts
    from perfci.bench.call_counts.operator_counter import OperatorCounter
    from perfci.bench.devices.torch_devices import Device
    from perfci.bench.memory_use.storage_tracker import StorageTracker

LAUNCH_CALLS = (
    "cudaLaunchKernel",
    "cuLaunchKernel",
    "cudaLaunchCooperativeKernel",
    "cuLaunchCooperativeKernel",
    "hipLaunchKernel",
    "hipLaunchCooperativeKernel",
    "hipModuleLaunchKernel",
    "hipModuleLaunchCooperativeKernel",
    "hipExtModuleLaunchKernel",
    "hipExtLaunchKernel",
)
GRAPH_LAUNCH_CALLS = ("cudaGraphLaunch", "hipGraphLaunch")

OPERATOR_COUNTS = (
    "operators",
    "host_syncs",
    "upcast_bytes",
    "copied_to_device_bytes",
    "pageable_copy_bytes",
    "blocking_copy_bytes",
)
"""Names of counts that are attributes of ``OperatorCounter``."""

OBJECT_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

NOT_NAMED_READING = Absent("the benchmark did not pass what this counts")


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Counts of one call; every field is a metric of its own name."""

    flops: int | Absent
    operators: int | Absent
    host_syncs: int | Absent
    upcast_bytes: int | Absent
    copied_to_device_bytes: int | Absent
    pageable_copy_bytes: int | Absent
    blocking_copy_bytes: int | Absent
    peak_tensor_bytes: int | Absent
    fake_peak_bytes: int | Absent
    parameter_bytes: int | Absent
    optimizer_state_bytes: int | Absent
    kv_cache_bytes: int | Absent
    graph_breaks: int | Absent
    recompiles: int | Absent
    generated_kernels: int | Absent
    kernel_launches: int | Absent
    instructions: int | Absent

    def readings(self) -> dict[str, Reading | Absent]:
        """Return what a ``measure_*`` function declared with ``COUNT_METRICS`` returns."""
        readings: dict[str, Reading | Absent] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Absent):
                readings[field.name] = value
            elif field.name == "instructions":  # the one count that does not repeat exactly
                readings[field.name] = Reading((float(value),), Clock.VALUE)
            else:
                readings[field.name] = exact(value)
        return readings


METRIC_UNITS = {"flops": "FLOP", "instructions": "instructions"}

COUNT_METRICS: tuple[Metric, ...] = tuple(
    Metric(field.name, METRIC_UNITS.get(field.name, "bytes" if field.name.endswith("_bytes") else "count"))
    for field in fields(CallCounts)
)
"""To declare with ``@metrics(*COUNT_METRICS)``. Lower is better, but no one alone is an improvement."""


def count_call(
    function: Callable[[], object],
    *,
    rebuild: Callable[[], object] | None = None,
    compiled_function: Callable[[], object] | None = None,
    count_kernels: bool = False,
    parameters: Iterable[Any] | None = None,
    optimizer: Any = None,
    cache: Any = None,
    device: Device | None = None,
) -> CallCounts:
    """Count one call of the function; counts that need a further argument are absent without it.

    ``rebuild`` builds everything itself and runs on fake tensors: ``fake_peak_bytes``.
    ``compiled_function`` is what ``torch.compile`` shall see, usually the forward pass: ``graph_breaks``,
    ``recompiles``, and with ``count_kernels``, which takes a compiler and its time, ``generated_kernels``.
    ``parameters``, a ``torch.optim`` ``optimizer`` and a ``cache`` (nested tensors, or a function that
    gives them) are weighed after the call. Launches on the ``device`` (this process's own where none is
    given) and instructions take further calls, where there is a way to read them.
    """
    from perfci.bench.devices.torch_devices import this_device

    counted = _count_dispatched(function)
    graphs = _graph_counts(compiled_function)
    return CallCounts(
        **counted,
        fake_peak_bytes=_fake_peak_bytes(rebuild),
        parameter_bytes=_held_bytes(parameters),
        optimizer_state_bytes=_held_bytes(None if optimizer is None else list(optimizer.state.values())),
        kv_cache_bytes=_held_bytes(cache() if callable(cache) else cache),
        graph_breaks=graphs if isinstance(graphs, Absent) else graphs.breaks,
        recompiles=graphs if isinstance(graphs, Absent) else graphs.recompiles,
        generated_kernels=_generated_kernels(compiled_function, count_kernels),
        kernel_launches=count_kernel_launches(function, device or this_device()),
        instructions=count_instructions(function),
    )


def count_operators(function: Callable[[], object]) -> int:
    """Count the ATen operators of one call, and nothing else."""
    return _run_counted(function)[0].operators


def _count_dispatched(function: Callable[[], object]) -> dict[str, int | Absent]:
    """Counts by name of what one eager call dispatches; absent together where it runs only compiled."""
    from perfci.bench.call_counts.flop_count_by_format import RunsOnlyCompiled

    try:
        operators, live, flops = _run_counted(function)
    except RunsOnlyCompiled as error:
        return dict.fromkeys(("flops", "peak_tensor_bytes", *OPERATOR_COUNTS), Absent(str(error)))
    counted = {name: getattr(operators, name) for name in OPERATOR_COUNTS}
    return {"flops": flops, "peak_tensor_bytes": live.peak_bytes_or_absent, **counted}


def _run_counted(function: Callable[[], object]) -> tuple[OperatorCounter, StorageTracker, int | Absent]:
    """Run one call below three dispatch modes. The innermost, the FLOP counter, decomposes composite
    operators first.
    """
    from perfci.bench.call_counts.count_flops import create_flop_counter, force_eager
    from perfci.bench.call_counts.operator_counter import OperatorCounter
    from perfci.bench.memory_use.storage_tracker import StorageTracker

    with (
        force_eager(),
        gc_disabled(),
        OperatorCounter() as operators,
        StorageTracker() as live,
        create_flop_counter() as flops,
    ):
        function()
    return operators, live, flops.get_count().total


def _fake_peak_bytes(rebuild: Callable[[], object] | None) -> int | Absent:
    if rebuild is None:
        return NOT_NAMED_READING
    try:
        return fake_peak_bytes(rebuild)
    except PerfciError as error:
        return Absent(str(error))
    except Exception as error:  # code that runs with values but not without them is no fault of its author
        first_line = OBJECT_ADDRESS.sub("", str(error).partition("\n")[0])
        return Absent(f"the function does not run on fake tensors: {type(error).__name__}: {first_line}")


def _graph_counts(compiled_function: Callable[[], object] | None) -> GraphCounts | Absent:
    if compiled_function is None:
        return NOT_NAMED_READING
    from perfci.bench.call_counts.compilation_counts import count_breaks_and_recompiles

    return count_breaks_and_recompiles(compiled_function)


def _generated_kernels(compiled_function: Callable[[], object] | None, inductor: bool) -> int | Absent:
    if compiled_function is None or not inductor:
        return Absent("counting generated kernels needs a compilation, which the benchmark did not request")
    from perfci.bench.call_counts.compilation_counts import count_generated_kernels

    return count_generated_kernels(compiled_function)


def _held_bytes(tensors: Any) -> int | Absent:
    if tensors is None:
        return NOT_NAMED_READING
    from perfci.bench.memory_use.storage_tracker import tensor_storage_bytes

    return tensor_storage_bytes(
        tensors if not isinstance(tensors, Iterable) or isinstance(tensors, dict) else list(tensors)
    )


def count_kernel_launches(function: Callable[[], object], device: Device) -> int | Absent:
    """Count driver calls that launch a kernel or a captured graph of kernels (one launch).

    Copies and fills by the copy engines are not counted. The function runs once for the profiler.
    """
    if device.kind not in ("cuda", "rocm"):
        return Absent(f"kernels are launched on CUDA and ROCm devices; this one is {device.name}")
    from torch.profiler import ProfilerActivity, profile

    device.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        function()
        device.synchronize()
    return count_launch_events(event.name for event in profiler.events())


def count_launch_events(names: Iterable[str]) -> int:
    """Count the events of the host that launch kernels, by their names."""
    # cudaLaunchKernel has variants with a suffix: ExC, Ex, _v2.
    return sum(name.startswith(LAUNCH_CALLS + GRAPH_LAUNCH_CALLS) for name in names)
