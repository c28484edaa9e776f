"""What a device can do at best: dense floating point operations and bytes of memory traffic per second.

The vendors' data sheets often print the figure with structured sparsity, which is twice the dense one; dense is what
is meant here, as in torchtitan and nanochat. Boost clocks: no device holds them under load, which is why utilisation
is shown and never judged.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peak:
    """Dense peaks of one device: FLOP/s by kind of number (absent where the hardware has no such path), and bytes/s."""

    words: tuple[str, ...]  # all of them are in the device's name, in small letters
    bandwidth: float
    bf16: float | None
    fp16: float | None
    tf32: float | None
    fp32: float
    source: str


T = 1e12

PEAKS: tuple[Peak, ...] = (
    Peak(("h200",), 4.8 * T, 989.5 * T, 989.5 * T, 494.7 * T, 66.9 * T, "NVIDIA H200 data sheet"),
    Peak(("h100", "nvl"), 3.9 * T, 835.5 * T, 835.5 * T, 417.7 * T, 60 * T, "NVIDIA H100 data sheet"),
    Peak(("h100", "pcie"), 2.0 * T, 756.5 * T, 756.5 * T, 378 * T, 51.2 * T, "NVIDIA H100 data sheet"),
    Peak(("h100",), 3.35 * T, 989.5 * T, 989.5 * T, 494.7 * T, 66.9 * T, "NVIDIA H100 data sheet"),
)


def peak_flops(name: str, dtype: str) -> float | None:
    """Look up dense FLOP/s by the name a device gives itself; None for an unknown device, for fp8 or another dtype."""
    found = _find(name)
    return (
        None
        if found is None
        else {"bf16": found.bf16, "fp16": found.fp16, "tf32": found.tf32, "fp32": found.fp32}.get(dtype)
    )


def peak_bandwidth(name: str) -> float | None:
    """Look up bytes/s between a device and its own memory; None for an unknown device."""
    found = _find(name)
    return None if found is None else found.bandwidth


def _find(name: str) -> Peak | None:
    small = name.lower()
    return next((peak for peak in PEAKS if all(word in small for word in peak.words)), None)
