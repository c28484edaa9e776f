"""Test whether series step at another commit than the one an incident names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import JudgedHistories
from perfci.store.incidents.incident_records import IncidentMember
from perfci.store.queries.series_and_commits import load_series_by_ids
from perfci.verdicts.history.change_point_detection import measure_change_point
from perfci.verdicts.history.step_evidence import LevelPoint, StepEstimate, estimate_step

MAX_TESTED_SERIES = 50
"""Most series tested, the largest moves first: a user waits for the answer."""


@dataclass(frozen=True, slots=True)
class BoundaryComparison:
    """A member with its levels at the new boundary, and the step estimates at the old and the new one."""

    label: str
    member: IncidentMember
    old: StepEstimate
    new: StepEstimate

    @property
    def is_new_boundary_weaker(self) -> bool:
        """Whether the new boundary has less evidence of a step."""
        return self.new.sigmas < self.old.sigmas


def compare_incident_boundaries(
    tx: Transaction, members: Sequence[IncidentMember], old: str, new: str, last_good: str
) -> tuple[BoundaryComparison, ...]:
    """Compare both boundaries for the largest members that were measured at both."""
    largest = members[:MAX_TESTED_SERIES]
    histories = JudgedHistories.load(tx, [member.series_id for member in largest])
    series = load_series_by_ids(tx, histories.points)
    comparisons = []
    for member in largest:
        levels = histories.get_measured_levels(member.series_id)
        points = [LevelPoint(sha, level) for sha, level in levels]
        old_step, new_step = estimate_step(points, old), estimate_step(points, new)
        if old_step is not None and new_step is not None:
            measured = measure_change_point(series[member.series_id], levels, new_step.index)
            change = replace(measured, last_good=last_good)
            moved = replace(
                IncidentMember.from_change_point(member.series_id, change), added_by=member.added_by
            )
            comparisons.append(BoundaryComparison(series[member.series_id].label, moved, old_step, new_step))
    return tuple(comparisons)
