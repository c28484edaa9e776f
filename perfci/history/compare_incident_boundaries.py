"""Test whether series step at another commit than the one an incident names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import JudgedHistories
from perfci.store.incidents.incident_records import IncidentMember
from perfci.store.queries.series_and_commits import load_series_by_ids
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS, LevelPoint, StepEstimate, estimate_step

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
        points = [LevelPoint(sha, level) for sha, level in histories.get_measured_levels(member.series_id)]
        old_step, new_step = estimate_step(points, old), estimate_step(points, new)
        if old_step is not None and new_step is not None:
            comparisons.append(
                BoundaryComparison(
                    series[member.series_id].label,
                    _move_member(member, points, new_step.index, new, last_good),
                    old_step,
                    new_step,
                )
            )
    return tuple(comparisons)


def _move_member(
    member: IncidentMember, points: Sequence[LevelPoint], index: int, commit: str, last_good: str
) -> IncidentMember:
    """The member at this boundary: the medians of at most ``MAX_SIDE_POINTS`` levels before and after it."""
    before = median([point.level for point in points[max(0, index - MAX_SIDE_POINTS) : index]])
    after = median([point.level for point in points[index : index + MAX_SIDE_POINTS]])
    relative_change = after / before - 1 if before else member.relative_change
    return replace(
        member,
        commit=commit,
        last_good=last_good,
        relative_change=relative_change,
        before=before,
        after=after,
    )
