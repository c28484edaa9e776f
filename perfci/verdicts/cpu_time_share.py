"""Whether a benchmark computes for enough of its wall time to be judged by its CPU time."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Process, Status

MIN_CPU_SHARE = 0.2
"""A benchmark that never computes for a fifth of its wall time waits, and its CPU time would not
show a slowdown."""


def is_cpu_bound(cpu: Sequence[Process], wall: Sequence[Process]) -> bool:
    """Whether CPU time represents the benchmark: False where it mostly sleeps or waits for input
    and output."""
    cpu_samples = [sample for process in cpu if process.status is Status.OK for sample in process.samples]
    wall_samples = [sample for process in wall if process.status is Status.OK for sample in process.samples]
    shares = [c / w for c, w in zip(cpu_samples, wall_samples, strict=False) if w > 0]
    return not shares or max(shares) >= MIN_CPU_SHARE
