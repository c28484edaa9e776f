"""Count everything about one call at once, and say of what could not be counted why."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from perfci.bench.readings import Absent, Reading, exact
from perfci.model import Clock, Metric

NOT_GIVEN = "the benchmark named none"


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
    parameters: Iterable[Any] | None = None,
    optimizer: Any = None,
    cache: Any = None,
) -> Proxies:
    """Call the function once and count.

    ``whole`` builds all it needs itself and runs without computing, for ``fake_peak_bytes``. ``traced`` is what
    ``torch.compile`` shall see, usually the forward pass. ``parameters``, the ``optimizer`` (a ``torch.optim`` one) and
    the ``cache`` (nested tensors, or an object that holds them) are weighed after the call.
    """
    from perfci.bench.flops import counter
    from perfci.bench.proxies.operators import Operators
    from perfci.bench.storages import LiveStorages

    collected = gc.isenabled()
    gc.disable()
    try:
        with Operators() as operators, LiveStorages() as live, counter() as flops:
            function()
    finally:
        if collected:
            gc.enable()
    return Proxies(
        flops=int(flops.get_total_flops()),
        operators=operators.operators,
        host_syncs=operators.host_syncs,
        upcast_bytes=operators.upcast_bytes,
        copied_to_device_bytes=operators.copied_to_device_bytes,
        pageable_copy_bytes=operators.pageable_copy_bytes,
        blocking_copy_bytes=operators.blocking_copy_bytes,
        peak_tensor_bytes=live.peak_bytes,
        fake_peak_bytes=Absent(NOT_GIVEN),
        parameter_bytes=Absent(NOT_GIVEN),
        optimizer_state_bytes=Absent(NOT_GIVEN),
        kv_cache_bytes=Absent(NOT_GIVEN),
        graph_breaks=Absent(NOT_GIVEN),
        recompiles=Absent(NOT_GIVEN),
        generated_kernels=Absent(NOT_GIVEN),
        kernel_launches=Absent(NOT_GIVEN),
        instructions=Absent(NOT_GIVEN),
    )
