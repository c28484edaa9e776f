"""Announcements whose change has come to the main branch, and what they say of the incidents that it makes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import ChangePoint, Incident, Series
from perfci.verdicts.expected_change import Announcement
from perfci.verdicts.history.step_estimate import boundary
from perfci.verdicts.incidents.step_causes import Known, cost_of


@dataclass(frozen=True, slots=True)
class Arrived:
    """An announcement, the commit that brought its change and when, and where it was made: ``#12``, or a commit."""

    sha: str
    announcement: Announcement
    source: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What was announced of one commit, as far as it names what got worse; ``beyond`` is what that does not allow."""

    arrived: tuple[Arrived, ...]
    beyond: tuple[ChangePoint, ...] = ()

    @property
    def covers(self) -> bool:
        """Whether all that got worse was announced, and came to no more than that."""
        return not self.beyond


def answers(
    incidents: Iterable[Incident], arrived: Sequence[Arrived], changes: Iterable[ChangePoint], known: Known
) -> dict[str, Answer]:
    """What was announced of the incidents, by their ids; of most nothing was. ``changes`` are all of the histories."""
    if not arrived:
        return {}
    steps: dict[Series, list[str]] = defaultdict(list)
    for change in changes:
        steps[change.series].append(change.commit)
    line = _Line(known, {commit.sha: at for at, commit in enumerate(known.line)}, steps)
    found = {one.id: line.answer(one, [said for said in arrived if line.within(said, one)]) for one in incidents}
    return {incident: answer for incident, answer in found.items() if answer is not None}


@dataclass(frozen=True, slots=True)
class _Line:
    known: Known
    place: Mapping[str, int]
    steps: Mapping[Series, Sequence[str]]

    def within(self, one: Arrived, incident: Incident) -> bool:
        """Whether a commit came after the last good one and not later than the bad one.

        One that was not measured itself goes by when it came.
        """
        good, bad = (self.place.get(sha) for sha in (incident.last_good, incident.commit))
        if good is None or bad is None:
            return one.sha == incident.commit
        if one.sha in self.place:
            return good < self.place[one.sha] <= bad
        since, until = self.known.line[good].committed_at, self.known.line[bad].committed_at
        return one.at is not None and since is not None and until is not None and since < one.at <= until

    def answer(self, incident: Incident, arrived: Sequence[Arrived]) -> Answer | None:
        """Of several commits the one that answers for all that got worse, else the first."""
        worse = [change for change in incident.members if cost_of(change) > 0]
        of_commit: dict[str, list[Arrived]] = defaultdict(list)
        for one in arrived:
            if any(one.announcement.names(change.series) for change in worse):
                of_commit[one.sha].append(one)
        found = [Answer(tuple(said), self._beyond(worse, said)) for said in of_commit.values()]
        return next((one for one in found if one.covers), next(iter(found), None))

    def _beyond(self, worse: Iterable[ChangePoint], said: Sequence[Arrived]) -> tuple[ChangePoint, ...]:
        return tuple(change for change in worse if not any(self._allows(one.announcement, change) for one in said))

    def _allows(self, announced: Announcement, change: ChangePoint) -> bool:
        return announced.names(change.series) and announced.allows(change.series, change.rel, self._noise(change))

    def _noise(self, change: ChangePoint) -> float:
        """By what a step may miss its size: the noise floor of its fresh pairs, or the noise of a point around it."""
        pairs = self.known.convictions.get(change.series, ())
        floors = [one.noise_floor or 0.0 for one in pairs if one.head == change.commit]
        step = boundary(self.known.seen.get(change.series, ()), change.commit, self.steps.get(change.series, ()))
        of_a_point = abs(cost_of(change)) / step.sigmas if step is not None and step.sigmas else 0.0
        return max([*floors, of_a_point if math.isfinite(of_a_point) else 0.0])
