"""The rule of a comparison: the bar a change must pass and the pairs it may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from perfci.model import Series, VerdictKind

MOVE_KINDS = (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT)
"""Verdicts that say that something changed."""

ROUNDING_TOLERANCE = 1e-9
"""Relative rounding error of a ratio: a difference of exactly the bar, or the floor, falls on its
own side."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The bar a change must pass, and the pairs that may be spent on deciding.

    ``strict`` demands the whole interval beyond the bar instead of half of it. ``looks`` are the
    numbers of pairs at which a comparison may stop. ``exact_bar`` is the bar of values that repeat
    exactly, where it differs (0: any change counts). ``floor`` is a difference in the metric's unit
    up to which nothing changed. ``subject`` names in a reason what has this bar.
    """

    bar: float = 0.05
    strict: bool = False
    max_pairs: int = 20
    looks: tuple[int, ...] = tuple(range(5, 21))
    exact_bar: float | None = None
    floor: float = 0.0
    subject: str = ""

    @property
    def effective_exact_bar(self) -> float:
        """Bar of values that repeat exactly."""
        return self.bar if self.exact_bar is None else self.exact_bar

    @property
    def planned_looks(self) -> list[int]:
        """Looks up to the cap; beyond the listed ones each has a tenth more pairs."""
        looks = sorted({min(look, self.max_pairs) for look in self.looks})
        while looks[-1] < self.max_pairs:
            looks.append(min(looks[-1] + max(looks[-1] // 10, 1), self.max_pairs))
        return looks

    @property
    def subject_phrase(self) -> str:
        """The subject as part of a sentence, or nothing."""
        return f" for {self.subject}" if self.subject else ""

    def raise_bar_to_floor(self, level: float | None) -> Rule:
        """The rule at a known level, where the floor is a share that the bar may not fall below."""
        share = self.floor * (1 + 2 * ROUNDING_TOLERANCE) / level if level is not None and level > 0 else 0.0
        if share <= min(self.bar, self.effective_exact_bar):
            return self
        exact_bar = self.exact_bar if self.exact_bar is None else max(self.exact_bar, share)
        subject = f"{self.subject or 'this metric'}, which is its floor of {self.floor:,.10g}"
        return replace(self, bar=max(self.bar, share), exact_bar=exact_bar, subject=subject)


RuleLookup = Callable[[Series], Rule]
"""Returns the rule that applies to a series."""


def default_rule(series: Series) -> Rule:
    """The plain rule, whatever the series: the default of every ``rules`` parameter."""
    return Rule()
