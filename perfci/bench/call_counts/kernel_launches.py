"""Kernels that the host launches on an accelerator, as torch's profiler sees the launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from perfci.bench.devices.torch_devices import Device
from perfci.bench.readings import Absent

LAUNCH_CALLS = (
    "cudaLaunchKernel",
    "cuLaunchKernel",
    "hipLaunchKernel",
    "hipModuleLaunchKernel",
    "hipExtModuleLaunchKernel",
)
GRAPH_LAUNCH_CALLS = ("cudaGraphLaunch", "hipGraphLaunch")


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
    """``cudaLaunchKernel`` has variants with a suffix: ``ExC``, ``Ex``, ``_v2``."""
    return sum(name.startswith(LAUNCH_CALLS + GRAPH_LAUNCH_CALLS) for name in names)
