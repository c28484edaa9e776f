"""Peak rates of devices: dense floating point operations and bytes of memory traffic per second.

Vendors like to print the figure for matrices that are half zeros, which is twice the dense one; dense is
what is meant here, accumulated in fp32, at the boost clock. No device holds that clock under load, one
reason why utilisation is shown and never judged. The list of devices follows torchtitan's and nanochat's,
the figures the vendors' sheets.

Names are compared word by word: as parts of a text, "l4" is in L40S, "h200" in GH200, and "a40" in RTX A4000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Dense peaks of one device: ``bandwidth`` in bytes/s, FLOP/s by number format (None: unsupported).

    ``name_words`` all occur among the words of the device's own name.
    """

    name_words: str
    bandwidth: float
    bf16: float | None
    fp16: float | None
    tf32: float | None
    fp32: float
    source: str

    def flops(self, dtype: str) -> float | None:
        """Dense FLOP/s in a number format, None where the hardware lacks it."""
        return {"bf16": self.bf16, "fp16": self.fp16, "tf32": self.tf32, "fp32": self.fp32}.get(dtype)


BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief"
HOPPER = "NVIDIA H100 Tensor Core GPU Datasheet"
H200 = "NVIDIA H200 Tensor Core GPU Datasheet"
A100 = "NVIDIA A100 Tensor Core GPU Datasheet"
VOLTA = "NVIDIA V100 Tensor Core GPU Datasheet"
CDNA3 = "AMD Instinct MI300 Series data sheets"
CDNA2 = "AMD Instinct MI200 Series data sheets; torch sees each of the two dies as a device, so half a card"

