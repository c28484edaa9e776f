"""What a device can do at best: dense floating point operations and bytes of memory traffic per second.

Vendors like to print the figure for matrices that are half zeros, which is twice the dense one; dense is what is meant
here, accumulated in fp32, at the boost clock. No device holds that clock under load, one reason why utilisation is
shown and never judged. The list of devices follows torchtitan's and nanochat's, the figures the vendors' sheets.

Names are compared word by word: as parts of a text, "l4" is in L40S, "h200" in GH200, and "a40" in RTX A4000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Dense peaks of one device: ``bandwidth`` in bytes/s; FLOP/s by number format, absent where the hardware has none.

    ``words`` are all among the words of the name that the device gives itself.
    """

    name_words: str
    bandwidth: float
    bf16: float | None
    fp16: float | None
    tf32: float | None
    fp32: float
    source: str

    def flops(self, dtype: str) -> float | None:
        return {"bf16": self.bf16, "fp16": self.fp16, "tf32": self.tf32, "fp32": self.fp32}.get(dtype)


TERA = 1e12
BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief"
HOPPER = "NVIDIA H100 Tensor Core GPU Datasheet"
H200 = "NVIDIA H200 Tensor Core GPU Datasheet"
A100 = "NVIDIA A100 Tensor Core GPU Datasheet"
VOLTA = "NVIDIA V100 Tensor Core GPU Datasheet"
CDNA3 = "AMD Instinct MI300 Series data sheets"
CDNA2 = "AMD Instinct MI200 Series data sheets; torch sees each of the two dies as a device, so half a card"

