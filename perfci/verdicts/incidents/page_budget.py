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
from perfci.verdicts.incidents.expected_change_match import Answer

RATE = 0.05
"""One page in twenty may be false: the false-discovery rate of a group (DESIGN 6)."""

PAGES_PER_WEEK = 5
"""One a working day. In twelve months MongoDB's teams acted on 80 changes, fewer than two a week (ICPE 2020)."""

ASKING = frozenset({IncidentKind.REGRESSION, IncidentKind.MIXED})
"""Kinds that ask for a person; an improvement is good news, and nobody can repair a driver by reading a commit."""

UNDATED = ""


class Say(StrEnum):
    """What is done about an incident."""

    PAGE = "page"
    HELD_BACK = "held_back"  # the budget of its week was spent on stronger or earlier ones
    WEAK = "weak"  # so much evidence is to be expected by chance, with so many series
    WAITING = "waiting"  # for a third point or fresh pairs
    NOTE = "note"  # asks for nobody


@dataclass(frozen=True, slots=True)
class Told:
    """An incident with what is done about it, in which week, and as which of that week's pages; and what of it was
    announced.
    """

    incident: Incident
    say: Say
    week: str = UNDATED
    page: int = 0
    answer: Answer | None = None

    @property
    def open(self) -> bool:
        """Whether a person is still needed for it."""
        return self.say is Say.PAGE and self.incident.standing and not self.announced

    @property
    def announced(self) -> bool:
        """Whether all that got worse in it was announced."""
        return self.answer is not None and self.answer.covers


def budgeted(
    incidents: Sequence[Incident],
    boundaries: Mapping[str, int],
    *,
    series: int,
    pages_per_week: int = PAGES_PER_WEEK,
    answers: Mapping[str, Answer] | None = None,
) -> list[Told]:
    """Decide for each incident, answers in the order given.

    ``boundaries`` gives each commit's number among those measured in its week, counted from one; ``answers`` what was
    announced of those that ask for a person, by their ids.
    """
    meant = answers or {}
    weeks: dict[str, list[Incident]] = defaultdict(list)
    said: dict[str, Told] = {}
    for incident in incidents:
        week = week_of(incident)
        if incident.kind not in ASKING:
            said[incident.id] = Told(incident, Say.NOTE, week)
        elif not incident.settled:
            said[incident.id] = Told(incident, Say.WAITING, week, answer=meant.get(incident.id))
        else:
            weeks[week].append(incident)
    for week, asking in weeks.items():
        said |= _week(week, asking, boundaries, series, pages_per_week, meant)
    return [said[incident.id] for incident in incidents]


def week_of(incident: Incident) -> str:
    """The week in which its new level was first measured, as ISO 8601 names it: ``2026-W12``."""
    if incident.measured_at is None:
        return UNDATED
    year, week, _ = incident.measured_at.isocalendar()
    return f"{year}-W{week:02}"


def _week(
    week: str, asking: Sequence[Incident], boundaries: Mapping[str, int], series: int, most: int,
    answers: Mapping[str, Answer],
) -> dict[str, Told]:  # fmt: skip
    """In the order of arrival, the strongest of what arrived together first."""
    found: dict[str, Told] = {}
    discoveries = pages = 0
    for incident in sorted(asking, key=lambda one: _arrival(one, boundaries)):
        number, answer = boundaries.get(incident.commit, len(boundaries) + 1), answers.get(incident.id)
        level = RATE / (number * (number + 1)) * (discoveries + 1)
        free = answer is not None and answer.covers
        if incident.p_value * max(series, 1) > level:
            found[incident.id] = Told(incident, Say.WEAK, week, answer=answer)
        elif pages >= most and not free:
            found[incident.id] = Told(incident, Say.HELD_BACK, week, answer=answer)
        else:
            discoveries += 1
            pages += not free
            found[incident.id] = Told(incident, Say.PAGE, week, 0 if free else pages, answer)
    return found


def _arrival(incident: Incident, boundaries: Mapping[str, int]) -> tuple[object, ...]:
    number = boundaries.get(incident.commit, len(boundaries) + 1)
    return (number, incident.p_value, -len(incident.members), incident.id)
