"""Judging policy: the rule of a series, by the class of its metric or a ``[[policy]]`` table of the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from perfci.model import Metric, MetricClass, Series
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.related_metrics import EXPLAINING_COUNTS, metric_name_without_clock

ALLOCATOR_BLOCK_BYTES = 512
"""Block size of PyTorch's caching allocator (``kMinBlockSize`` in CUDACachingAllocator)."""

ALLOCATOR_SEGMENT_BYTES = 2 * 2**20
"""Smallest segment it takes from the device (``kSmallBuffer`` in CUDACachingAllocator)."""


MATCH_FLAGS = re.IGNORECASE | re.DOTALL
"""A name may hold anything, a line break too."""


@dataclass(frozen=True, slots=True)
class MetricClassRule:
    """How a class of metrics is recognised, by expressions that match name and unit in full, and
    judged.

    The bar is the user's bar for time, raised to ``min_bar`` or lowered to ``max_bar``.
    ``exact_bar`` is for values that repeat exactly, where it differs; ``floor`` is in the metric's
    unit.
    """

    metric_class: MetricClass
    subject: str
    name_pattern: str = r".*"
    unit_pattern: str = r".*"
    min_bar: float = 0.0
    max_bar: float = 1.0
    exact_bar: float | None = None
    floor: float = 0.0


SECONDS_UNIT = r"(seconds|s|ms|us|ns)(/.*)?"
BYTES_UNIT = r"(bytes|[kmgt]i?b)"
RATE_UNIT = r".*/(s|seconds?)"
# the time of a loss, or its memory, is no loss
NUMERICS_UNIT = rf"(?!({SECONDS_UNIT}|{BYTES_UNIT}|counts?)$).*"
STARTUP_METRIC = r"(.*_)?(compile|compilation|cold|warm_start|startup|import|build|first_output)(_.*)?"

CLASS_RULES: tuple[MetricClassRule, ...] = (
    # Whether it still computes the same, bitwise in one type: torchtitan compares the losses of two
    # commits with assert-equal. A loss that varies between processes has the bar of time.
    MetricClassRule(
        MetricClass.NUMERICS,
        "numerics",
        r"(.*_)?(loss|perplexity|grad_norm)(_.*)?|max_(absolute_|relative_)?error",
        NUMERICS_UNIT,
        exact_bar=0.0,
    ),
    # One operator more is a change of the code: what repeats exactly has no noise.
    MetricClassRule(MetricClass.COUNT, "counts", unit_pattern=r"counts?|flops?|instructions", exact_bar=0.0),
    # Peaks hardly vary: 5 % even where time is allowed more, and the allocator's own step is no change.
    # What it reserves moves by segments, what it hands out by blocks; peaks that are counted tensor by
    # tensor have no blocks.
    MetricClassRule(
        MetricClass.MEMORY,
        "memory",
        r"(.*_)?(reserved|inactive|pool)(_.*)?",
        "bytes",
        max_bar=0.05,
        floor=ALLOCATOR_SEGMENT_BYTES,
    ),
    MetricClassRule(
        MetricClass.MEMORY,
        "memory",
        r"(.*_)?(peakmem|memory|allocated|requested|rounding|active)(_.*)?",
        "bytes",
        max_bar=0.05,
        floor=ALLOCATOR_BLOCK_BYTES,
    ),
    MetricClassRule(MetricClass.MEMORY, "memory", unit_pattern=BYTES_UNIT, max_bar=0.05),
    # one sample a process, with caches on disk in between: PyTorch's dashboard allows compile latency 15 %
    MetricClassRule(
        MetricClass.COMPILE, "compile and start time", STARTUP_METRIC, SECONDS_UNIT, min_bar=0.15
    ),
    # a quantile far out rests on few requests
    MetricClassRule(MetricClass.TAIL, "tails", r"(.*_)?p99?\d(_.*)?", SECONDS_UNIT, min_bar=0.10),
    # attainment moves by whole requests: one in a hundred is no change
    MetricClassRule(MetricClass.SLA, "SLA attainment", name_pattern=r"(.*_)?sla_attainment", floor=0.01),
    MetricClassRule(MetricClass.SLA, "goodput", name_pattern=r"(.*_)?goodput"),
    # work over time has the bar of the time in it; which way is good the metric says
    MetricClassRule(MetricClass.THROUGHPUT, "throughput", unit_pattern=RATE_UNIT),
    MetricClassRule(MetricClass.TIME, "time", unit_pattern=SECONDS_UNIT),
    MetricClassRule(MetricClass.OTHER, "other metrics"),
)
"""Classes of metrics; the first that matches applies. The clock, not the name, decides whether a
value repeats exactly."""


