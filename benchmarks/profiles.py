"""Time shares of kinds of operators in a training step and in a request."""

from __future__ import annotations

from pathlib import Path

from perfci.bench import Absent, Bench, Measurement, Metric, Reading, informational, metrics
from perfci.bench.profiles.profile_tables import TimeShare
from perfci.bench.profiles.profiler import profile_work

from . import generation, training
from .workload_sizes import GENERATION, SIZES

OPERATOR_KINDS = {
    "matmul": ("mm", "gemm", "linear", "matmul", "cutlass", "nvjet"),
    "attention": ("attention", "flash", "fmha", "sdpa"),
    "optimizer": ("optimizer", "adam", "foreach"),
    "copy": ("copy", "cat", "memcpy", "contiguous", "_to_copy"),
}
"""Words in the name of an operator or kernel, the first kind that has one; the rest is ``other``."""


class Profile(Bench):
    """The tables themselves, and a trace to open, come from ``perfci profile``."""

    params = (["step", "request"], [SIZES.name])
    param_names = ("work", "sizes")

    @metrics(
        *(Metric(f"{kind}_share", "ratio") for kind in (*OPERATOR_KINDS, "other")),
        Metric("gpu_busy", "ratio", "higher"),
    )
    def measure_profile(self, work: str, sizes: str) -> Measurement:
        if work == "step":
            step = training.Step()
            call = step.measure_training.build_profiled_work(step, "fp32", SIZES.batches[0], sizes)
        else:
            generate = generation.Generate()
            call = generate.measure_generation.build_profiled_work(
                generate, SIZES.prompts[0], GENERATION.new_tokens[0], 1, sizes
            )
        profiled = profile_work(call, Path())
        rows = profiled.operators if isinstance(profiled.kernels, Absent) else profiled.kernels
        busy: Reading | Absent = (
            profiled.busy if isinstance(profiled.busy, Absent) else informational(profiled.busy)
        )
        return Measurement({**sum_by_kind(rows), "gpu_busy": busy})


def sum_by_kind(rows: tuple[TimeShare, ...]) -> dict[str, Reading]:
    """Sum the shares of the largest rows by kind; what is in none of them is in ``other``."""
    shares_by_kind = {
        kind: sum(row.share for row in rows if operator_kind(row.name) == kind) for kind in OPERATOR_KINDS
    }
    return {
        f"{kind}_share": informational(share)
        for kind, share in {**shares_by_kind, "other": 1 - sum(shares_by_kind.values())}.items()
    }


def operator_kind(name: str) -> str:
    return next(
        (kind for kind, words in OPERATOR_KINDS.items() if any(word in name.lower() for word in words)),
        "other",
    )
