"""What is known of a benchmark's noise before its own pairs say enough: from the others, and from its own past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scipy.special import fdtrc

from perfci.model import MetricClass
from perfci.stats import noise_model
from perfci.stats.location_shift import Prior, Shift

PRIOR_DF = 8.0
"""What a known standard deviation of a pair is worth: eight more pairs, so fresh pairs can still overrule it."""

ENOUGH_EQUALS = 3
"""Comparisons of equals that make a past: ``noise.fit_prior`` learns nothing from fewer values either."""

SURPRISE = 0.05
"""Noise this unlikely under what the past says is another noise, and the past is silent: the usual level."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The variance of one pair's log ratio as its own pairs show it, and as comparisons of equals did before."""

    kind: MetricClass
    variance: float
    df: float
    past: float | None = None
    equals: int = 0

    @classmethod
    def of(cls, kind: MetricClass, shift: Shift, equals: Sequence[tuple[float, int]] = ()) -> Spread | None:
        """None where one pair has no error; ``equals`` are the log ratios of comparisons of equals with their pairs.

        The true log ratio of equals is 0, so each is an observation of the variance by itself.
        """
        variance = shift.error**2 * shift.pairs
        if shift.df <= 0 or not 0 < variance < float("inf"):
            return None
        known = len(equals) >= ENOUGH_EQUALS
        past = sum(ratio**2 * pairs for ratio, pairs in equals) / len(equals) if known else 0.0
        return cls(kind, variance, shift.df, past or None, len(equals) if past else 0)


def lent(spreads: Mapping[Any, Spread], key: object) -> Prior | None:
    """The prior of one benchmark from all that are measured beside it, itself included (Smyth 2004).

    Those of one kind of metric are a family. Where three of a family have a past, what they lend is how today's noise
    compares with it, so that each is shrunk towards its own past on today's machine: a prior that depends on a
    covariate, as in limma's trend (Law et al. 2014). With no family the past speaks alone, unless today plainly
    differs from it.
    """
    own = spreads.get(key)
    if own is None:
        return None
    family = [one for one in spreads.values() if one.kind is own.kind]
    with_a_past = [one for one in family if one.past is not None]
    if own.past is not None and (
        scaled := _fit(with_a_past, [one.variance / one.past for one in with_a_past if one.past])
    ):
        return Prior(scaled.sd * own.past**0.5, scaled.df)
    return _fit(family, [one.variance for one in family]) or _of_the_past(own)


def _fit(family: Sequence[Spread], variances: Sequence[float]) -> Prior | None:
    return noise_model.fit_prior(variances, median(one.df for one in family)) if family else None


def _of_the_past(own: Spread) -> Prior | None:
    """What equals showed, by as many observations as there were; an outlier of a variance is left to itself, as in
    the robust version of Phipson et al. (2016).
    """
    if not own.past or _probability_of_more(own.variance / own.past, own.df, own.equals) < SURPRISE:
        return None
    return Prior(own.past**0.5, min(float(own.equals), PRIOR_DF))


def _probability_of_more(ratio: float, df: float, past_df: int) -> float:
    """How likely a ratio of two variances is to be larger by chance, by the F distribution."""
    return float(fdtrc(df, past_df, ratio))
