"""What the points of some series say of a step at another commit than the one that was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_points import JudgedLines
from perfci.stats.location import median
from perfci.store.incidents.records import Member
from perfci.store.queries.loaders import series_by_ids
from perfci.verdicts.history.step_estimate import REACH, Boundary, Seen, boundary

MOST = 50
"""Series that are tested, the largest moves: somebody waits for the answer."""


@dataclass(frozen=True, slots=True)
class Retested:
    """A member with its levels at the new edge, and the evidence of a step at the old and at the new one."""

    label: str
    member: Member
    was: Boundary
    now: Boundary

    @property
    def worse(self) -> bool:
        return self.now.sigmas < self.was.sigmas


def retested(tx: Transaction, members: Sequence[Member], old: str, new: str, last_good: str) -> tuple[Retested, ...]:
    """Those of the largest members that were measured at both edges."""
    largest = members[:MOST]
    lines = JudgedLines.of(tx, [member.series_id for member in largest])
    series = series_by_ids(tx, lines.points)
    found = []
    for member in largest:
        seen = [Seen(sha, level) for sha, level in lines.levels(member.series_id)]
        was, now = boundary(seen, old), boundary(seen, new)
        if was is not None and now is not None:
            found.append(Retested(series[member.series_id].label, _at(member, seen, now.at, new, last_good), was, now))
    return tuple(found)


def _at(member: Member, seen: Sequence[Seen], at: int, commit: str, last_good: str) -> Member:
    """The move as it would be at this place: what follows against what went before, as far as a step is heard."""
    before = median([one.level for one in seen[max(0, at - REACH) : at]])
    after = median([one.level for one in seen[at : at + REACH]])
    rel = after / before - 1 if before else member.rel
    return replace(member, commit=commit, last_good=last_good, rel=rel, before=before, after=after)
