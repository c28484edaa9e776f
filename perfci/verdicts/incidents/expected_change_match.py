"""Matching of expected changes on the main branch with the incidents they explain."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import ChangePoint, Incident, Series
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.history.step_estimate import estimate_step
from perfci.verdicts.incidents.step_causes import HistoryContext


@dataclass(frozen=True, slots=True)
class MergedExpectedChange:
    """An expected change, the commit that brought it and when, and where it was declared: ``#12``,
    or a commit."""

    sha: str
    expected: ExpectedChange
    source: str
    merged_at: datetime | None = None


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


def match_expected_changes(
    incidents: Iterable[Incident],
    merged: Sequence[MergedExpectedChange],
    changes: Iterable[ChangePoint],
    context: HistoryContext,
) -> dict[str, ExpectedChangeMatch]:
    """Matches by incident id; incidents without any are left out. ``changes`` are those of all
    histories."""
    if not merged:
        return {}
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
        worse = [change for change in incident.members if change.log_cost > 0]
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
            change for change in worse if not any(self._is_allowed(item.expected, change) for item in merged)
        )

    def _is_allowed(self, expected: ExpectedChange, change: ChangePoint) -> bool:
        return expected.matches_series(change.series) and expected.allows_change(
            change.series, change.relative_change, self._step_noise(change)
        )

    def _step_noise(self, change: ChangePoint) -> float:
        """Uncertainty of a step's size: the noise floor of its fresh pairs, or the noise of one
        point around it."""
        verdicts = self.context.confirmations.get(change.series, ())
        floors = [verdict.noise_floor or 0.0 for verdict in verdicts if verdict.head == change.commit]
        step = estimate_step(
            self.context.points.get(change.series, ()), change.commit, self.steps.get(change.series, ())
        )
        point_noise = abs(change.log_cost) / step.sigmas if step is not None and step.sigmas else 0.0
        return max([*floors, point_noise if math.isfinite(point_noise) else 0.0])
