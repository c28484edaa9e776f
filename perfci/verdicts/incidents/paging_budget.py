"""Page budget: which incidents page somebody within a week's budget; expected ones and the rest are listed.

Every commit boundary is one hypothesis, "nothing moved here in any series", so an incident's
p-value is the smallest of its members times the number of series (Bonferroni). The hypotheses of a
week are tested in order of arrival by LOND (Javanmard & Montanari 2015, "On online control of false
discovery rate"): the j-th at ``FALSE_PAGE_RATE / (j (j + 1))`` times one more than the pages so
far, which holds the expected share of false pages below the rate each week. A page is never taken
back by later incidents. Expected changes spend no page.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perfci.model import ChangePoint, Incident, IncidentKind, Series
from perfci.verdicts.expected_change import MergedExpectedChange
from perfci.verdicts.history.step_evidence import estimate_step
from perfci.verdicts.incidents.step_causes import HistoryContext

FALSE_PAGE_RATE = 0.05
"""One page in twenty may be false, the usual false-discovery rate."""

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
    candidates: dict[str, list[Incident]] = defaultdict(list)
    decisions: dict[str, BudgetedIncident] = {}
    for incident in incidents:
        week = UNDATED_WEEK
        if incident.measured_at is not None:
            week = incident.measured_at.strftime("%G-W%V")
        if incident.kind not in PAGING_KINDS:
            decisions[incident.id] = BudgetedIncident(incident, Disposition.NOTE, week)
        elif not incident.settled:
            decisions[incident.id] = BudgetedIncident(
                incident, Disposition.WAITING, week, expected_change_match=matches.get(incident.id)
            )
        else:
            candidates[week].append(incident)
    for week, week_incidents in candidates.items():
        discoveries = pages = 0
        # in the order of arrival, strongest first among those that arrived together
        ranked = [
            (commit_ranks.get(incident.commit, len(commit_ranks) + 1), incident)
            for incident in week_incidents
        ]
        ranked.sort(key=lambda pair: (pair[0], pair[1].p_value, -len(pair[1].members), pair[1].id))
        for rank, incident in ranked:
            match = matches.get(incident.id)
            is_free = match is not None and match.covers_all
            page_number = 0
            level = FALSE_PAGE_RATE / (rank * (rank + 1)) * (discoveries + 1)
            if incident.p_value * max(series_count, 1) > level:
                disposition = Disposition.TOO_WEAK
            elif pages >= pages_per_week and not is_free:
                disposition = Disposition.HELD_BACK
            else:
                disposition = Disposition.PAGE
                discoveries += 1
                pages += not is_free
                page_number = 0 if is_free else pages
            decisions[incident.id] = BudgetedIncident(incident, disposition, week, page_number, match)
    return [decisions[incident.id] for incident in incidents]


def match_expected_changes(
    incidents: Iterable[Incident],
    merged: Sequence[MergedExpectedChange],
    changes: Iterable[ChangePoint],
    context: HistoryContext,
) -> dict[str, ExpectedChangeMatch]:
    """Matches by incident id; incidents without any are left out. ``changes`` are those of all
    histories."""
    steps: dict[Series, list[str]] = defaultdict(list)
    for change in changes:
        steps[change.series].append(change.commit)
    matcher = _ExpectedChangeMatcher(
        context, {commit.sha: at for at, commit in enumerate(context.commits)}, steps
    )
    matches = {
        incident.id: matcher.match_incident(
            incident, [change for change in merged if matcher.is_within(change, incident)]
        )
        for incident in incidents
    }
    return {incident_id: match for incident_id, match in matches.items() if match is not None}


@dataclass(frozen=True, slots=True)
class _ExpectedChangeMatcher:
    """Matcher with the positions of commits and the steps of each series."""

    context: HistoryContext
    positions: Mapping[str, int]
    steps: Mapping[Series, Sequence[str]]

    def is_within(self, merged: MergedExpectedChange, incident: Incident) -> bool:
        """Whether a commit came after the last good one and not later than the bad one.

        A commit that is not on the line is placed by the time it was merged.
        """
        good, bad = (self.positions.get(sha) for sha in (incident.last_good, incident.commit))
        if good is None or bad is None:
            return merged.sha == incident.commit
        if merged.sha in self.positions:
            return good < self.positions[merged.sha] <= bad
        since, until = self.context.commits[good].committed_at, self.context.commits[bad].committed_at
        return (
            merged.merged_at is not None
            and since is not None
            and until is not None
            and since < merged.merged_at <= until
        )

    def match_incident(
        self, incident: Incident, merged: Sequence[MergedExpectedChange]
    ) -> ExpectedChangeMatch | None:
        """The commit whose expected changes cover all that got worse, else the first that names any
        of it."""
        worse = [change for change in incident.members if change.log_cost_change > 0]
        by_commit: dict[str, list[MergedExpectedChange]] = defaultdict(list)
        for item in merged:
            if any(item.expected.matches_series(change.series) for change in worse):
                by_commit[item.sha].append(item)
        matches = [
            ExpectedChangeMatch(tuple(expected), self._find_exceeding(worse, expected))
            for expected in by_commit.values()
        ]
        return next((item for item in matches if item.covers_all), next(iter(matches), None))

    def _find_exceeding(
        self, worse: Iterable[ChangePoint], merged: Sequence[MergedExpectedChange]
    ) -> tuple[ChangePoint, ...]:
        return tuple(
            change
            for change in worse
            # no percentage covers a change from zero
            if not change.before
            or not any(
                item.expected.allows_change(change.series, change.relative_change, self._step_noise(change))
                for item in merged
                if item.expected.matches_series(change.series)
            )
        )

    def _step_noise(self, change: ChangePoint) -> float:
        """Uncertainty of a step's size: the noise floor of its fresh pairs, or the noise of one
        point around it."""
        verdicts = self.context.confirmations.get(change.series, ())
        floors = [verdict.noise_floor or 0.0 for verdict in verdicts if verdict.head == change.commit]
        step = estimate_step(
            self.context.points.get(change.series, ()), change.commit, self.steps.get(change.series, ())
        )
        point_noise = abs(change.log_cost_change) / step.sigmas if step is not None and step.sigmas else 0.0
        return max([*floors, point_noise if math.isfinite(point_noise) else 0.0])
