"""Warm-up: how many leading samples of a process are not yet steady."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfci.stats.location_estimates import MAD_TO_SIGMA

MIN_WARMUP_SAMPLES = 8
"""A process with fewer samples is too short to separate warm-up from noise; nothing is dropped."""

WARMUP_SIGMAS = 3.0
"""A leading sample is warm-up if it lies this many standard errors above the settled half (the
three-sigma rule)."""


def warmup_length(processes: Sequence[Sequence[float]]) -> int:
    """Number of leading samples that all processes of both sides share as warm-up.

    ``processes`` has shape (processes, samples). Both sides are cut alike, since separate cuts
    would become part of the difference. At most half is dropped, and nothing where lengths differ
    or a sample is not positive.
    """
    lengths = {len(process) for process in processes}
    if len(lengths) != 1 or (length := lengths.pop()) < MIN_WARMUP_SAMPLES:
        return 0
    samples = np.asarray(processes, dtype=float)
    if not (samples > 0).all():
        return 0
    logs = np.log(samples)
    settled = np.median(logs[:, length // 2 :], axis=1, keepdims=True)
    noise = MAD_TO_SIGMA * float(np.median(np.abs(logs[:, length // 2 :] - settled))) + 1e-12
    excess = np.median(logs[:, : length // 2] - settled, axis=0)
    warm = excess > WARMUP_SIGMAS * noise / np.sqrt(len(processes))
    return int(np.argmin(warm)) if not warm.all() else length // 2
