"""The level of a set of samples: one robust number per process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MAD_TO_SIGMA = 1.4826
"""Median absolute deviation of a normal sample times this is its standard deviation (Hampel 1974)."""

TRIMMED_SHARE = 0.2

MIN_WARMUP_SAMPLES = 8
"""Below this a process is too short to tell its warm-up from its noise; nothing is dropped."""

WARMUP_SIGMAS = 3.0
"""A leading sample is warm-up when it stands this far above the settled half (the three-sigma rule)."""


SMALL_SAMPLE = 50
"""So many are sorted sooner than numpy begins: a look at a history takes the level of thousands of short processes."""


def median(samples: Sequence[float] | Floats) -> float:
    """The middle value: half of the samples may be wild and it still holds."""
    count = len(samples)
    if not 0 < count <= SMALL_SAMPLE:
        return float(np.median(np.asarray(samples, dtype=float)))
    ordered, middle = sorted(samples), count // 2
    return float(ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def lower_quartile(samples: Sequence[float] | Floats) -> float:
    """A level for one-sided noise: neighbours only ever slow a process down (after Chen & Revels 2016)."""
    count = len(samples)
    if not 1 < count <= SMALL_SAMPLE:
        return float(np.quantile(np.asarray(samples, dtype=float), 0.25))
    ordered = sorted(samples)
    place, share = divmod((count - 1) / 4, 1)
    below, above = ordered[int(place)], ordered[int(place) + 1]
    rise = above - below
    return float(below + rise * share if share < 0.5 else above - rise * (1 - share))


def trimmed_mean(samples: ArrayLike) -> float:
    """The mean without the lowest and the highest fifth, the usual share (Wilcox 2012, section 3.3)."""
    ordered = np.sort(np.asarray(samples, dtype=float))
    cut = int(TRIMMED_SHARE * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())


def mad_sigma(values: Floats) -> float:
    """A robust standard deviation around the median; 0 when more than half of the values are equal."""
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def warmup_length(processes: Sequence[Sequence[float]]) -> int:
    """How many leading samples all processes of both sides share as warm-up.

    The sides are cut alike: cutting each by itself would make the cut part of the difference. At most half is
    dropped, and nothing where the processes have unequal lengths or zeros.
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
