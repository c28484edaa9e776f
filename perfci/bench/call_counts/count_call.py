"""Count everything about one call at once, and say of what could not be counted why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from perfci.bench.call_counts.instruction_counter import instructions
from perfci.bench.call_counts.kernel_launches import kernel_launches
from perfci.bench.memory_use.peak_memory import fake_peak_bytes
from perfci.bench.readings import Absent, Reading, exact
from perfci.bench.timers.timed_blocks import collector_off
from perfci.model import Clock, Metric, PerfciError

if TYPE_CHECKING:
    from perfci.bench.call_counts.graph_counts import Graphs
    from perfci.bench.call_counts.operator_counter import Operators
    from perfci.bench.devices.torch_devices import Device
    from perfci.bench.memory_use.storage_tracker import LiveStorages

NOT_NAMED = Absent("the benchmark does not name what this counts")


@dataclass(frozen=True, slots=True)
class Proxies:
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
        """Give what a ``measure_*`` function declared with ``PROXY_METRICS`` returns."""
        return {field.name: _reading(field.name, getattr(self, field.name)) for field in fields(self)}


UNITS = {"flops": "FLOP", "instructions": "instructions"}

PROXY_METRICS: tuple[Metric, ...] = tuple(
    Metric(field.name, UNITS.get(field.name, "bytes" if field.name.endswith("_bytes") else "count"))
    for field in fields(Proxies)
)
"""To declare with ``@metrics(*PROXY_METRICS)``; less is better of every one, but of none alone."""


def _reading(name: str, value: int | Absent) -> Reading | Absent:
    if isinstance(value, Absent):
        return value
    return Reading((float(value),), Clock.VALUE) if name == "instructions" else exact(value)


def count(
    function: Callable[[], object],
    *,
    whole: Callable[[], object] | None = None,
    traced: Callable[[], object] | None = None,
    inductor: bool = False,
    parameters: Iterable[Any] | None = None,
    optimizer: Any = None,
    cache: Any = None,
    device: Device | None = None,
) -> Proxies:
    """Count one call of the function; what else is to be counted has to be named, and is absent otherwise.

    ``whole`` builds everything itself and runs on fake tensors: ``fake_peak_bytes``. ``traced`` is what
    ``torch.compile`` shall see, usually the forward pass: ``graph_breaks``, ``recompiles``, and with ``inductor=True``,
    which takes a compiler and its time, ``generated_kernels``. ``parameters``, a ``torch.optim`` ``optimizer`` and a
    ``cache`` (nested tensors, or a function that gives them) are weighed after the call. Launches on the ``device``
    (this process's own where none is given) and instructions take further calls, where there is a way to read them.
    """
    from perfci.bench.devices.torch_devices import this_device

    operators, live, flops = _watched(function)
    graphs = _graphs(traced)
    return Proxies(
        flops=flops,
        operators=operators.operators,
        host_syncs=operators.host_syncs,
        upcast_bytes=operators.upcast_bytes,
        copied_to_device_bytes=operators.copied_to_device_bytes,
        pageable_copy_bytes=operators.pageable_copy_bytes,
        blocking_copy_bytes=operators.blocking_copy_bytes,
        peak_tensor_bytes=live.peak_bytes,
        fake_peak_bytes=_fake_peak(whole),
        parameter_bytes=_weighed(parameters),
        optimizer_state_bytes=_weighed(None if optimizer is None else list(optimizer.state.values())),
        kv_cache_bytes=_weighed(cache() if callable(cache) else cache),
        graph_breaks=graphs if isinstance(graphs, Absent) else graphs.breaks,
        recompiles=graphs if isinstance(graphs, Absent) else graphs.recompiles,
        generated_kernels=_generated(traced, inductor),
        kernel_launches=kernel_launches(function, device or this_device()),
        instructions=instructions(function),
    )


def count_operators(function: Callable[[], object]) -> int:
    """Count the ATen operators of one call, and nothing else."""
    return _watched(function)[0].operators


def _watched(function: Callable[[], object]) -> tuple[Operators, LiveStorages, int]:
    """Watch one call from below: the counter of FLOPs comes first and takes operators apart that others made up."""
    from perfci.bench.call_counts.flops import counter, uncompiled
    from perfci.bench.call_counts.operator_counter import Operators
    from perfci.bench.memory_use.storage_tracker import LiveStorages

    with uncompiled(), collector_off(), Operators() as operators, LiveStorages() as live, counter() as flops:
        function()
    return operators, live, int(flops.get_total_flops())


def _fake_peak(whole: Callable[[], object] | None) -> int | Absent:
    if whole is None:
        return NOT_NAMED
    try:
        return fake_peak_bytes(whole)
    except PerfciError as error:
        return Absent(str(error))
    except Exception as error:  # what runs with values and not without them is no fault of the benchmark's author
        return Absent(f"the function does not run on fake tensors: {type(error).__name__}: {error}")


def _graphs(traced: Callable[[], object] | None) -> Graphs | Absent:
    if traced is None:
        return NOT_NAMED
    from perfci.bench.call_counts.graph_counts import trace

    return trace(traced)


def _generated(traced: Callable[[], object] | None, inductor: bool) -> int | Absent:
    if traced is None or not inductor:
        return Absent("counting generated kernels takes a compilation, which the benchmark did not ask for")
    from perfci.bench.call_counts.graph_counts import generated_kernels

    return generated_kernels(traced)


def _weighed(held: Any) -> int | Absent:
    if held is None:
        return NOT_NAMED
    from perfci.bench.proxies.held import held_bytes

    return held_bytes(held if not isinstance(held, Iterable) or isinstance(held, dict) else list(held))