@lru_cache(maxsize=4096)  # thousands of series have a few metrics
def _find_class_rule(metric: Metric) -> MetricClassRule:
    return next(
        class_rule
        for class_rule in CLASS_RULES
        if re.fullmatch(class_rule.name_pattern, metric.name, MATCH_FLAGS)
        and re.fullmatch(class_rule.unit_pattern, metric.unit, MATCH_FLAGS)
    )


def compute_class_bar(default: Rule, class_rule: MetricClassRule) -> float:
    """The bar of a class of metrics: that of time, within the limits of the class."""
    return min(max(default.bar, class_rule.min_bar), class_rule.max_bar)


@dataclass(frozen=True, slots=True)
class PolicyOverride:
    """One ``[[policy]]`` table; what it leaves out stays as the class has it.

    ``match`` is searched for in cell and metric: ``generation.Gpt.measure_generation(8) · tpot``.
    ``floor_bytes`` is for metrics in bytes and precedes ``floor``, which is in the metric's own
    unit. A ``bar`` of 0 is for values that repeat exactly; those that vary keep the bar of their
    class.
    """

    match: str
    bar: float | None = None
    floor: float | None = None
    floor_bytes: float | None = None
    metric_class: MetricClass | None = None
    judge: bool = True
    gate: bool | None = None

    def override_rule(self, class_rule: Rule, default: Rule, series: Series) -> Rule:
        """The rule of the class with what the table sets."""
        floor = (
            self.floor_bytes if self.floor_bytes is not None and series.metric.unit == "bytes" else self.floor
        )
        rule = class_rule if floor is None else replace(class_rule, floor=floor)
        if self.bar is None:
            return rule
        subject = "" if self.bar == default.bar else f"the policy {self.match!r}"
        return replace(
            rule, bar=self.bar or class_rule.bar, exact_bar=None if self.bar else 0.0, subject=subject
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """The rule of every series: the first matching table of the user, else the class of the metric."""

    default: Rule = field(default_factory=Rule)
    overrides: Sequence[PolicyOverride] = ()

    def rule_for(self, series: Series) -> Rule:
        """The rule of a series: the default one with the bar of its class, and what its table sets."""
        override, class_rule = self._match(series)
        default = self.default
        bar = compute_class_bar(default, class_rule)
        is_default = bar == default.bar and class_rule.exact_bar is None
        rule = replace(
            default,
            bar=bar,
            exact_bar=class_rule.exact_bar,
            floor=class_rule.floor,
            subject="" if is_default else class_rule.subject,
        )
        return override.override_rule(rule, default, series) if override else rule

    def metric_class_of(self, series: Series) -> MetricClass:
        """The metric class of a series."""
        return self._match(series)[1].metric_class

    def is_judged(self, series: Series) -> bool:
        """Whether the series gets a verdict; others are still measured and shown."""
        override = self._match(series)[0]
        return override is None or override.judge

    def is_gating(self, series: Series) -> bool:
        """Whether a change of the series may fail a check or page somebody; others explain what does."""
        override = self._match(series)[0]
        if override is not None and override.gate is not None:
            return override.gate
        return metric_name_without_clock(series) not in EXPLAINING_COUNTS

    def _match(self, series: Series) -> tuple[PolicyOverride | None, MetricClassRule]:
        """The first table whose expression is found in the label of a series, and the rule of its class."""
        override = next((table for table in self.overrides if re.search(table.match, series.label)), None)
        class_rule = _find_class_rule(series.metric)
        if override is None or override.metric_class in (None, class_rule.metric_class):
            return override, class_rule
        widest = next(rule for rule in reversed(CLASS_RULES) if rule.metric_class is override.metric_class)
        return override, widest
