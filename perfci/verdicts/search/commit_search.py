"""Search a range of commits for the one that moved a level: what to measure next, and when to name it.

Where the first commit cannot be measured, the first one that can is found by bisection. Then three stages.
The ends of the range are measured in turns until it is clear that they differ, or that they do not. Then the
commit that tells most is measured, one process at a time, until one commit has 95 % of the posterior. Then
that commit and the one before it are measured in turns: they have to differ on these fresh processes too,
which were not what made them the candidates. So a level that creeps names nobody.

What is next follows from what was recorded, in its order, and from the costs, and from nothing else: a search
that was interrupted goes on from its stored processes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from perfci.stats.change_location import ChangeLocation, Contrast, Observation, StepSize, compare_two_commits


class SearchOutcome(StrEnum):
    """How a search ended."""

    NAMED = "named"  # one commit
    NARROWED = "narrowed"  # a range: what is between cannot be measured, or the budget is spent
    UNCONFIRMED = "unconfirmed"  # a candidate that its fresh processes neither confirm nor refute
    SPREAD = "spread"  # no single commit moved the level by a third of the difference
    NO_DIFFERENCE = "no_difference"  # the ends of the range do not differ


@dataclass(frozen=True, slots=True)
class SearchRules:
    """When a search is certain; ``max_processes`` bounds what it measures."""

    certainty: float = 0.95
    min_end_processes: int = 3
    max_end_processes: int = 24
    min_checks: int = 3
    min_checks_to_refute: int = 6
    check_certainty: float = 0.85
    ends_equal_prior: float = 0.3
    max_processes: int = 160


@dataclass(frozen=True, slots=True)
class SearchConclusion:
    """The level moved between ``first``, which has the old one, and ``last``, with this probability.

    ``size`` is of the step, or of the difference between the ends where no step is in sight.
    """

    outcome: SearchOutcome
    first: int
    last: int
    probability: float
    size: StepSize


@dataclass
class CommitSearch:
    """A search among commits 1 to ``head``; 0 is the last good one."""

    head: int
    rules: SearchRules = field(default_factory=SearchRules)
    observations: list[Observation] = field(default_factory=list)
    unmeasurable: set[int] = field(default_factory=set)
    _location: ChangeLocation | None = None
    conclusion: SearchConclusion | None = None
    """What was found, None while the search goes on."""
    _checks: dict[tuple[int, int], int] = field(default_factory=dict)
    """From which observation on the two ends of a candidate step are checked."""

    def record(self, position: int, level: float) -> None:
        """Take in the log level of a process."""
        observation = Observation(position, level)
        self.observations.append(observation)
        if self._location:
            self._location.add(self._shift(observation))
        self._enter_next_stage()

    def exclude(self, position: int) -> None:
        """Leave out a commit that cannot be measured.

        Raises:
            ValueError: The last commit has to be measurable.
        """
        if position == self.head:
            raise ValueError("the last commit of the range has to be measurable")
        self.unmeasurable.add(position)
        self._enter_next_stage()

    def end(self) -> None:
        """Conclude from what is known, as if the processes were spent; nothing where the ends were not
        compared.
        """
        self.rules = replace(self.rules, max_processes=len(self.observations))
        self.conclusion = self.conclusion or self._conclude()

    def choose_next(self, costs: Mapping[int, float]) -> int | None:
        """The commit whose process is next, None when the search is over.

        ``costs`` are those of one process of each commit, in any one unit; what is missing costs 1.
        """
        if self.conclusion:
            return None
        if self.base is None:
            return self._probe_for_base()
        if self._location is None:
            return self._alternate(self.base, self.head, self.observations)
        if candidate := self._candidate:
            return self._alternate(*candidate, self.observations[self._checks[candidate] :])
        costs_by_shifted = {position - self.base: costs.get(position, 1.0) for position in self._measurable}
        return self.base + self._location.choose_next(costs_by_shifted)

    @property
    def base(self) -> int | None:
        """The first commit that can be measured, None while it is not clear which one that is."""
        if 0 not in self.unmeasurable:
            return 0
        last_failed, first_measured = self._bounds_of_base()
        return first_measured if first_measured - last_failed == 1 else None

    @property
    def probabilities(self) -> Sequence[float]:
        """The probability of each commit to have moved the level."""
        if self._location is None:
            return [0.0] + [1 / self.head] * self.head
        before = self.head - self._location.head
        return [0.0] * before + [float(item) for item in self._location.probabilities]

    # ------------------------------------------------------------------ stages

    def _enter_next_stage(self) -> None:
        """Begin to search, or to check a candidate, where what was recorded asks for it."""
        base = self.base
        if self._location is None and base is not None and self._do_ends_differ(base):
            shifted = [self._shift(item) for item in self.observations]
            self._location = ChangeLocation(self.head - base, shifted)
        if candidate := self._candidate:
            self._checks.setdefault(candidate, len(self.observations))
        self.conclusion = self._conclude()

    def _bounds_of_base(self) -> tuple[int, int]:
        """The last commit known not to be measurable before the first known one that is, and that one."""
        first_measured = min((item.position for item in self.observations), default=self.head)
        return max(p for p in self.unmeasurable if p < first_measured), first_measured

    def _probe_for_base(self) -> int:
        if not self.observations:
            return self.head
        last_failed, first_measured = self._bounds_of_base()
        return (last_failed + first_measured) // 2

    def _shift(self, observation: Observation) -> Observation:
        return replace(observation, position=observation.position - (self.base or 0))

    @property
    def _measurable(self) -> list[int]:
        return [p for p in range(self.base or 0, self.head + 1) if p not in self.unmeasurable]

    @property
    def _candidate(self) -> tuple[int, int] | None:
        """The neighbours between which the step is, where that is certain enough.

        What cannot be measured divides nothing: neighbours are measurable ones.
        """
        if self._location is None:
            return None
        first, last, probability = self._likeliest_range()
        return (first, last) if probability >= self.rules.certainty else None

    def _likeliest_range(self) -> tuple[int, int, float]:
        """The likeliest range that no measurable commit divides: last good, first bad, how likely."""
        probabilities = self.probabilities
        ranges = [
            (first, last, sum(probabilities[first + 1 : last + 1]))
            for first, last in itertools.pairwise(self._measurable)
        ]
        return max(ranges, key=lambda item: item[2])

    def _alternate(self, first: int, last: int, recorded: Sequence[Observation]) -> int:
        """The one of two commits that is next, in the order A B B A."""
        count = sum(self._count(first, last, recorded))
        return (first, last, last, first)[count % 4]

    @staticmethod
    def _count(first: int, last: int, recorded: Sequence[Observation]) -> tuple[int, int]:
        positions = [item.position for item in recorded]
        return positions.count(first), positions.count(last)

    # ------------------------------------------------------------------ conclusions

    def _conclude(self) -> SearchConclusion | None:
        if self._location is not None:
            return self._conclude_search(self._location)
        return None if self.base is None else self._conclude_ends(self.base)

    def _are_ends_measured(self, base: int) -> bool:
        return min(self._count(base, self.head, self.observations)) >= self.rules.min_end_processes

    def _do_ends_differ(self, base: int) -> bool:
        return self._are_ends_measured(base) and self._compare_ends(base).probability >= self.rules.certainty

    def _compare_ends(self, base: int) -> Contrast:
        return compare_two_commits(self.observations, base, self.head, no_step=self.rules.ends_equal_prior)

    def _conclude_ends(self, base: int) -> SearchConclusion | None:
        if not self._are_ends_measured(base):
            return None
        spent = min(self._count(base, self.head, self.observations)) >= self.rules.max_end_processes
        differ = self._compare_ends(base).probability
        return self._conclude_no_difference(base) if spent or differ <= 1 - self.rules.certainty else None

    def _conclude_no_difference(self, base: int) -> SearchConclusion:
        ends = self._compare_ends(base)
        equal = 1 - ends.probability
        return SearchConclusion(SearchOutcome.NO_DIFFERENCE, base, self.head, equal, ends.size)

    def _conclude_search(self, location: ChangeLocation) -> SearchConclusion | None:
        spent = len(self.observations) >= self.rules.max_processes
        if candidate := self._candidate:
            return self._conclude_check(location, *candidate, spent=spent)
        if not spent:
            return None
        base = self.base or 0
        if not self._do_ends_differ(base):
            return self._conclude_no_difference(base)
        return self._conclude_smallest_range(location)

    def _conclude_check(
        self, location: ChangeLocation, first: int, last: int, *, spent: bool
    ) -> SearchConclusion | None:
        probability = self._likeliest_range()[2]
        checked = self.observations[self._checks[first, last] :]
        checks = min(self._count(first, last, checked))
        if checks >= self.rules.min_checks:
            check = compare_two_commits(checked, first, last, least_size=self._least_step(location))
            if check.probability >= self.rules.check_certainty:
                outcome = SearchOutcome.NAMED if last - first == 1 else SearchOutcome.NARROWED
                return SearchConclusion(outcome, first, last, probability, location.size)
            refuted = check.probability <= 1 - self.rules.certainty
            if refuted and checks >= self.rules.min_checks_to_refute:
                base = self.base or 0
                size = self._compare_ends(base).size
                return SearchConclusion(SearchOutcome.SPREAD, base, self.head, 1.0, size)
        if spent:
            return SearchConclusion(SearchOutcome.UNCONFIRMED, first, last, probability, location.size)
        return None

    def _least_step(self, location: ChangeLocation) -> float:
        """What one commit has to explain: a third of the difference between the ends, and of the step."""
        step, difference = location.size.median, self._compare_ends(self.base or 0).size.median
        return math.copysign(max(abs(step), abs(difference)) / 3, step)

    def _conclude_smallest_range(self, location: ChangeLocation) -> SearchConclusion:
        """The shortest range of commits that has the wanted probability."""
        cumulative = list(itertools.accumulate(self.probabilities))
        ranges = [(0, self.head)]
        for first in range(self.head):
            wanted = cumulative[first] + self.rules.certainty
            last = next((p for p in range(first + 1, self.head + 1) if cumulative[p] >= wanted), None)
            if last is not None:
                ranges.append((first, last))
        first, last = min(ranges, key=lambda item: item[1] - item[0])
        probability = cumulative[last] - cumulative[first]
        return SearchConclusion(SearchOutcome.NARROWED, first, last, probability, location.size)
