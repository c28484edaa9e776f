"""Index when and where the commits of a project's line were measured."""

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

    The line holds the commits measured for the history and their first-parent ancestors. The heads of pull
    requests are stored as well, but are not on the line.
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
            places.sort()  # find_nearby searches them by bisection

    def find_nearby(self, sha: str, machine: Machine, reach: int) -> list[str]:
        """The shas measured on a machine around a commit, ``reach`` on either side of it."""
        places = self._positions_by_machine.get(machine, [])
        middle = bisect_left(places, self.positions.get(sha, -1))
        return [self.commits[at].sha for at in places[max(0, middle - reach) : middle + reach + 1]]

    def find_newest(self, machine: Machine, count: int) -> list[str]:
        """The newest ``count`` shas measured on a machine, oldest first."""
        return [self.commits[at].sha for at in self._positions_by_machine.get(machine, [])[-count:]]

    def find_releases(self, pattern: str, tags: Mapping[str, Collection[str]] | None = None) -> list[Release]:
        """The commits of the line with a tag that matches, oldest first.

        Of several tags the first by name counts.
        """
        releases = []
        for commit in self.commits:
            commit_tags = commit.tags if tags is None else tags.get(commit.sha, ())
            matching = sorted(tag for tag in commit_tags if fnmatchcase(tag, pattern))
            if matching:
                releases.append(Release(matching[0], commit.sha))
        return releases


def _follow_first_parents(commits: Mapping[str, Commit], measured: Collection[str]) -> set[str]:
    """The measured commits and all their first-parent ancestors, by sha."""
    ancestors: set[str] = set()
    for sha in measured:
        while sha in commits and sha not in ancestors:
            ancestors.add(sha)
            sha = next(iter(commits[sha].parents), "")
    return ancestors


def _group_visits(records: Iterable[VisitRecord]) -> dict[tuple[str, Machine], list[SessionVisit]]:
    """Group visits by commit and machine.

    An imported history is one session whose commits are visits of their own.
    """
    records = list(records)
    commits = Counter(record.session for record in records)
    visits: dict[tuple[str, Machine], list[SessionVisit]] = defaultdict(list)
    for record in records:
        name = record.session
        if record.kind == "import" and commits[name] > 1:
            name = f"{name} at {record.sha[:10]}"
        visit = SessionVisit(name, record.started_at, interleaved=record.rounds > 1)
        visits[record.sha, record.machine].append(visit)
    return visits


def _number_commits(records: Iterable[VisitRecord]) -> dict[str, int]:
    """Each commit's number among those first measured in its week, from one."""
    counts: Counter[tuple[int, int]] = Counter()
    numbers: dict[str, int] = {}
    for record in sorted(records, key=lambda record: (record.started_at, record.sha)):
        if record.sha not in numbers:
            week = record.started_at.isocalendar()[:2]
            counts[week] += 1
            numbers[record.sha] = counts[week]
    return numbers
