"""Page budget: which incidents page somebody within a week's budget; expected ones and the rest are listed.

Two questions are asked of an incident, and either pages.

Does the history show it? Every commit boundary is one hypothesis, "nothing moved here in any
series", so an incident's p-value is the smallest of its members times the number of series
(Bonferroni). The hypotheses of a week are tested in order of arrival by LORD++ (Ramdas, Yang,
Wainwright & Jordan 2017, "Online control of the false discovery rate with decaying memory"), which
holds the expected share of false pages below alpha = ``FALSE_PAGE_RATE`` each week. With the first
discoveries at t1 < t2 < ..., the t-th is tested at

    W0 g(t) + (alpha - W0) g(t - t1) + alpha (g(t - t2) + g(t - t3) + ...),

where W0 = alpha / 2 and g(k) = k^-1.6 / zeta(1.6) for k > 0, else 0, which sums to one.

Do fresh pairs confirm it? They are a question of their own, asked about a few boundaries only: all
p-values on fresh pairs of the week's commits, up to those that confirmed the incident, are tested by
Benjamini & Hochberg (1995) at ``FALSE_DISCOVERY_RATE``. Those above ``DISCARDING_LEVEL`` are left
out, or a week with many refuted steps would confirm none (Zhao, Small & Su 2019, "Multiple testing
when many p-values are uniformly conservative"): of nulls that are left, a p-value below x has the
probability x / level, so the share of false confirmations is at most 1 % / level = 2 %. Pairs add
evidence and never take any: pairs of the same or of other commits that come later change nothing.

A page is never taken back by later incidents. Expected changes spend no page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from scipy.special import zeta

from perfci.model import ChangePoint, Incident, IncidentKind, PairTest
from perfci.stats.multiple_comparisons import benjamini_hochberg
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE
from perfci.verdicts.expected_change import MergedExpectedChange
from perfci.verdicts.incidents.incident_builder import is_provisional
from perfci.verdicts.incidents.step_causes import HistoryContext

FALSE_PAGE_RATE = 0.05
"""One page in twenty may be false, the usual false-discovery rate."""

FIRST_WEALTH = FALSE_PAGE_RATE / 2
"""What is spent before the first page, W0: half, as in the paper."""

DECAY = 1.6
"""Exponent of the levels of LORD++ (Ramdas et al. 2018, "SAFFRON", who use it for both)."""

DISCARDING_LEVEL = 0.5
"""Fresh pairs with a larger p-value speak against a change, so they are no candidates."""

DEFAULT_PAGES_PER_WEEK = 5
"""One a working day. In twelve months MongoDB's teams acted on 80 changes, fewer than two a week
(ICPE 2020)."""

PAGING_KINDS = frozenset({IncidentKind.REGRESSION, IncidentKind.MIXED})
"""Kinds that page a person; an improvement is good news, and reading a commit repairs no driver."""

UNDATED_WEEK = ""
"""Week of incidents that were never dated."""


class Disposition(StrEnum):
    """What is done about an incident."""

    PAGE = "page"
    HELD_BACK = "held_back"  # the budget of its week was spent on stronger or earlier ones
    TOO_WEAK = "weak"  # so much evidence is to be expected by chance, with so many series
    WAITING = "waiting"  # for a third point or fresh pairs
    NOTE = "note"  # asks for nobody


@dataclass(frozen=True, slots=True)
class ExpectedChangeMatch:
    """Expected changes of one commit that name regressions of an incident; ``exceeding`` are those
    they do not allow."""

    merged: tuple[MergedExpectedChange, ...]
    exceeding: tuple[ChangePoint, ...] = ()

    @property
    def covers_all(self) -> bool:
        """Whether all that got worse was expected, and by that much."""
        return not self.exceeding


@dataclass(frozen=True, slots=True)
class BudgetedIncident:
    """An incident with its disposition, its week, its number among that week's pages, and the
    expected changes it matches."""

    incident: Incident
    disposition: Disposition
    week: str = UNDATED_WEEK
    page_number: int = 0
    expected_change_match: ExpectedChangeMatch | None = None

    @property
    def needs_attention(self) -> bool:
        """Whether a person is still needed."""
        return self.disposition is Disposition.PAGE and self.incident.ongoing and not self.is_expected

    @property
    def is_expected(self) -> bool:
        """Whether all that got worse was expected."""
        return self.expected_change_match is not None and self.expected_change_match.covers_all


def apply_paging_budget(
    incidents: Sequence[Incident],
    commit_ranks: Mapping[str, int],
    *,
    series_count: int,
    pages_per_week: int = DEFAULT_PAGES_PER_WEEK,
    expected_change_matches: Mapping[str, ExpectedChangeMatch] | None = None,
) -> list[BudgetedIncident]:
    """Disposition of each incident, in the order given.

    ``commit_ranks`` numbers each commit among those measured in its week, from one;
    ``expected_change_matches`` are by incident id.
    """
    matches = expected_change_matches or {}
    by_week: dict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        week = UNDATED_WEEK if incident.measured_at is None else incident.measured_at.strftime("%G-W%V")
        by_week[week].append(incident)
    decisions: dict[str, BudgetedIncident] = {}
    for week, of_week in by_week.items():
        ranks = {
            incident.id: commit_ranks.get(incident.commit, len(commit_ranks) + 1) for incident in of_week
        }
        tests = [test for incident in of_week for test in incident.pair_tests]
        budget = _WeekBudget(series_count, pages_per_week, tests)
        strongest_first = sorted(of_week, key=lambda item: (item.p_value, -len(item.members), item.id))
        for incident in sorted(strongest_first, key=lambda item: ranks[item.id]):
            match = matches.get(incident.id)
            is_free = match is not None and match.covers_all
            if is_provisional(incident):
                disposition = Disposition.WAITING
            elif incident.kind not in PAGING_KINDS:
                disposition = Disposition.NOTE
            elif not incident.settled:
                disposition = Disposition.WAITING
            else:
                disposition = budget.decide(incident, ranks[incident.id], is_free=is_free)
            page_number = budget.pages if disposition is Disposition.PAGE and not is_free else 0
            decisions[incident.id] = BudgetedIncident(incident, disposition, week, page_number, match)
    return [decisions[incident.id] for incident in incidents]


@dataclass
class _WeekBudget:
    """Pages and discoveries of a week so far; ``pair_tests`` are those of all its fresh pairs."""

    series_count: int
    pages_per_week: int
    pair_tests: Sequence[PairTest]
    pages: int = 0
    discoveries: list[int] = field(default_factory=list)

    def decide(self, incident: Incident, rank: int, *, is_free: bool) -> Disposition:
        """Whether the next incident pages; a free one spends nothing."""
        level = compute_lord_level(rank, self.discoveries)
        is_seen = incident.p_value * max(self.series_count, 1) <= level
        if is_seen and rank not in self.discoveries:
            self.discoveries.append(rank)
        if not is_seen and not any(map(self._is_confirmed, incident.confirming_tests)):
            return Disposition.TOO_WEAK
        if self.pages >= self.pages_per_week and not is_free:
            return Disposition.HELD_BACK
        self.pages += not is_free
        return Disposition.PAGE

    def _is_confirmed(self, own: PairTest) -> bool:
        """Whether a test on fresh pairs is significant among those of the week that came before it."""
        # an exact count is certain, and no part of the group
        earlier = [
            test.p_value
            for test in self.pair_tests
            if test.arrival <= own.arrival and 0 < test.p_value <= DISCARDING_LEVEL
        ]
        accepted = benjamini_hochberg(earlier, FALSE_DISCOVERY_RATE)
        significant = [p for p, is_accepted in zip(earlier, accepted, strict=True) if is_accepted]
        return own.p_value <= max(significant, default=0.0)


def compute_lord_level(rank: int, discoveries: Sequence[int]) -> float:
    """Level of the hypothesis of this rank, from one, after discoveries at these ranks, ascending."""
    wealths = [FIRST_WEALTH, FALSE_PAGE_RATE - FIRST_WEALTH, *[FALSE_PAGE_RATE] * len(discoveries)]
    distances = [rank, *(rank - discovery for discovery in discoveries)]
    shares = [distance**-DECAY if distance > 0 else 0.0 for distance in distances]
    return sum(wealth * share for wealth, share in zip(wealths, shares, strict=False)) / float(zeta(DECAY))


def match_expected_changes(
    incidents: Iterable[Incident],
    merged: Sequence[MergedExpectedChange],
    context: HistoryContext,
) -> dict[str, ExpectedChangeMatch]:
    """The commit whose expected changes cover all that got worse, else the first that names any of it, by
    incident id; incidents without any are left out."""
    matches = {}
    for incident in incidents:
        worse = [change for change in incident.members if change.log_cost_change > 0]
        by_commit: dict[str, list[MergedExpectedChange]] = defaultdict(list)
        for item in merged:
            names_any = any(item.expected.matches_series(change.series) for change in worse)
            if names_any and _is_within(item, incident, context):
                by_commit[item.sha].append(item)
        own = [
            ExpectedChangeMatch(tuple(expected), _find_exceeding(worse, expected, context))
            for expected in by_commit.values()
        ]
        if own:
            matches[incident.id] = next((match for match in own if match.covers_all), own[0])
    return matches


def _is_within(merged: MergedExpectedChange, incident: Incident, context: HistoryContext) -> bool:
    """Whether a commit came after the last good one and not later than the bad one.

    A commit that is not on the line is placed by the time it was merged.
    """
    positions = context.positions
    good, bad = positions.get(incident.last_good), positions.get(incident.commit)
    if good is None or bad is None:
        return merged.sha == incident.commit
    if merged.sha in positions:
        return good < positions[merged.sha] <= bad
    since, until = context.commits[good].committed_at, context.commits[bad].committed_at
    if merged.merged_at is None or since is None or until is None:
        return False
    return since < merged.merged_at <= until


def _find_exceeding(
    worse: Iterable[ChangePoint], merged: Sequence[MergedExpectedChange], context: HistoryContext
) -> tuple[ChangePoint, ...]:
    """Changes that these do not allow, by the noise floor of their fresh pairs or the noise of one point."""
    exceeding = []
    for change in worse:
        verdicts = context.confirmations.get(change.series, ())
        floors = [verdict.noise for verdict in verdicts if verdict.head == change.commit]
        noise = max([*floors, change.noise or 0.0])
        # no percentage covers a change from zero
        if not change.before or not any(
            item.expected.allows_change(change.series, change.relative_change, noise) for item in merged
        ):
            exceeding.append(change)
    return tuple(exceeding)
