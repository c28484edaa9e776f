"""Device interface of a benchmark: CPU, CUDA, ROCm, XPU or MPS through the same calls."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

VALIDATION_STATUS = {
    "cpu": (True, "every figure in the documentation was measured on CPU machines"),
    "cuda": (
        False,
        "exercised in tests against a fake device; no run on an NVIDIA GPU has been recorded yet",
    ),
    "rocm": (False, "shares torch's CUDA calls; no run on an AMD GPU has been recorded yet"),
    "xpu": (False, "written from torch's documentation; no run on an Intel GPU has been recorded yet"),
    "mps": (False, "written from torch's documentation; no run on an Apple GPU has been recorded yet"),
}
"""Whether somebody has measured perfci on a kind of device, and what is known about it."""

FP8_CAPABILITY = (8, 9)
BF16_CAPABILITY = (8, 0)


class DeviceEvent(Protocol):
    """A point in a device's queue: ``torch.cuda.Event(enable_timing=True)`` and its twins."""

    def record(self) -> None: ...

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this marker to ``end``, once the device has passed both."""
        ...


class Device(Protocol):
    """What a benchmark may ask of the hardware it runs on; asking its ``kind`` starts nothing."""

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda``, ``rocm``, ``xpu`` or ``mps``."""
        ...

    @property
    def name(self) -> str:
        """The model name its driver gives, as the table of peak FLOP/s knows it."""
        ...

    @property
    def torch_device(self) -> str:
        """What ``.to()`` takes; ROCm calls itself ``cuda`` there."""
        ...

    @property
    def uuid(self) -> str | None:
        """The name NVML finds an NVIDIA GPU by, ``GPU-...``, whatever ``CUDA_VISIBLE_DEVICES`` says."""
        ...

    @property
    def l2_bytes(self) -> int | None:
        """The size of the last cache before device memory, where the driver reports it."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""
        ...

    def create_event_pair(self) -> tuple[DeviceEvent, DeviceEvent] | None:
        """Two events to record around queued work; None where the device has no events."""
        ...

    def empty_cache(self) -> None:
        """Give the allocator's unused segments back to the device."""
        ...

    def reset_peak_memory(self) -> None:
        """Let the allocator's peaks begin anew at what is allocated now."""
        ...

    def memory_stats(self) -> dict[str, int] | None:
        """The caching allocator's ``memory_stats``; None where there is no such allocator."""
        ...

    def unsupported_dtype_reason(self, dtype: torch.dtype) -> str | None:
        """Say why speed in this type cannot be measured here, or None where it can."""
        ...


def this_device() -> Device:
    """Find what this process would compute on, without starting it: a process that asks may still fork.

    ``torch.cuda.device_count`` asks NVML and creates no context; ``CUDA_VISIBLE_DEVICES=""`` gives the CPU.
    """
    import torch

    if torch.cuda.device_count():
        return Accelerator("rocm" if torch.version.hip else "cuda", "cuda", torch.cuda)
    if torch.xpu.device_count():
        return Accelerator("xpu", "xpu", torch.xpu)
    if torch.backends.mps.is_available():
        return MpsDevice()
    return Cpu()


@dataclass(frozen=True, slots=True)
class Cpu:
    """The host itself: nothing is queued, and no caching allocator keeps a record."""

    kind: str = "cpu"
    torch_device: str = "cpu"
    uuid: None = None
    l2_bytes: None = None

    @property
    def name(self) -> str:
        import torch

        return f"CPU ({torch.backends.cpu.get_cpu_capability()})"

    def synchronize(self) -> None:
        return

    def create_event_pair(self) -> None:
        return None

    def empty_cache(self) -> None:
        return

    def reset_peak_memory(self) -> None:
        return

    def memory_stats(self) -> None:
        return None

    def unsupported_dtype_reason(self, dtype: torch.dtype) -> str | None:
        import torch

        if is_float8(dtype):
            return "no CPU multiplies float8 natively: its timing is meaningless"
        if dtype is torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported():
            return (
                "this CPU computes in float16 only by emulation, hundreds of times slower: "
                "its timing is meaningless"
            )
        return None


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The current device of a backend with the interface of ``torch.cuda``: CUDA, ROCm or XPU."""

    kind: str
    torch_device: str
    backend: ModuleType

    @property
    def name(self) -> str:
        return str(self.backend.get_device_name())

    @property
    def uuid(self) -> str | None:
        # torch leaves out the prefix by which NVML tells a GPU from a part of one, "MIG-...".
        return f"GPU-{self._properties.uuid}" if self.kind == "cuda" else None

    @property
    def l2_bytes(self) -> int | None:
        # Not every backend of torch has this property.
        return int(getattr(self._properties, "L2_cache_size", 0)) or None

    @property
    def _properties(self) -> Any:
        return self.backend.get_device_properties(self.backend.current_device())

    def synchronize(self) -> None:
        self.backend.synchronize()

    def create_event_pair(self) -> tuple[DeviceEvent, DeviceEvent]:
        return self.backend.Event(enable_timing=True), self.backend.Event(enable_timing=True)

    def empty_cache(self) -> None:
        self.backend.empty_cache()

    def reset_peak_memory(self) -> None:
        self.backend.reset_peak_memory_stats()

    def memory_stats(self) -> dict[str, int]:
        self.backend.init()  # before that torch answers with an empty mapping
        return dict(self.backend.memory_stats())

    def unsupported_dtype_reason(self, dtype: torch.dtype) -> str | None:
        import torch

        if self.kind != "cuda":
            return None
        capability = tuple(self.backend.get_device_capability())
        needed = (0, 0)
        if is_float8(dtype):
            needed = FP8_CAPABILITY
        elif dtype is torch.bfloat16:
            needed = BF16_CAPABILITY
        if capability >= needed:
            return None
        return "{} needs compute capability {}.{}; this GPU has {}.{}".format(
            str(dtype).removeprefix("torch."), *needed, *capability
        )


@dataclass(frozen=True, slots=True)
class MpsDevice:
    """Apple's GPU: events and two sizes, but an allocator without peaks."""

    kind: str = "mps"
    torch_device: str = "mps"
    uuid: None = None
    l2_bytes: None = None

    @property
    def name(self) -> str:
        import torch

        return str(getattr(torch.backends.mps, "get_name", lambda: "Apple GPU")())

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def create_event_pair(self) -> tuple[DeviceEvent, DeviceEvent]:
        from torch.mps.event import Event

        return Event(enable_timing=True), Event(enable_timing=True)

    def empty_cache(self) -> None:
        import torch

        torch.mps.empty_cache()

    def reset_peak_memory(self) -> None:
        """Nothing to reset: this allocator keeps no peaks, and ``memory_stats`` gives none."""

    def memory_stats(self) -> dict[str, int]:
        import torch

        return {
            "allocated_bytes.all.current": int(torch.mps.current_allocated_memory()),
            "reserved_bytes.all.current": int(torch.mps.driver_allocated_memory()),
        }

    def unsupported_dtype_reason(self, dtype: torch.dtype) -> str | None:
        import torch

        if is_float8(dtype) or dtype is torch.float64:
            return f"Apple's GPU does not compute in {str(dtype).removeprefix('torch.')}"
        return None


def is_float8(dtype: torch.dtype) -> bool:
    return str(dtype).startswith("torch.float8")
