"""Which stored incident each incident of today's look is.

A look derives incidents anew, and as points arrive their ranges and names change; people go on with the incident they
know. One that has its name is the same; else one that shares a series and overlaps on the line of commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.model import IncidentKind
from perfci.store.incidents.records import IncidentRecord, Member
from perfci.verdicts.incidents.page_budget import Told

FAMILIES: Mapping[str, str] = {
    IncidentKind.REGRESSION: "worse",
    IncidentKind.MIXED: "worse",
    IncidentKind.IMPROVEMENT: "better",
    IncidentKind.ENVIRONMENT: "nobody's",
    IncidentKind.MACHINE: "nobody's",
    IncidentKind.RESOLVED: "nobody's",
}


@dataclass(frozen=True, slots=True)
class Found:
    """An incident of today's look, or a part of one, with its members by series."""

    told: Told
    members: Mapping[int, Member]


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored incident and its series; those a person took out of it come back to it no more."""

    record: IncidentRecord
    series: Collection[int]
    dropped: Collection[int] = frozenset()


Match = tuple[Found, Kept | None]


def matched(found: Sequence[Found], kept: Sequence[Kept], place: Mapping[str, int]) -> list[Match]:
    """Each incident of the look with the stored one it belongs to; one that is new belongs to none.

    What people put together or took apart stays so: an incident of the look is divided among those that were pinned.
    """
    pinned = [one for one in kept if one.record.pinned]
    matches: list[Match] = []
    left: list[Found] = []
    for one in found:
        parts = _among_pinned(one, pinned, place)
        matches += parts
        left += [] if parts else [one]
    return matches + _one_to_one(left, [one for one in kept if not one.record.pinned], place)


def _among_pinned(found: Found, pinned: Sequence[Kept], place: Mapping[str, int]) -> list[Match]:
    """Each pinned incident gets what it holds already; what nobody holds goes to the one that holds most."""
    holders = [(one, found.members.keys() & one.series) for one in pinned if _overlap(found, one, place)]
    holders = sorted(((one, held) for one, held in holders if held), key=lambda pair: -len(pair[1]))
    parts: list[tuple[Kept, set[int]]] = []
    free = set(found.members)
    for one, held in holders:
        parts.append((one, held & free))
        free -= held
    if parts:
        first, held = parts[0]
        held |= free - set(first.dropped)
    return [(replace(found, members={k: found.members[k] for k in held}), one) for one, held in parts if held]


def _one_to_one(found: Sequence[Found], kept: Sequence[Kept], place: Mapping[str, int]) -> list[Match]:
    """By name, then by what is shared within a family, then by what is shared at all: most shared first."""
    names = {one.record.derived_id: one for one in kept}
    taken: dict[int, Kept] = {}
    used: set[int] = set()
    for at, one in enumerate(found):
        if (same := names.get(one.told.incident.id)) and same.record.id not in used:
            taken[at] = same
            used.add(same.record.id)
    for _, at, candidate in sorted(_candidates(found, kept, place), key=lambda one: (one[0], one[1])):
        if at not in taken and candidate.record.id not in used:
            taken[at] = candidate
            used.add(candidate.record.id)
    return [(one, taken.get(at)) for at, one in enumerate(found)]


def _candidates(
    found: Sequence[Found], kept: Sequence[Kept], place: Mapping[str, int]
) -> list[tuple[tuple[bool, int, int], int, Kept]]:
    by_series: dict[int, list[Kept]] = defaultdict(list)
    for holder in kept:
        for series_id in holder.series:
            by_series[series_id].append(holder)
    candidates = []
    for at, one in enumerate(found):
        shared: dict[int, int] = defaultdict(int)
        holders: dict[int, Kept] = {}
        for series_id in one.members:
            for holder in by_series.get(series_id, ()):
                shared[holder.record.id] += 1
                holders[holder.record.id] = holder
        for row_id, count in shared.items():
            if _overlap(one, holders[row_id], place):
                apart = _family(one.told.incident.kind) != _family(holders[row_id].record.kind)
                candidates.append(((apart, -count, row_id), at, holders[row_id]))
    return candidates


def _family(kind: str) -> str:
    return FAMILIES.get(kind, kind)


def _overlap(found: Found, kept: Kept, place: Mapping[str, int]) -> bool:
    """Whether two ranges (last good, first bad] share a commit; off the line they must share an end."""
    incident, record = found.told.incident, kept.record
    ends = [place.get(sha) for sha in (incident.last_good, incident.commit, record.last_good, record.commit)]
    if None in ends:
        return incident.commit == record.commit or incident.last_good == record.last_good
    good, bad, known_good, known_bad = (end for end in ends if end is not None)
    return max(good, known_good) < min(bad, known_bad)
