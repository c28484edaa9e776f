"""Shift of a few new runs against recent ones, by the noise that lies between runs.

Runs are taken at different times, so nothing cancels what a day or a machine does to one of them: it is
part of the noise, which the recent runs show. With the log levels x_1 .. x_n of recent runs and y_1 .. y_m
of new ones, the new runs lie around the old ones by

    mean(y) - mean(x)  +-  t(df)  s  sqrt(v(n) + v(m)),      s^2 = SS / (n (1 - v(n)) + m (1 - v(m)))

with SS the squares around the mean of either side and v(k) the variance of a mean of k runs over that of
one. Where successive runs are independent, v(k) = 1 / k and this is Student's interval with pooled variance;
with m = 1 it is the prediction interval of one new observation (Hahn & Meeker 1991, *Statistical Intervals*).
Where successive runs resemble each other by r, v(k) is that of an AR(1) process (Bayley & Hammersley 1946),
and df = n + m - 2 is reduced by (1 - r^2) / (1 + r^2), what a variance loses by it (Bartlett 1946): several
runs of one afternoon then say little more than one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from perfci.stats.autocorrelation import correct_autocorrelation_bias, mean_variance_ratio
from perfci.stats.location_estimates import Floats
from perfci.stats.location_shift import LEVEL_RESOLUTION, Shift, level_resolution

MIN_BASE_RUNS = 8
"""Recent runs from which their noise is known well enough: with seven degrees of freedom, a 95 % interval
is a fifth wider than with very many."""

MAX_CORRELATION = 0.9
"""Cap of the correlation of successive runs."""

MAX_RUNS_TO_DECIDE = 50
"""Further runs of the head worth suggesting."""

LogLevels = Sequence[Sequence[float]]
"""The log level of each upload of each run, in the order of time."""


@dataclass(frozen=True, slots=True)
class RunNoise:
    """Variance of the log level of one run, and by how much successive runs resemble each other.

    ``upload_variance`` is that of uploads within a run, of which recent runs had ``uploads`` (a harmonic
    mean); ``resolution`` is the standard deviation of reading a coarse clock.
    """

    variance: float
    correlation: float
    upload_variance: float
    uploads: float
    resolution: float

    def error_of_shift(self, base_runs: int, head_uploads: Sequence[int]) -> float:
        """Standard error of the shift of new runs, given by their numbers of uploads.

        A new run of fewer uploads than usual is noisier by s_u^2 (1 / k - 1 / usual); one of more is not
        quieter, since what its uploads share is not known from them.
        """
        runs = len(head_uploads)
        ratios = sum(mean_variance_ratio(count, self.correlation) for count in (base_runs, runs))
        fewer = sum(max(1 / uploads - 1 / self.uploads, 0.0) for uploads in head_uploads)
        error = math.sqrt(self.variance * ratios + self.upload_variance * fewer / runs**2)
        coarse = math.sqrt(2) * self.resolution if self.resolution > LEVEL_RESOLUTION else 0.0
        return math.hypot(error, coarse)

    def degrees_of_freedom(self, base_runs: int, head_runs: int) -> float:
        """Degrees of freedom of the variance."""
        squared = self.correlation**2
        return (base_runs + head_runs - 2) * (1 - squared) / (1 + squared)

    def runs_to_decide(
        self, base_runs: int, head_uploads: Sequence[int], max_half_width: float
    ) -> int | None:
        """Further runs of the head that would probably narrow half the interval to ``max_half_width``; None
        where no reasonable number would."""
        for more in range(1, MAX_RUNS_TO_DECIDE + 1):
            uploads = [*head_uploads, *[max(head_uploads)] * more]
            df = self.degrees_of_freedom(base_runs, len(uploads))
            if float(stdtrit(df, 0.975)) * self.error_of_shift(base_runs, uploads) < max_half_width:
                return more
        return None


def estimate_shift_between_runs(base: LogLevels, head: LogLevels) -> tuple[Shift, RunNoise]:
    """Estimate the shift of new runs against recent ones, at least two, and the noise of a run.

    A move needs the shift of Hodges & Lehmann (1963) as well, the median of all differences.
    """
    before, after = (np.array([float(np.mean(run)) for run in side]) for side in (base, head))
    noise = _estimate_run_noise(base, before, after)
    shift = Shift(
        centre=float(after.mean() - before.mean()),
        error=noise.error_of_shift(len(base), [len(run) for run in head]),
        df=noise.degrees_of_freedom(len(base), len(head)),
        pairs=len(head),
        rank_centre=float(np.median(np.subtract.outer(after, before))),
    )
    return shift, noise


def are_runs_apart(base: LogLevels, head: LogLevels) -> bool:
    """Whether more than half of the new runs lie beyond all recent ones, on one side.

    By chance a single one does so on either side in 1 / (n + 1) of cases, whatever the noise is like: with
    heavy tails or several modes the recent runs show how far out a run may lie, of which their variance says
    little.
    """
    before, after = ([float(np.mean(run)) for run in side] for side in (base, head))
    above = sum(level > max(before) for level in after)
    below = sum(level < min(before) for level in after)
    return 2 * max(above, below) > len(after)


def _estimate_run_noise(base: LogLevels, before: Floats, after: Floats) -> RunNoise:
    correlation = _estimate_correlation(before)
    squares, weight = 0.0, 0.0
    for side in (before, after):
        squares += float(((side - side.mean()) ** 2).sum())
        weight += len(side) * (1 - mean_variance_ratio(len(side), correlation))
    resolution = level_resolution(before, after)
    within, repeats = 0.0, 0
    for run in base:
        within += float(((np.array(run) - np.mean(run)) ** 2).sum())
        repeats += len(run) - 1
    return RunNoise(
        variance=max(squares / weight, resolution**2),
        correlation=correlation,
        upload_variance=within / repeats if repeats else 0.0,
        uploads=len(base) / sum(1 / len(run) for run in base),
        resolution=resolution,
    )


def _estimate_correlation(levels: Floats) -> float:
    """Lag-1 correlation of successive runs, 0 or more."""
    residuals = levels - levels.mean()
    squares = float(residuals @ residuals)
    if squares <= 0:
        return 0.0
    r = float(residuals[1:] @ residuals[:-1]) / squares
    return min(max(correct_autocorrelation_bias(r, len(levels), 1, 4), 0.0), MAX_CORRELATION)
