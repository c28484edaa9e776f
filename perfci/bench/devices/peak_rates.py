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
class Peak:
    """Dense peaks of one device: ``bandwidth`` in bytes/s; FLOP/s by number format, absent where the hardware has none.

    ``words`` are all among the words of the name that the device gives itself.
    """

    words: str
    bandwidth: float
    bf16: float | None
    fp16: float | None
    tf32: float | None
    fp32: float
    source: str

    def flops(self, dtype: str) -> float | None:
        return {"bf16": self.bf16, "fp16": self.fp16, "tf32": self.tf32, "fp32": self.fp32}.get(dtype)


T = 1e12
BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief"
HOPPER = "NVIDIA H100 Tensor Core GPU Datasheet"
H200 = "NVIDIA H200 Tensor Core GPU Datasheet"
A100 = "NVIDIA A100 Tensor Core GPU Datasheet"
VOLTA = "NVIDIA V100 Tensor Core GPU Datasheet"
CDNA3 = "AMD Instinct MI300 Series data sheets"
CDNA2 = "AMD Instinct MI200 Series data sheets; torch sees each of the two dies as a device, so half a card"

# fmt: off
PEAKS: tuple[Peak, ...] = (  # of several that fit, the first: more words come before fewer
    Peak("gb200",      8.0 * T,   2500 * T,  2500 * T,  1250 * T,  90 * T,   BLACKWELL),
    Peak("b200",       8.0 * T,   2250 * T,  2250 * T,  1100 * T,  80 * T,   BLACKWELL),
    Peak("gh200",      4.0 * T,   989.4 * T, 989.4 * T, 494.7 * T, 66.9 * T, "NVIDIA GH200 Grace Hopper Datasheet"),
    Peak("h200 nvl",   4.8 * T,   835.5 * T, 835.5 * T, 417.5 * T, 60 * T,   H200),
    Peak("h200",       4.8 * T,   989.4 * T, 989.4 * T, 494.7 * T, 66.9 * T, H200),
    Peak("h100 nvl",   3.9 * T,   835.5 * T, 835.5 * T, 417.5 * T, 60 * T,   HOPPER),
    Peak("h100 pcie",  2.0 * T,   756 * T,   756 * T,   378 * T,   51 * T,   HOPPER),
    Peak("h100 hbm3",  3.35 * T,  989.4 * T, 989.4 * T, 494.7 * T, 66.9 * T, HOPPER),  # how the SXM board is called
    Peak("h100 sxm5",  3.35 * T,  989.4 * T, 989.4 * T, 494.7 * T, 66.9 * T, HOPPER),
    Peak("a100 sxm4 80gb", 2.039 * T, 312 * T, 312 * T, 156 * T,   19.5 * T, A100),
    Peak("a100 80gb",  1.935 * T, 312 * T,   312 * T,   156 * T,   19.5 * T, A100),
    Peak("a100",       1.555 * T, 312 * T,   312 * T,   156 * T,   19.5 * T, A100),
    Peak("a40",        0.696 * T, 149.7 * T, 149.7 * T, 74.8 * T,  37.4 * T, "NVIDIA A40 Datasheet"),
    Peak("a30",        0.933 * T, 165 * T,   165 * T,   82 * T,    10.3 * T, "NVIDIA A30 Datasheet"),
    Peak("a10g",       0.6 * T,   70 * T,    70 * T,    35 * T,    31.5 * T, "NVIDIA A10G Datasheet for AWS"),
    Peak("a10",        0.6 * T,   125 * T,   125 * T,   62.5 * T,  31.2 * T, "NVIDIA A10 Datasheet"),
    Peak("l40s",       0.864 * T, 362.1 * T, 362.1 * T, 183 * T,   91.6 * T, "NVIDIA L40S Datasheet"),
    Peak("l40",        0.864 * T, 181 * T,   181 * T,   90.5 * T,  90.5 * T, "NVIDIA L40 Datasheet"),
    Peak("l4",         0.3 * T,   121 * T,   121 * T,   60 * T,    30.3 * T, "NVIDIA L4 Datasheet"),
    Peak("v100s",      1.134 * T, None,      130 * T,   None,      16.4 * T, VOLTA),
    Peak("v100 pcie",  0.9 * T,   None,      112 * T,   None,      14 * T,   VOLTA),
    Peak("v100",       0.9 * T,   None,      125 * T,   None,      15.7 * T, VOLTA),
    Peak("t4",         0.32 * T,  None,      65 * T,    None,      8.1 * T,  "NVIDIA T4 Datasheet"),
    Peak("rtx 5090",   1.792 * T, 209.5 * T, 209.5 * T, 104.8 * T, 104.8 * T, "NVIDIA RTX Blackwell whitepaper"),
    Peak("rtx 4090",   1.008 * T, 165.2 * T, 165.2 * T, 82.6 * T,  82.6 * T, "NVIDIA Ada GPU Architecture whitepaper"),
    Peak("rtx 3090",   0.936 * T, 71 * T,    71 * T,    35.6 * T,  35.6 * T, "NVIDIA Ampere GA102 whitepaper"),
    Peak("rtx a6000",  0.768 * T, 154.8 * T, 154.8 * T, 77.4 * T,  38.7 * T, "NVIDIA Ampere GA102 whitepaper"),
    Peak("rtx 6000 ada", 0.96 * T, 364.2 * T, 364.2 * T, 182.1 * T, 91.1 * T, "NVIDIA RTX 6000 Ada Datasheet"),
    Peak("mi355x",     8.0 * T,   2516 * T,  2516 * T,  None,      157.3 * T, "AMD Instinct MI355X data sheet"),
    Peak("mi325x",     6.0 * T,   1307.4 * T, 1307.4 * T, 653.7 * T, 163.4 * T, CDNA3),
    Peak("mi300x",     5.3 * T,   1307.4 * T, 1307.4 * T, 653.7 * T, 163.4 * T, CDNA3),
    Peak("mi300a",     5.3 * T,   980.6 * T, 980.6 * T, 490.3 * T, 122.6 * T, CDNA3),
    Peak("mi250x",     1.638 * T, 191.5 * T, 191.5 * T, None,      47.9 * T, CDNA2),
    Peak("mi250",      1.638 * T, 181 * T,   181 * T,   None,      45.3 * T, CDNA2),
    Peak("mi210",      1.638 * T, 181 * T,   181 * T,   None,      45.3 * T, "AMD Instinct MI210 data sheet"),
)
# fmt: on

OTHER_DEVICE = {"laptop", "mobile", "max", "ti", "super", "d", "mig"}
"""A word that makes another device of a name in the table, or a part of one."""

PART = re.compile(r"\d+[abcq]")
"""How NVIDIA names the profile of a virtual GPU, as in ``A100-10C``: a part of a device."""


def peak_flops(name: str, dtype: str) -> float | None:
    """Look up dense FLOP/s by the name a device gives itself; ``dtype`` is ``bf16``, ``fp16``, ``tf32`` or ``fp32``.

    None for a device that is unknown or a part of one, for a format that its hardware lacks, and for fp8: torchtitan
    reports no utilisation under fp8, because a step computes in several formats then.
    """
    found = _find(name)
    return None if found is None else found.flops(dtype)


def peak_bandwidth(name: str) -> float | None:
    """Look up bytes/s between a device and its own memory; None for a device that is unknown or a part of one."""
    found = _find(name)
    return None if found is None else found.bandwidth


def _find(name: str) -> Peak | None:
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    if words & OTHER_DEVICE or any(PART.fullmatch(word) for word in words):
        return None
    return next((peak for peak in PEAKS if words >= set(peak.words.split())), None)
