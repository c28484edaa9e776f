"""The measurements of single commits by series, for the pages of a commit and of a comparison."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from perfci.model import Point, Process, Result, Role, Run, Series, Status
from perfci.report.series_trend import build_dots
from perfci.report.trend_dots import Dot


def merge_runs_into_dots(runs: Iterable[Run], left_out: Container[Series] = ()) -> dict[Series, Dot]:
    """Merge all runs of one commit into one dot for each series that is not left out."""
    results: dict[Series, list[tuple[Run, Result]]] = {}
    for run in runs:
        for result in run.results:
            if result.series in left_out:
                continue
            results.setdefault(result.series, []).append((run, result))
    dots = build_dots(_merge_point(pairs) for pairs in results.values())
    return {series: replace(dot, index=0) for series, dot in zip(results, dots, strict=True)}


def collect_processes_by_series(runs: Iterable[Run]) -> dict[Series, list[Process]]:
    """Collect the processes of runs by series; a result of summaries has none."""
    processes: dict[Series, list[Process]] = {}
    for run in runs:
        for result in run.results:
            processes.setdefault(result.series, []).extend(result.processes)
    return processes


def _merge_point(results: Sequence[tuple[Run, Result]]) -> Point:
    """Merge runs of a commit into one point; processes of pairs count only without processes of the
    history, and what is marked invalid only where all of it is.
    """
    marks = [result.invalid or run.invalid for run, result in results]
    results = [item for item, mark in zip(results, marks, strict=True) if mark is None] or results
    latest = results[-1][1]
    processes = [process for _, result in results for process in result.processes]
    history = [process for process in processes if process.role is Role.HISTORY]
    ok = any(result.status is Status.OK for _, result in results)
    return Point(
        commit=results[-1][0].commit,
        status=Status.OK if ok else latest.status,
        processes=tuple(_ok_processes(history) or _ok_processes(processes)),
        summary=next((result.summary for _, result in results if result.summary), None),
        boundaries=latest.boundaries,
        environment=results[-1][0].environment,
        reason="" if ok else latest.reason,
        invalid=marks[-1] if all(marks) else None,
    )


def _ok_processes(processes: Iterable[Process]) -> list[Process]:
    return [process for process in processes if process.status is Status.OK]
