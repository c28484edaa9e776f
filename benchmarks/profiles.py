"""Time shares of kinds of operators in a training step and in a request."""

from __future__ import annotations

from pathlib import Path

from perfci.bench import Absent, Bench, Measurement, Metric, Reading, informational, metrics
from perfci.bench.profiles.operator_kinds import KIND_PATTERNS, OTHER_KIND
from perfci.bench.profiles.profiler import profile_work

from . import generation, training
from .workload_sizes import GENERATION, SIZES, declare_cost

KINDS = (*KIND_PATTERNS, OTHER_KIND)


class Profile(Bench):
    """The tables themselves, and a trace to open, come from ``perfci profile``."""

    cost_s = declare_cost(smoke=8.3, real=30)
    default_suite = {"work": ["step"]}
    params = (["step", "request"], [SIZES.name])
    param_names = ("work", "sizes")
    timeout = 300.0  # of which reading a recording takes most

    @metrics(
        *(Metric(f"{kind}_share", "ratio") for kind in KINDS),
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
        shares = {row.name: row.share for row in profiled.kinds}
        busy: Reading | Absent = (
            profiled.busy if isinstance(profiled.busy, Absent) else informational(profiled.busy)
        )
        readings = {f"{kind}_share": informational(shares.get(kind, 0.0)) for kind in KINDS}
        return Measurement({**readings, "gpu_busy": busy})