DEVICE_PEAKS: tuple[DevicePeak, ...] = (  # of several that fit, the first: more words come before fewer
    DevicePeak("gb200", 8.0e12, 2500e12, 2500e12, 1250e12, 90e12, BLACKWELL),
    DevicePeak("b200", 8.0e12, 2250e12, 2250e12, 1100e12, 80e12, BLACKWELL),
    DevicePeak("gh200", 4.0e12, 989.4e12, 989.4e12, 494.7e12, 66.9e12, "NVIDIA GH200 Grace Hopper Datasheet"),
    DevicePeak("h200 nvl", 4.8e12, 835.5e12, 835.5e12, 417.5e12, 60e12, H200),
    DevicePeak("h200", 4.8e12, 989.4e12, 989.4e12, 494.7e12, 66.9e12, H200),
    DevicePeak("h100 nvl", 3.9e12, 835.5e12, 835.5e12, 417.5e12, 60e12, HOPPER),
    DevicePeak("h100 pcie", 2.0e12, 756e12, 756e12, 378e12, 51e12, HOPPER),
    DevicePeak("h100 hbm3", 3.35e12, 989.4e12, 989.4e12, 494.7e12, 66.9e12, HOPPER),  # the SXM board
    DevicePeak("h100 sxm5", 3.35e12, 989.4e12, 989.4e12, 494.7e12, 66.9e12, HOPPER),
    DevicePeak("a100 sxm4 80gb", 2.039e12, 312e12, 312e12, 156e12, 19.5e12, A100),
    DevicePeak("a100 80gb", 1.935e12, 312e12, 312e12, 156e12, 19.5e12, A100),
    DevicePeak("a100", 1.555e12, 312e12, 312e12, 156e12, 19.5e12, A100),
    DevicePeak("a40", 0.696e12, 149.7e12, 149.7e12, 74.8e12, 37.4e12, "NVIDIA A40 Datasheet"),
    DevicePeak("a30", 0.933e12, 165e12, 165e12, 82e12, 10.3e12, "NVIDIA A30 Datasheet"),
    DevicePeak("a10g", 0.6e12, 70e12, 70e12, 35e12, 31.5e12, "NVIDIA A10G Datasheet for AWS"),
    DevicePeak("a10", 0.6e12, 125e12, 125e12, 62.5e12, 31.2e12, "NVIDIA A10 Datasheet"),
    DevicePeak("l40s", 0.864e12, 362.1e12, 362.1e12, 183e12, 91.6e12, "NVIDIA L40S Datasheet"),
    DevicePeak("l40", 0.864e12, 181e12, 181e12, 90.5e12, 90.5e12, "NVIDIA L40 Datasheet"),
    DevicePeak("l4", 0.3e12, 121e12, 121e12, 60e12, 30.3e12, "NVIDIA L4 Datasheet"),
    DevicePeak("v100s", 1.134e12, None, 130e12, None, 16.4e12, VOLTA),
    DevicePeak("v100 pcie", 0.9e12, None, 112e12, None, 14e12, VOLTA),
    DevicePeak("v100", 0.9e12, None, 125e12, None, 15.7e12, VOLTA),
    DevicePeak("t4", 0.32e12, None, 65e12, None, 8.1e12, "NVIDIA T4 Datasheet"),
    DevicePeak(
        "rtx 5090", 1.792e12, 209.5e12, 209.5e12, 104.8e12, 104.8e12, "NVIDIA RTX Blackwell whitepaper"
    ),
    DevicePeak(
        "rtx 4090", 1.008e12, 165.2e12, 165.2e12, 82.6e12, 82.6e12, "NVIDIA Ada GPU Architecture whitepaper"
    ),
    DevicePeak("rtx 3090", 0.936e12, 71e12, 71e12, 35.6e12, 35.6e12, "NVIDIA Ampere GA102 whitepaper"),
    DevicePeak("rtx a6000", 0.768e12, 154.8e12, 154.8e12, 77.4e12, 38.7e12, "NVIDIA Ampere GA102 whitepaper"),
    DevicePeak(
        "rtx 6000 ada", 0.96e12, 364.2e12, 364.2e12, 182.1e12, 91.1e12, "NVIDIA RTX 6000 Ada Datasheet"
    ),
    DevicePeak("mi355x", 8.0e12, 2516e12, 2516e12, None, 157.3e12, "AMD Instinct MI355X data sheet"),
    DevicePeak("mi325x", 6.0e12, 1307.4e12, 1307.4e12, 653.7e12, 163.4e12, CDNA3),
    DevicePeak("mi300x", 5.3e12, 1307.4e12, 1307.4e12, 653.7e12, 163.4e12, CDNA3),
    DevicePeak("mi300a", 5.3e12, 980.6e12, 980.6e12, 490.3e12, 122.6e12, CDNA3),
    DevicePeak("mi250x", 1.638e12, 191.5e12, 191.5e12, None, 47.9e12, CDNA2),
    DevicePeak("mi250", 1.638e12, 181e12, 181e12, None, 45.3e12, CDNA2),
    DevicePeak("mi210", 1.638e12, 181e12, 181e12, None, 45.3e12, "AMD Instinct MI210 data sheet"),
)

EXCLUDING_WORDS = {"laptop", "mobile", "max", "ti", "super", "d", "mig"}
"""A word that makes another device of a name in the table, or a part of one."""

VGPU_PROFILE = re.compile(r"\d+[abcq]")
"""How NVIDIA names the profile of a virtual GPU, as in ``A100-10C``: a part of a device."""


def peak_flops(name: str, dtype: str) -> float | None:
    """Look up dense FLOP/s by device name; ``dtype`` is ``bf16``, ``fp16``, ``tf32`` or ``fp32``.

    None for a device that is unknown or a part of one, for a format that its hardware lacks, and for fp8:
    torchtitan reports no utilisation under fp8, because a step computes in several formats then.
    """
    peaks = _find_device(name)
    return None if peaks is None else peaks.flops(dtype)


def peak_bandwidth(name: str) -> float | None:
    """Look up bytes/s between a device and its memory; None for an unknown or partitioned device."""
    peaks = _find_device(name)
    return None if peaks is None else peaks.bandwidth


def _find_device(name: str) -> DevicePeak | None:
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & EXCLUDING_WORDS or any(VGPU_PROFILE.fullmatch(word) for word in words):
        return None
    return next((peak for peak in DEVICE_PEAKS if words >= set(peak.name_words.split())), None)
