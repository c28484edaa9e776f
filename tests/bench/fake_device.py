"""An accelerator that is only arithmetic: kernels queue on a timeline of its own, and clocks move with the
work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch


@dataclass
class FakeMarker:
    device: FakeDevice
    at_s: float | None = None

    def record(self) -> None:
        """Events take a place in the queue: they are passed when all before them is done."""
        self.at_s = max(self.device.host_s, self.device.done_s)

    def elapsed_time(self, end: FakeMarker) -> float:
        assert self.device.done_s <= self.device.host_s, (
            "the events were read before the device had passed them"
        )
        assert self.at_s is not None
        assert end.at_s is not None
        return (end.at_s - self.at_s) * 1000


@dataclass
class FakeDevice:
    """Give ``kernel`` to what is timed; ``install`` lets a module read this machine's clocks instead of the
    host's.
    """

    kind: str = "cuda"
    name: str = "Fake H100"
    torch_device: str = "cpu"
    uuid: str | None = "GPU-fake"
    l2_bytes: int | None = 4096
    host_s: float = 100.0
    cpu_s: float = 5.0
    done_s: float = 0.0
    launch_s: float = 1e-5
    synchronised: int = 0
    peaks_reset: int = 0
    cache_emptied: int = 0
    pairs_made: int = 0
    stats: dict[str, int] | None = field(default_factory=lambda: {"num_device_alloc": 1})
    refused: dict[torch.dtype, str] = field(default_factory=dict)

    def kernel(self, device_s: float) -> None:
        """Launch something: the host pays for the launch, the device for the work, after all queued
        before.
        """
        self.host_s += self.launch_s
        self.cpu_s += self.launch_s
        self.done_s = max(self.done_s, self.host_s) + device_s

    def work(self, host_s: float) -> None:
        """Compute on the host."""
        self.host_s += host_s
        self.cpu_s += host_s

    def launching(self, device_s: float) -> Callable[[], None]:
        return lambda: self.kernel(device_s)

    def install(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> FakeDevice:
        for module in modules:
            monkeypatch.setattr(f"{module}.perf_counter", lambda: self.host_s)
            monkeypatch.setattr(f"{module}.process_time", lambda: self.cpu_s)
        return self

    def synchronize(self) -> None:
        self.synchronised += 1
        self.host_s = max(self.host_s, self.done_s)

    def create_event_pair(self) -> tuple[FakeMarker, FakeMarker] | None:
        self.pairs_made += 1
        return None if self.kind == "cpu" else (FakeMarker(self), FakeMarker(self))

    def empty_cache(self) -> None:
        self.cache_emptied += 1

    def reset_peak_memory(self) -> None:
        self.peaks_reset += 1

    def memory_stats(self) -> dict[str, int] | None:
        return self.stats

    def unsupported_dtype_reason(self, dtype: torch.dtype) -> str | None:
        return self.refused.get(dtype)
