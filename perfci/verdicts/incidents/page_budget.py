"""How many pages a week a team gets, and which incidents get them; what gets none is listed, never dropped.

Every commit boundary asks one question, "did anything move here, in any of the series?", so an incident's p-value is
the smallest of its members times the number of series (Bonferroni). In the order they arrive, the questions of a week
are answered by LOND (Javanmard & Montanari 2015, "On online control of false discovery rate"): the j-th question is
tested at ``RATE / (j (j + 1))`` times one more than the pages given so far, which holds the expected share of false
pages below ``RATE`` each week. A page once given is never taken back by what comes later. What a pull request announced
is found like all else, and asks for nobody: it spends no page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perfci.model import Incident, IncidentKind
from perfci.verdicts.incidents.expected_change_match import ExpectedChangeMatch

FALSE_PAGE_RATE = 0.05
"""One page in twenty may be false: the false-discovery rate of a group (DESIGN 6)."""

DEFAULT_PAGES_PER_WEEK = 5
"""One a working day. In twelve months MongoDB's teams acted on 80 changes, fewer than two a week (ICPE 2020)."""

PAGING_KINDS = frozenset({IncidentKind.REGRESSION, IncidentKind.MIXED})
"""Kinds that ask for a person; an improvement is good news, and nobody can repair a driver by reading a commit."""

UNDATED_WEEK = ""


class Disposition(StrEnum):
    """What is done about an incident."""

    PAGE = "page"
    HELD_BACK = "held_back"  # the budget of its week was spent on stronger or earlier ones
    TOO_WEAK = "weak"  # so much evidence is to be expected by chance, with so many series
    WAITING = "waiting"  # for a third point or fresh pairs
    NOTE = "note"  # asks for nobody


@dataclass(frozen=True, slots=True)
class BudgetedIncident:
    """An incident with what is done about it, in which week, and as which of that week's pages; and what of it was
    announced.
    """

    incident: Incident
    disposition: Disposition
    week: str = UNDATED_WEEK
    page_number: int = 0
    expected_change_match: ExpectedChangeMatch | None = None

    @property
    def is_open(self) -> bool:
        """Whether a person is still needed for it."""
        return self.disposition is Disposition.PAGE and self.incident.ongoing and not self.is_expected

    @property
    def is_expected(self) -> bool:
        """Whether all that got worse in it was announced."""
        return self.expected_change_match is not None and self.expected_change_match.covers_all


def allocate_pages(
    incidents: Sequence[Incident],
    commit_ranks: Mapping[str, int],
    *,
    series_count: int,
    pages_per_week: int = DEFAULT_PAGES_PER_WEEK,
    expected_change_matches: Mapping[str, ExpectedChangeMatch] | None = None,
) -> list[BudgetedIncident]:
    """Decide for each incident, answers in the order given.

    ``boundaries`` gives each commit's number among those measured in its week, counted from one; ``answers`` what was
    announced of those that ask for a person, by their ids.
    """
    matches = expected_change_matches or {}
    weeks: dict[str, list[Incident]] = defaultdict(list)
    decisions: dict[str, BudgetedIncident] = {}
    for incident in incidents:
        week = week_of(incident)
        if incident.kind not in PAGING_KINDS:
            decisions[incident.id] = BudgetedIncident(incident, Disposition.NOTE, week)
        elif not incident.settled:
            decisions[incident.id] = BudgetedIncident(
                incident, Disposition.WAITING, week, expected_change_match=matches.get(incident.id)
            )
        else:
            weeks[week].append(incident)
    for week, candidates in weeks.items():
        decisions |= _allocate_week(week, candidates, commit_ranks, series_count, pages_per_week, matches)
    return [decisions[incident.id] for incident in incidents]


def week_of(incident: Incident) -> str:
    """The week in which its new level was first measured, as ISO 8601 names it: ``2026-W12``."""
    if incident.measured_at is None:
        return UNDATED_WEEK
    year, week, _ = incident.measured_at.isocalendar()
    return f"{year}-W{week:02}"


def _allocate_week(
    week: str,
    candidates: Sequence[Incident],
    commit_ranks: Mapping[str, int],
    series_count: int,
    max_pages: int,
    expected_change_matches: Mapping[str, ExpectedChangeMatch],
) -> dict[str, BudgetedIncident]:
    """In the order of arrival, the strongest of what arrived together first."""
    decisions: dict[str, BudgetedIncident] = {}
    discoveries = pages = 0
    for incident in sorted(candidates, key=lambda incident: _arrival_order(incident, commit_ranks)):
        rank, match = (
            commit_ranks.get(incident.commit, len(commit_ranks) + 1),
            expected_change_matches.get(incident.id),
        )
        level = FALSE_PAGE_RATE / (rank * (rank + 1)) * (discoveries + 1)
        is_free = match is not None and match.covers_all
        if incident.p_value * max(series_count, 1) > level:
            decisions[incident.id] = BudgetedIncident(
                incident, Disposition.TOO_WEAK, week, expected_change_match=match
            )
        elif pages >= max_pages and not is_free:
            decisions[incident.id] = BudgetedIncident(
                incident, Disposition.HELD_BACK, week, expected_change_match=match
            )
        else:
            discoveries += 1
            pages += not is_free
            decisions[incident.id] = BudgetedIncident(
                incident, Disposition.PAGE, week, 0 if is_free else pages, match
            )
    return decisions


def _arrival_order(incident: Incident, commit_ranks: Mapping[str, int]) -> tuple[object, ...]:
    number = commit_ranks.get(incident.commit, len(commit_ranks) + 1)
    return (number, incident.p_value, -len(incident.members), incident.id)
