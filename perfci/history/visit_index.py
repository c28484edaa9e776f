"""When and where the commits of a project's line were measured."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from perfci.model import Commit, Machine
from perfci.store.queries.commit_visits import VisitRecord
from perfci.verdicts.history.release_creep import Release
from perfci.verdicts.incidents.step_causes import SessionVisit


class VisitIndex:
    """The line of commits, oldest first, and the sessions that visited them.

    On the line is what was measured for the history, and what leads there by first parents: the heads of pull requests
    are stored as well and stay out.
    """

    def __init__(self, newest_first: Sequence[Commit], records: Iterable[VisitRecord]) -> None:
        records = list(records)
        clean = {commit.sha: commit for commit in newest_first if not commit.dirty}
        measured = {record.sha for record in records}
        on_the_line = _follow_first_parents(clean, measured)
        self.by_sha = {commit.sha: commit for commit in newest_first}
        self.commits = [
            commit for commit in reversed(newest_first) if not commit.dirty and commit.sha in on_the_line
        ]
        self.positions = {commit.sha: at for at, commit in enumerate(self.commits)}
        self.visits = _group_visits(records)
        self.weekly_numbers = _number_commits(records)
        self._positions_by_machine: dict[Machine, list[int]] = defaultdict(list)
        for (sha, machine), _ in self.visits.items():
            if sha in self.positions:
                self._positions_by_machine[machine].append(self.positions[sha])
        for places in self._positions_by_machine.values():
            places.sort()

    def find_nearby(self, sha: str, machine: Machine, reach: int) -> list[str]:
        """The commits measured on a machine around one, so many on either side of it."""
        places = self._positions_by_machine.get(machine, [])
        middle = bisect_left(places, self.positions.get(sha, -1))
        return [self.commits[at].sha for at in places[max(0, middle - reach) : middle + reach + 1]]

    def find_newest(self, machine: Machine, count: int) -> list[str]:
        return [self.commits[at].sha for at in self._positions_by_machine.get(machine, [])[-count:]]

    def find_releases(self, pattern: str, tags: Mapping[str, Collection[str]] | None = None) -> list[Release]:
        """The tagged commits of the line whose tag fits, oldest first; one with several tags goes by the first."""
        found = []
        for commit in self.commits:
            known = commit.tags if tags is None else tags.get(commit.sha, ())
            fitting = sorted(tag for tag in known if fnmatchcase(tag, pattern))
            found += [Release(fitting[0], commit.sha)] if fitting else []
        return found


def _follow_first_parents(commits: Mapping[str, Commit], measured: Collection[str]) -> set[str]:
    found: set[str] = set()
    for sha in measured:
        while sha in commits and sha not in found:
            found.add(sha)
            sha = next(iter(commits[sha].parents), "")
    return found


def _group_visits(records: Iterable[VisitRecord]) -> dict[tuple[str, Machine], list[SessionVisit]]:
    """An imported history is one session of many commits, each of which was measured at its own time."""
    records = list(records)
    commits = Counter(record.session for record in records)
    found: dict[tuple[str, Machine], list[SessionVisit]] = defaultdict(list)
    for one in records:
        alone = one.kind == "import" and commits[one.session] > 1
        name = f"{one.session} at {one.sha[:10]}" if alone else one.session
        found[one.sha, one.machine].append(SessionVisit(name, one.started_at, interleaved=one.rounds > 1))
    return found


def _number_commits(records: Iterable[VisitRecord]) -> dict[str, int]:
    """Each commit's number among those first measured in its week, from one."""
    counts: Counter[tuple[int, int]] = Counter()
    found: dict[str, int] = {}
    for record in sorted(records, key=lambda one: (one.started_at, one.sha)):
        if record.sha not in found:
            week = record.started_at.isocalendar()[:2]
            counts[week] += 1
            found[record.sha] = counts[week]
    return found