# fmt: off
DEVICE_PEAKS: tuple[DevicePeak, ...] = (  # of several that fit, the first: more words come before fewer
    DevicePeak("gb200",      8.0 * TERA,   2500 * TERA,  2500 * TERA,  1250 * TERA,  90 * TERA,   BLACKWELL),
    DevicePeak("b200",       8.0 * TERA,   2250 * TERA,  2250 * TERA,  1100 * TERA,  80 * TERA,   BLACKWELL),
    DevicePeak("gh200",      4.0 * TERA,   989.4 * TERA, 989.4 * TERA, 494.7 * TERA, 66.9 * TERA, "NVIDIA GH200 Grace Hopper Datasheet"),
    DevicePeak("h200 nvl",   4.8 * TERA,   835.5 * TERA, 835.5 * TERA, 417.5 * TERA, 60 * TERA,   H200),
    DevicePeak("h200",       4.8 * TERA,   989.4 * TERA, 989.4 * TERA, 494.7 * TERA, 66.9 * TERA, H200),
    DevicePeak("h100 nvl",   3.9 * TERA,   835.5 * TERA, 835.5 * TERA, 417.5 * TERA, 60 * TERA,   HOPPER),
    DevicePeak("h100 pcie",  2.0 * TERA,   756 * TERA,   756 * TERA,   378 * TERA,   51 * TERA,   HOPPER),
    DevicePeak("h100 hbm3",  3.35 * TERA,  989.4 * TERA, 989.4 * TERA, 494.7 * TERA, 66.9 * TERA, HOPPER),  # how the SXM board is called
    DevicePeak("h100 sxm5",  3.35 * TERA,  989.4 * TERA, 989.4 * TERA, 494.7 * TERA, 66.9 * TERA, HOPPER),
    DevicePeak("a100 sxm4 80gb", 2.039 * TERA, 312 * TERA, 312 * TERA, 156 * TERA,   19.5 * TERA, A100),
    DevicePeak("a100 80gb",  1.935 * TERA, 312 * TERA,   312 * TERA,   156 * TERA,   19.5 * TERA, A100),
    DevicePeak("a100",       1.555 * TERA, 312 * TERA,   312 * TERA,   156 * TERA,   19.5 * TERA, A100),
    DevicePeak("a40",        0.696 * TERA, 149.7 * TERA, 149.7 * TERA, 74.8 * TERA,  37.4 * TERA, "NVIDIA A40 Datasheet"),
    DevicePeak("a30",        0.933 * TERA, 165 * TERA,   165 * TERA,   82 * TERA,    10.3 * TERA, "NVIDIA A30 Datasheet"),
    DevicePeak("a10g",       0.6 * TERA,   70 * TERA,    70 * TERA,    35 * TERA,    31.5 * TERA, "NVIDIA A10G Datasheet for AWS"),
    DevicePeak("a10",        0.6 * TERA,   125 * TERA,   125 * TERA,   62.5 * TERA,  31.2 * TERA, "NVIDIA A10 Datasheet"),
    DevicePeak("l40s",       0.864 * TERA, 362.1 * TERA, 362.1 * TERA, 183 * TERA,   91.6 * TERA, "NVIDIA L40S Datasheet"),
    DevicePeak("l40",        0.864 * TERA, 181 * TERA,   181 * TERA,   90.5 * TERA,  90.5 * TERA, "NVIDIA L40 Datasheet"),
    DevicePeak("l4",         0.3 * TERA,   121 * TERA,   121 * TERA,   60 * TERA,    30.3 * TERA, "NVIDIA L4 Datasheet"),
    DevicePeak("v100s",      1.134 * TERA, None,      130 * TERA,   None,      16.4 * TERA, VOLTA),
    DevicePeak("v100 pcie",  0.9 * TERA,   None,      112 * TERA,   None,      14 * TERA,   VOLTA),
    DevicePeak("v100",       0.9 * TERA,   None,      125 * TERA,   None,      15.7 * TERA, VOLTA),
    DevicePeak("t4",         0.32 * TERA,  None,      65 * TERA,    None,      8.1 * TERA,  "NVIDIA T4 Datasheet"),
    DevicePeak("rtx 5090",   1.792 * TERA, 209.5 * TERA, 209.5 * TERA, 104.8 * TERA, 104.8 * TERA, "NVIDIA RTX Blackwell whitepaper"),
    DevicePeak("rtx 4090",   1.008 * TERA, 165.2 * TERA, 165.2 * TERA, 82.6 * TERA,  82.6 * TERA, "NVIDIA Ada GPU Architecture whitepaper"),
    DevicePeak("rtx 3090",   0.936 * TERA, 71 * TERA,    71 * TERA,    35.6 * TERA,  35.6 * TERA, "NVIDIA Ampere GA102 whitepaper"),
    DevicePeak("rtx a6000",  0.768 * TERA, 154.8 * TERA, 154.8 * TERA, 77.4 * TERA,  38.7 * TERA, "NVIDIA Ampere GA102 whitepaper"),
    DevicePeak("rtx 6000 ada", 0.96 * TERA, 364.2 * TERA, 364.2 * TERA, 182.1 * TERA, 91.1 * TERA, "NVIDIA RTX 6000 Ada Datasheet"),
    DevicePeak("mi355x",     8.0 * TERA,   2516 * TERA,  2516 * TERA,  None,      157.3 * TERA, "AMD Instinct MI355X data sheet"),
    DevicePeak("mi325x",     6.0 * TERA,   1307.4 * TERA, 1307.4 * TERA, 653.7 * TERA, 163.4 * TERA, CDNA3),
    DevicePeak("mi300x",     5.3 * TERA,   1307.4 * TERA, 1307.4 * TERA, 653.7 * TERA, 163.4 * TERA, CDNA3),
    DevicePeak("mi300a",     5.3 * TERA,   980.6 * TERA, 980.6 * TERA, 490.3 * TERA, 122.6 * TERA, CDNA3),
    DevicePeak("mi250x",     1.638 * TERA, 191.5 * TERA, 191.5 * TERA, None,      47.9 * TERA, CDNA2),
    DevicePeak("mi250",      1.638 * TERA, 181 * TERA,   181 * TERA,   None,      45.3 * TERA, CDNA2),
    DevicePeak("mi210",      1.638 * TERA, 181 * TERA,   181 * TERA,   None,      45.3 * TERA, "AMD Instinct MI210 data sheet"),
)
# fmt: on

EXCLUDING_WORDS = {"laptop", "mobile", "max", "ti", "super", "d", "mig"}
"""A word that makes another device of a name in the table, or a part of one."""

VGPU_PROFILE = re.compile(r"\d+[abcq]")
"""How NVIDIA names the profile of a virtual GPU, as in ``A100-10C``: a part of a device."""


def peak_flops(name: str, dtype: str) -> float | None:
    """Look up dense FLOP/s by the name a device gives itself; ``dtype`` is ``bf16``, ``fp16``, ``tf32`` or ``fp32``.

    None for a device that is unknown or a part of one, for a format that its hardware lacks, and for fp8: torchtitan
    reports no utilisation under fp8, because a step computes in several formats then.
    """
    found = _find_device(name)
    return None if found is None else found.flops(dtype)


def peak_bandwidth(name: str) -> float | None:
    """Look up bytes/s between a device and its own memory; None for a device that is unknown or a part of one."""
    found = _find_device(name)
    return None if found is None else found.bandwidth


def _find_device(name: str) -> DevicePeak | None:
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & EXCLUDING_WORDS or any(VGPU_PROFILE.fullmatch(word) for word in words):
        return None
    return next((peak for peak in DEVICE_PEAKS if words >= set(peak.name_words.split())), None)
