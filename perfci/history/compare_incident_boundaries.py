"""Test whether series step at another commit than the one an incident names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import JudgedHistories
from perfci.model import ChangePoint
from perfci.store.incidents.incident_records import IncidentMember
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.verdicts.history.change_points_and_jumps import measure_change_point

MAX_TESTED_SERIES = 50
"""Most series tested, the largest moves first: a user waits for the answer."""


@dataclass(frozen=True, slots=True)
class BoundaryComparison:
    """The changes of a member at its own boundary and at a new one."""

    label: str
    old: ChangePoint
    new: ChangePoint

    @property
    def is_new_boundary_weaker(self) -> bool:
        """Whether the new boundary has less evidence of a step."""
        return self.new.sigmas < self.old.sigmas


def compare_incident_boundaries(
    tx: Transaction, members: Sequence[IncidentMember], new: str
) -> tuple[BoundaryComparison, ...]:
    """Compare the new boundary with each member's own, for the largest members that were measured at both."""
    largest = members[:MAX_TESTED_SERIES]
    histories = JudgedHistories.load(tx, [member.series_id for member in largest])
    series = load_series_by_ids(tx, histories.points)
    comparisons = []
    for member in largest:
        levels = histories.get_measured_levels(member.series_id)
        indices = {sha: index for index, (sha, _) in enumerate(levels)}
        if not (indices.get(member.commit) and indices.get(new)):
            continue  # not measured there, or nothing before it
        old_change, new_change = (
            measure_change_point(series[member.series_id], levels, indices[sha])
            for sha in (member.commit, new)
        )
        comparisons.append(BoundaryComparison(series[member.series_id].label, old_change, new_change))
    return tuple(comparisons)
