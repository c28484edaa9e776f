"""Which processes of a benchmark are judged, left out for their flags, or shown."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Process, Status

DISQUALIFYING_PREFIXES = ("throttled", "shared_gpu")
"""Prefixes of flags of processes that did not have the machine to themselves: shown, never judged."""


def select_usable_processes(processes: Sequence[Process]) -> list[Process]:
    """Processes that ended well without a disqualifying flag."""
    return [
        process for process in processes if process.status is Status.OK and not disqualifying_flags(process)
    ]


def select_disqualified_processes(processes: Sequence[Process]) -> list[Process]:
    """Processes that ended well with a disqualifying flag."""
    return [process for process in processes if process.status is Status.OK and disqualifying_flags(process)]


def select_displayed_processes(processes: Sequence[Process]) -> list[Process]:
    """Usable processes, or all that ended well if every one is flagged."""
    return select_usable_processes(processes) or [
        process for process in processes if process.status is Status.OK
    ]


def disqualifying_flags(process: Process) -> list[str]:
    """The disqualifying flags of a process."""
    return [flag for flag in process.flags if flag.startswith(DISQUALIFYING_PREFIXES)]
