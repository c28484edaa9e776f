"""Which rule a series is judged by: the bar of its metric's class, or what the user's tables say instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from perfci.model import Metric, MetricClass, Series
from perfci.verdicts.rule import Rule

BLOCK = 512
"""PyTorch's caching allocator hands out whole blocks of 512 bytes (``kMinBlockSize`` in CUDACachingAllocator)."""

SEGMENT = 2 * 2**20
"""It takes memory from the device in segments of 2 MiB or more (``kSmallBuffer`` there)."""


ANY = re.IGNORECASE | re.DOTALL
"""A name may hold anything, a line break too."""


@dataclass(frozen=True, slots=True)
class ClassRule:
    """How one kind of metric is known, by expressions that fit name and unit in whole, and how it is judged.

    The bar is the user's bar for time, where need be raised to ``at_least`` or lowered to ``at_most``. ``exact_bar`` is
    for values that repeat exactly, where it is another; ``floor`` is in the metric's unit.
    """

    kind: MetricClass
    about: str
    metric: str = r".*"
    unit: str = r".*"
    at_least: float = 0.0
    at_most: float = 1.0
    exact_bar: float | None = None
    floor: float = 0.0

    def fits(self, metric: Metric) -> bool:
        return bool(re.fullmatch(self.metric, metric.name, ANY) and re.fullmatch(self.unit, metric.unit, ANY))

    def rule(self, default: Rule) -> Rule:
        bar = min(max(default.bar, self.at_least), self.at_most)
        about = "" if bar == default.bar and self.exact_bar is None else self.about
        return replace(default, bar=bar, exact_bar=self.exact_bar, floor=self.floor, about=about)


SECONDS = r"(seconds|s|ms|us|ns)(/.*)?"
BYTES = r"(bytes|[kmgt]i?b)"
PER_SECOND = r".*/(s|seconds?)"
COMPUTED = rf"(?!({SECONDS}|{BYTES}|counts?)$).*"  # the time of a loss, or its memory, is no loss
STARTS = r"(.*_)?(compile|compilation|cold|warm_start|startup|import|build|first_output)(_.*)?"

CLASSES: tuple[ClassRule, ...] = (
    # whether it still computes the same, bitwise in one type: torchtitan compares the losses of two commits with
    # assert-equal; a loss that varies between processes has the bar of time
    ClassRule(MetricClass.NUMERICS, "numerics", r"(.*_)?(loss|perplexity|grad_norm)(_.*)?", COMPUTED, exact_bar=0.0),
    ClassRule(MetricClass.NUMERICS, "numerics", r"max_(absolute_|relative_)?error", COMPUTED, exact_bar=0.0),
    # one operator more is a change of the code: what repeats exactly has no noise to allow for (DESIGN 6)
    ClassRule(MetricClass.COUNT, "counts", unit=r"counts?|flops?|instructions", exact_bar=0.0),
    # peaks hardly vary: 5 % even where time is allowed more, and the allocator's own step is no change; what it
    # reserves moves by segments, what it hands out by blocks (study of detection, 6.1); peaks that are counted
    # tensor by tensor know no blocks
    ClassRule(
        MetricClass.MEMORY, "memory", r"(.*_)?(reserved|inactive|pool)(_.*)?", "bytes", at_most=0.05, floor=SEGMENT
    ),
    ClassRule(
        MetricClass.MEMORY,
        "memory",
        r"(.*_)?(peakmem|memory|allocated|requested|rounding|active)(_.*)?",
        "bytes",
        at_most=0.05,
        floor=BLOCK,
    ),
    ClassRule(MetricClass.MEMORY, "memory", unit=BYTES, at_most=0.05),
    # one sample a process, with caches on disk in between: PyTorch's dashboard allows compile latency 15 %
    ClassRule(MetricClass.COMPILE, "compile and start time", STARTS, SECONDS, at_least=0.15),
    # a quantile far out rests on few requests (study of measuring, 6: thresholds by class)
    ClassRule(MetricClass.TAIL, "tails", r"(.*_)?p99?\d(_.*)?", SECONDS, at_least=0.10),
    # attainment moves by whole requests: one in a hundred is no change
    ClassRule(MetricClass.SLA, "SLA attainment", metric=r"(.*_)?sla_attainment", floor=0.01),
    ClassRule(MetricClass.SLA, "goodput", metric=r"(.*_)?goodput"),
    # work over time has the bar of the time in it; which way is good the metric says
    ClassRule(MetricClass.THROUGHPUT, "throughput", unit=PER_SECOND),
    ClassRule(MetricClass.TIME, "time", unit=SECONDS),
    ClassRule(MetricClass.OTHER, "other metrics"),
)
"""The kinds of metrics, the first that fits counts. Whether a value repeats exactly its clock tells, not its name."""


@lru_cache(maxsize=4096)  # thousands of series have a few metrics
def _class_of(metric: Metric) -> ClassRule:
    return next(one for one in CLASSES if one.fits(metric))


@dataclass(frozen=True, slots=True)
class Override:
    """One ``[[policy]]`` of a user: what it leaves out stays as the class has it.

    ``match`` is searched for in the label, cell and metric: ``generation.Gpt.measure_generation(8) · tpot``.
    ``floor_bytes`` is for metrics in bytes and goes before ``floor``, which is in the metric's own unit. A ``bar`` of
    0 is for values that repeat exactly; those that vary keep the bar of their class.
    """

    match: str
    bar: float | None = None
    floor: float | None = None
    floor_bytes: float | None = None
    kind: MetricClass | None = None
    judge: bool = True

    def fits(self, series: Series) -> bool:
        return re.search(self.match, series.label) is not None

    def rule(self, found: Rule, default: Rule, series: Series) -> Rule:
        floor = self.floor_bytes if self.floor_bytes is not None and series.metric.unit == "bytes" else self.floor
        changed = found if floor is None else replace(found, floor=floor)
        if self.bar is None:
            return changed
        about = "" if self.bar == default.bar else f"the policy {self.match!r}"
        return replace(changed, bar=self.bar or found.bar, exact_bar=None if self.bar else 0.0, about=about)


@dataclass(frozen=True, slots=True)
class Policy:
    """The rule of every series: the user's first table that matches speaks, else the class of the metric alone."""

    default: Rule = field(default_factory=Rule)
    overrides: Sequence[Override] = ()

    def rule_for(self, series: Series) -> Rule:
        override = self._override(series)
        found = self._class(series, override).rule(self.default)
        return override.rule(found, self.default, series) if override else found

    def class_of(self, series: Series) -> MetricClass:
        return self._class(series, self._override(series)).kind

    def judges(self, series: Series) -> bool:
        """Whether a verdict is wanted at all; what is not judged is still measured and shown."""
        override = self._override(series)
        return override is None or override.judge

    def _override(self, series: Series) -> Override | None:
        return next((one for one in self.overrides if one.fits(series)), None)

    def _class(self, series: Series, override: Override | None) -> ClassRule:
        fitting = _class_of(series.metric)
        if override is None or override.kind in (None, fitting.kind):
            return fitting
        return next(one for one in reversed(CLASSES) if one.kind is override.kind)
