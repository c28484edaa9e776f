"""Noise priors of a comparison, from A/A runs and from the pairs measured so far."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from perfci.model import MetricClass, Series
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.store import Store
from perfci.store.verdict_decision_records import AAResult, load_aa_results_by_series, load_latest_verdict_id
from perfci.verdicts.compare.noise_prior import PairNoise, pooled_noise_prior


@dataclass
class PooledComparisonNoise:
    """The noise known while pairs are measured: from A/A runs, and from the pairs of all compared series.

    ``aa_verdicts_until`` is the id of the newest verdict when ``aa_results`` were loaded. A replay loads
    the A/A runs up to the same id.
    """

    aa_verdicts_until: int = 0
    aa_results: Mapping[Series, Sequence[AAResult]] = field(default_factory=dict)
    spreads: dict[Hashable, PairNoise] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, project: str) -> PooledComparisonNoise:
        """Read the A/A runs of a project."""
        with store.read() as tx:
            newest = load_latest_verdict_id(tx)
            return cls(newest, load_aa_results_by_series(tx, project, newest))

    def get_aa_results(self, series: Series) -> Sequence[AAResult]:
        """The A/A runs of a series."""
        return self.aa_results.get(series, ())

    def add_spread(
        self, key: Hashable, metric_class: MetricClass, series: Series, unpooled_shift: Shift | None
    ) -> None:
        """Add the spread of one question's own pairs to the pool."""
        if unpooled_shift is None:
            return
        spread = PairNoise.from_shift(metric_class, unpooled_shift, self.aa_results.get(series, ()))
        if spread is not None:
            self.spreads[key] = spread

    def get_pooled_prior(self, key: Hashable) -> NoisePrior | None:
        """The prior pooled over all spreads, for the question of ``key``."""
        return pooled_noise_prior(self.spreads, key)
