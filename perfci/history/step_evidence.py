"""What the points of some series say of a step at another commit than the one that was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_points import JudgedHistories
from perfci.stats.location import median
from perfci.store.incidents.records import IncidentMember
from perfci.store.queries.loaders import load_series_by_ids
from perfci.verdicts.history.step_estimate import MAX_SIDE_POINTS, LevelPoint, StepEstimate, estimate_step

MAX_TESTED_SERIES = 50
"""Series that are tested, the largest moves: somebody waits for the answer."""


@dataclass(frozen=True, slots=True)
class BoundaryComparison:
    """A member with its levels at the new edge, and the evidence of a step at the old and at the new one."""

    label: str
    member: IncidentMember
    old: StepEstimate
    new: StepEstimate

    @property
    def is_worse(self) -> bool:
        return self.new.sigmas < self.old.sigmas


def compare_boundaries(
    tx: Transaction, members: Sequence[IncidentMember], old: str, new: str, last_good: str
) -> tuple[BoundaryComparison, ...]:
    """Those of the largest members that were measured at both edges."""
    largest = members[:MAX_TESTED_SERIES]
    lines = JudgedHistories.load(tx, [member.series_id for member in largest])
    series = load_series_by_ids(tx, lines.points)
    found = []
    for member in largest:
        seen = [LevelPoint(sha, level) for sha, level in lines.get_levels(member.series_id)]
        was, now = estimate_step(seen, old), estimate_step(seen, new)
        if was is not None and now is not None:
            found.append(
                BoundaryComparison(
                    series[member.series_id].label,
                    _move_member(member, seen, now.index, new, last_good),
                    was,
                    now,
                )
            )
    return tuple(found)


def _move_member(
    member: IncidentMember, seen: Sequence[LevelPoint], at: int, commit: str, last_good: str
) -> IncidentMember:
    """The move as it would be at this place: what follows against what went before, as far as a step is heard."""
    before = median([one.level for one in seen[max(0, at - MAX_SIDE_POINTS) : at]])
    after = median([one.level for one in seen[at : at + MAX_SIDE_POINTS]])
    rel = after / before - 1 if before else member.relative_change
    return replace(
        member, commit=commit, last_good=last_good, relative_change=rel, before=before, after=after
    )
