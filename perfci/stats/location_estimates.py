"""Location estimates: the level of a set of samples as one robust number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
"""A float64 array; shapes are named where they matter."""

MAD_TO_SIGMA = 1.4826
"""Standard deviation over median absolute deviation of normal data: 1 / 0.6745 (Hampel 1974)."""

TRIMMED_SHARE = 0.2
"""Share cut off either end of a trimmed mean (Wilcox 2012, section 3.3)."""

MIN_WARMUP_SAMPLES = 8
"""A process with fewer samples is too short to separate warm-up from noise; nothing is dropped."""

WARMUP_SIGMAS = 3.0
"""A leading sample is warm-up if it lies this many standard errors above the settled half (the
three-sigma rule)."""


SMALL_SAMPLE = 50
"""Up to this many samples, sorting in Python is faster than a numpy call; an evaluation takes the
level of thousands of short processes."""


def median(samples: Sequence[float] | Floats) -> float:
    """Middle value: up to half of the samples may be outliers."""
    count = len(samples)
    if not 0 < count <= SMALL_SAMPLE:
        return float(np.median(np.asarray(samples, dtype=float)))
    ordered, middle = sorted(samples), count // 2
    return float(ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def lower_quartile(samples: Sequence[float] | Floats) -> float:
    """25 % quantile, linearly interpolated: a level for one-sided noise, since neighbours only slow
    a process down (after Chen & Revels 2016)."""
    count = len(samples)
    if not 1 < count <= SMALL_SAMPLE:
        return float(np.quantile(np.asarray(samples, dtype=float), 0.25))
    ordered = sorted(samples)
    place, share = divmod((count - 1) / 4, 1)
    below, above = ordered[int(place)], ordered[int(place) + 1]
    rise = above - below
    # numpy interpolates from the nearer end; doing the same gives its results to the last bit
    return float(below + rise * share if share < 0.5 else above - rise * (1 - share))


def trimmed_mean(samples: ArrayLike) -> float:
    """Mean without the lowest and the highest fifth of the samples."""
    ordered = np.sort(np.asarray(samples, dtype=float))
    cut = int(TRIMMED_SHARE * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())


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
