"""Result summaries: level, clock and spread of one result, so that histories are judged without samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from perfci.model import Process, ResultSummary, Status
from perfci.verdicts.cpu_time_share import MIN_CPU_SHARE
from perfci.verdicts.process_levels import process_level
from perfci.verdicts.usable_processes import select_usable_processes


def summarize_processes(processes: Sequence[Process]) -> ResultSummary | None:
    """Summarise processes; None if none of them ended well."""
    clocks = {process.clock for process in processes if process.status is Status.OK}
    if not clocks:
        return None
    clock = clocks.pop() if len(clocks) == 1 else None
    # flagged processes keep the clock known, but their samples are never part of a level
    judged = select_usable_processes(processes)
    if not judged:
        return ResultSummary(None, clock, None)
    level = median([process_level(process) for process in judged])
    samples = [sample for process in judged for sample in process.samples]
    return ResultSummary(level, clock, max(samples) - min(samples))


def is_cpu_bound_by_levels(cpu: Mapping[int, float], wall: Mapping[int, float]) -> bool:
    """Whether levels alone show it: if every sample had a small CPU share, so would the levels."""
    return any(
        level >= MIN_CPU_SHARE * wall[commit] for commit, level in cpu.items() if wall.get(commit, 0) > 0
    )
