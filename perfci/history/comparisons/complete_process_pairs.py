"""Find the complete pairs of processes of two commits in a session, and the judged processes in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfci.history.judged_processes import group_judged_processes
from perfci.model import Measured, Process, Role, Series

ProcessesByCommit = Mapping[str, Sequence[Measured]]
"""The processes of the compared cells, by commit."""


PairCommits = Mapping[int, Mapping[Role, str]]
"""The base and the head of each pair of a session, by the number of the pair."""


PairedProcesses = tuple[list[Process], list[Process]]
"""The processes of the base and of the head."""


def find_complete_pair_numbers(
    readings: ProcessesByCommit, base: str, head: str, pair_commits: PairCommits
) -> list[int]:
    """The numbers of the pairs measured at both of these commits, in the order they were measured.

    A session interrupted between base and head leaves half a pair, which would pass for a head that failed.
    """
    sides = {Role.BASE: base, Role.HEAD: head}
    roles: dict[int | None, set[Role]] = {}
    for rows in readings.values():
        for _, process in rows:
            roles.setdefault(process.pair, set()).add(process.role)
    return sorted(
        number
        for number, measured_roles in roles.items()
        if number is not None and measured_roles == set(sides) and pair_commits.get(number) == sides
    )


def select_paired_processes(
    readings: ProcessesByCommit, base: str, head: str, pairs: Sequence[int]
) -> dict[Series, PairedProcesses]:
    """The judged series with the processes of these pairs on both sides."""
    numbers = set(pairs)
    selected = {
        sha: [(series, process) for series, process in rows if process.pair in numbers]
        for sha, rows in readings.items()
    }
    return {
        series: (_select_role(by_sha.get(base, ()), Role.BASE), _select_role(by_sha.get(head, ()), Role.HEAD))
        for series, by_sha in group_judged_processes(selected).items()
    }


def _select_role(processes: Sequence[Process], role: Role) -> list[Process]:
    return [process for process in processes if process.role is role]
