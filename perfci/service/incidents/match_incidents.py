"""Match the incidents that an evaluation derived with the stored ones.

The ranges and ids of derived incidents change as points arrive: one matches the stored incident with its
id, else one that shares a series and overlaps in the commit range.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from perfci.model import IncidentKind
from perfci.store.incidents.incident_records import IncidentMember, IncidentRecord
from perfci.verdicts.incidents.paging_budget import BudgetedIncident

KIND_GROUPS: Mapping[str, str] = {
    IncidentKind.REGRESSION: "worse",
    IncidentKind.MIXED: "worse",
    IncidentKind.IMPROVEMENT: "better",
    IncidentKind.ENVIRONMENT: "no commit",
    IncidentKind.MACHINE: "no commit",
    IncidentKind.RESOLVED: "no commit",
}


@dataclass(frozen=True, slots=True)
class DerivedIncident:
    """A derived incident, or a part of one, with its members by series id."""

    budgeted: BudgetedIncident
    members: Mapping[int, IncidentMember]


@dataclass(frozen=True, slots=True)
class StoredIncident:
    """A stored incident with its series; ``dropped`` were removed by a person and never return."""

    record: IncidentRecord
    series: Collection[int]
    dropped: Collection[int] = frozenset()


IncidentMatch = tuple[DerivedIncident, StoredIncident | None]


def match_incidents(
    derived: Sequence[DerivedIncident], stored: Sequence[StoredIncident], positions: Mapping[str, int]
) -> list[IncidentMatch]:
    """Match each derived incident to a stored one; a new incident matches none.

    Merges and splits by people stay: a derived incident is divided among the pinned ones it overlaps. The
    others are matched by id, then by shared series, within the same kind group first and most shared first.
    """
    pinned = [incident for incident in stored if incident.record.pinned]
    matches: list[IncidentMatch] = []
    left: list[DerivedIncident] = []
    for incident in derived:
        parts = _split_among_pinned(incident, pinned, positions)
        matches += parts
        left += [] if parts else [incident]
    unpinned = [incident for incident in stored if not incident.record.pinned]
    by_id = {incident.record.derived_id: incident for incident in unpinned}
    taken: dict[int, StoredIncident] = {}
    used: set[int] = set()
    for at, incident in enumerate(left):
        if (namesake := by_id.get(incident.budgeted.incident.id)) and namesake.record.id not in used:
            taken[at] = namesake
            used.add(namesake.record.id)
    for _, at, candidate in sorted(_find_candidates(left, unpinned, positions), key=itemgetter(0, 1)):
        if at not in taken and candidate.record.id not in used:
            taken[at] = candidate
            used.add(candidate.record.id)
    return matches + [(incident, taken.get(at)) for at, incident in enumerate(left)]


def _split_among_pinned(
    derived: DerivedIncident, pinned: Sequence[StoredIncident], positions: Mapping[str, int]
) -> list[IncidentMatch]:
    """Divide the members among pinned incidents that hold them; the rest goes to the largest share."""
    holders = [
        (holder, derived.members.keys() & holder.series)
        for holder in pinned
        if _has_overlap(derived, holder, positions)
    ]
    holders = sorted(((holder, held) for holder, held in holders if held), key=lambda pair: -len(pair[1]))
    parts: list[tuple[StoredIncident, set[int]]] = []
    free = set(derived.members)
    for holder, held in holders:
        parts.append((holder, held & free))
        free -= held
    if parts:
        first, held = parts[0]
        held |= free - set(first.dropped)
    return [
        (replace(derived, members={k: derived.members[k] for k in held}), holder)
        for holder, held in parts
        if held
    ]


def _find_candidates(
    derived: Sequence[DerivedIncident], stored: Sequence[StoredIncident], positions: Mapping[str, int]
) -> list[tuple[tuple[bool, int, int], int, StoredIncident]]:
    """List the overlaps: rank, the place of the derived incident, and the stored one."""
    by_series: dict[int, list[StoredIncident]] = defaultdict(list)
    for holder in stored:
        for series_id in holder.series:
            by_series[series_id].append(holder)
    candidates = []
    for at, incident in enumerate(derived):
        shared: dict[int, int] = defaultdict(int)
        holders: dict[int, StoredIncident] = {}
        for series_id in incident.members:
            for holder in by_series.get(series_id, ()):
                shared[holder.record.id] += 1
                holders[holder.record.id] = holder
        for row_id, count in shared.items():
            if _has_overlap(incident, holders[row_id], positions):
                kind, stored_kind = incident.budgeted.incident.kind, holders[row_id].record.kind
                apart = KIND_GROUPS.get(kind, kind) != KIND_GROUPS.get(stored_kind, stored_kind)
                candidates.append(((apart, -count, row_id), at, holders[row_id]))
    return candidates


def _has_overlap(derived: DerivedIncident, stored: StoredIncident, positions: Mapping[str, int]) -> bool:
    """Return whether two ranges (last good, first bad] overlap; off the main line they must share an end."""
    incident, record = derived.budgeted.incident, stored.record
    ends = [
        positions.get(sha) for sha in (incident.last_good, incident.commit, record.last_good, record.commit)
    ]
    if None in ends:
        return incident.commit == record.commit or incident.last_good == record.last_good
    good, bad, known_good, known_bad = (end for end in ends if end is not None)
    return max(good, known_good) < min(bad, known_bad)
