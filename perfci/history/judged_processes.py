"""Stored processes of the judged series, by commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfci.model import Clock, Process, Series, Status
from perfci.verdicts.judged_series import (
    collect_statuses_and_clocks,
    pair_cpu_with_wall_series,
    select_judged_series,
)

ProcessesByCommit = dict[str, list[Process]]
"""Processes of one series by sha."""


def group_judged_processes(
    measured: Mapping[str, Iterable[tuple[Series, Process]]],
) -> dict[Series, ProcessesByCommit]:
    """Judged series with their processes by commit."""
    processes: dict[Series, ProcessesByCommit] = {}
    for sha, rows in measured.items():
        for series, process in rows:
            processes.setdefault(series, {}).setdefault(sha, []).append(process)
    pooled = {
        series: [process for commit_processes in by_sha.values() for process in commit_processes]
        for series, by_sha in processes.items()
    }
    twins = pair_cpu_with_wall_series(collect_statuses_and_clocks(pooled))
    return {
        series: _add_failures(processes[series], processes[twins[series]])
        if series in twins
        else processes[series]
        for series in select_judged_series(pooled)
    }


def _add_failures(cpu: ProcessesByCommit, wall: ProcessesByCommit) -> ProcessesByCommit:
    """Add failed processes to the CPU series: one that returned nothing is stored under the metric
    it was to return only."""
    merged = {sha: list(processes) for sha, processes in cpu.items()}
    for sha, processes in wall.items():
        failed = [
            replace(process, clock=Clock.CPU) for process in processes if process.status is not Status.OK
        ]
        new = [process for process in failed if process not in cpu.get(sha, ())]
        if new:
            merged[sha] = merged.get(sha, []) + new
    return merged
