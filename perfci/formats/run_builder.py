"""A run of another tool's file, put together result by result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from perfci.formats import Document, Given, Quarantined, Warn
from perfci.formats.value_parsing import CONTROL, finite, shown
from perfci.model import (
    Benchmark,
    Boundaries,
    Clock,
    Commit,
    Environment,
    Machine,
    Metric,
    Pairs,
    PerfciError,
    Process,
    Result,
    Run,
    Series,
    Status,
    Summary,
    Variant,
)
from perfci.stats.location import median

MAX_RESULTS = 10_000
"""Results in one file; ten times what a run of perfci may hold over HTTP."""

MAX_PROCESSES = 10_000
"""Processes of one result; hyperfine's runs are that, and it stops after ten by default."""

MAX_NAME = 500

MOST_PARAMETERS = 64

UNKNOWN_MACHINE = "unknown"


class Assembly:
    """One run of a foreign file, put together result by result.

    What cannot be kept is told to ``warn``. The same series met again adds processes to what is there: a run holds
    each series once.
    """

    def __init__(
        self,
        tool: str,
        what: str,
        given: Given,
        warn: Warn,
        *,
        started_at: datetime,
        commit: Commit | None = None,
        machine: Machine | None = None,
        environment: Pairs = (),
        variant: Pairs = (),
    ) -> None:
        self._tool, self._what, self._warn = tool, what, warn
        self._given, self._started_at = given, started_at
        self._commit = commit or given.commit or _no_commit(what)
        self._machine = _shown(machine) if machine else Machine(name=given.machine or UNKNOWN_MACHINE)
        self._environment, self._variant = Environment(_told(environment)), Variant(_told(variant))
        self._results: dict[Series, Result] = {}
        self._quarantined: list[Quarantined] = []
        if commit is None:
            warn(f"{tool} does not say which commit it measured: taken to be {self._commit.short}")
        if not machine and not given.machine:
            warn(f"{tool} does not say on which machine it measured: give --machine NAME, or all machines are one line")

    def samples(
        self,
        benchmark: str,
        parameters: Pairs,
        metric: Metric,
        values: Iterable[object],
        clock: Clock,
        *,
        apart: bool = False,
        boundaries: Boundaries = Boundaries.PROCESS,
        number: int | None = None,
        version: str = "",
        flags: tuple[str, ...] = (),
    ) -> None:
        """Raw samples of one process, or where each is a process of its own (``apart``) of as many."""
        stored = list(values)
        numbers = [number for number in map(finite, stored) if number is not None]
        if len(numbers) < len(stored):
            self._warn(f"{benchmark}: some of its samples are no finite numbers; left out")
        if apart and len(numbers) > MAX_PROCESSES:
            raise PerfciError(
                f"{self._what} holds more than {MAX_PROCESSES} runs of one command, which nobody waits for."
            )
        groups = [(one,) for one in numbers] if apart else [tuple(numbers)] if numbers else []
        if not groups:
            return self.ended(benchmark, parameters, metric, Status.FAILED, "no sample is a number", version=version)
        processes = tuple(Process(index, samples=group, clock=clock, flags=flags) for index, group in enumerate(groups))
        summary = _summary_of(processes, boundaries)
        self._add(benchmark, parameters, metric, version, Status.OK, processes, summary, boundaries, number)
        return None

    def processes(
        self, benchmark: str, parameters: Pairs, metric: Metric, processes: Iterable[Process], *, version: str = ""
    ) -> None:
        """Processes that a file tells apart."""
        known = tuple(processes)
        self._add(benchmark, parameters, metric, version, Status.OK, known, None, Boundaries.PROCESS)

    def summary(
        self, benchmark: str, parameters: Pairs, metric: Metric, summary: Summary, *, version: str = ""
    ) -> None:
        """What a tool computed from samples that it did not write: shown and segmented, never compared in pairs."""
        self._add(benchmark, parameters, metric, version, Status.OK, (), summary, Boundaries.UNKNOWN)

    def ended(
        self, benchmark: str, parameters: Pairs, metric: Metric, status: Status, reason: str, *, version: str = ""
    ) -> None:
        """A result without a number, and why."""
        self._add(benchmark, parameters, metric, version, status, (), None, Boundaries.UNKNOWN, None, reason)

    def quarantine(
        self,
        benchmark: str,
        parameters: Pairs,
        metric: str,
        values: Iterable[object],
        clock: Clock,
        found: Mapping[str, Any],
        reason: str,
        *,
        boundaries: Boundaries = Boundaries.UNKNOWN,
    ) -> None:
        """A metric of unknown unit or direction: kept beside the run until somebody says them."""
        series = self._series(benchmark, parameters, Metric(metric, ""), "")
        numbers = [number for number in map(finite, values) if number is not None]
        if series is None or not numbers:
            return
        processes = (Process(0, samples=tuple(numbers), clock=clock),)
        result = Result(series, Status.OK, processes, _summary_of(processes, boundaries), boundaries)
        self._quarantined.append(Quarantined(metric, result, found, reason))

    def document(self, body: bytes) -> Document:
        """The run, its key and the hash of its body; a file has no place in its key, only what it says."""
        project, machine = self._given.project, self._machine
        body_hash = sha256(body).hexdigest()
        run = Run(
            project=project,
            session=f"{self._tool}-{_hash(project, repr(machine))[:16]}",
            commit=self._commit,
            machine=machine,
            environment=self._environment,
            variant=self._variant,
            suite=self._tool,
            harness=self._tool,
            started_at=self._started_at,
            origin=(("format", self._tool), ("file", Path(self._what).name)),
            results=tuple(self._results.values()),
        )
        key = _hash(project, self._tool, self._commit.sha, str(self._commit.dirty), repr(machine), body_hash)
        return Document(run, key, body_hash, quarantined=tuple(self._quarantined))

    def _add(
        self,
        benchmark: str,
        parameters: Pairs,
        metric: Metric,
        version: str,
        status: Status,
        processes: tuple[Process, ...],
        summary: Summary | None,
        boundaries: Boundaries,
        number: int | None = None,
        reason: str = "",
    ) -> None:
        series = self._series(benchmark, parameters, metric, version)
        if series is None:
            return
        new = Result(series, status, processes, summary, boundaries, number, reason)
        known = self._results.get(series)
        self._results[series] = new if known is None else _joined(known, new)

    def _series(self, benchmark: str, parameters: Pairs, metric: Metric, version: str) -> Series | None:
        """The series of a result, if its names are fit to be shown."""
        names = [benchmark, metric.name, *(one for pair in parameters for one in pair)]
        wrong = next((name for name in names if not _is_name(name)), None)
        if len(parameters) > MOST_PARAMETERS:
            self._warn(f"{benchmark} has more than {MOST_PARAMETERS} parameters; left out")
            return None
        if wrong is not None:
            self._warn(f"{wrong[:60]!a} is no name: 1 to {MAX_NAME} characters without control characters; left out")
            return None
        if len(self._results) >= MAX_RESULTS:
            raise PerfciError(f"{self._what} holds more than {MAX_RESULTS} results, which no run does.")
        return Series(
            Benchmark(benchmark, shown(version)), parameters, metric, self._machine, self._variant, self._tool
        )


def _is_name(told: str) -> bool:
    return 0 < len(told) <= MAX_NAME and not CONTROL.search(told)


def _told(values: Pairs) -> Pairs:
    """What is observed or chosen: as many as a run may hold, without what cannot be shown."""
    return tuple((name, shown(value)) for name, value in values if _is_name(name))[:MOST_PARAMETERS]


def _shown(machine: Machine) -> Machine:
    texts = {name: shown(getattr(machine, name)) for name in ("cpu", "accelerator", "name")}
    return replace(machine, **texts)  # type: ignore[arg-type]


def _joined(known: Result, new: Result) -> Result:
    """The same series met again in one file: its processes are counted on; without any the last summary counts."""
    if new.status is not Status.OK:
        return known
    if known.status is not Status.OK:
        return new
    start = len(known.processes)
    more = (replace(process, index=start + place) for place, process in enumerate(new.processes))
    processes = (*known.processes, *more)
    boundaries = known.boundaries if known.boundaries is new.boundaries else Boundaries.UNKNOWN
    return replace(
        new, processes=processes, boundaries=boundaries, summary=_summary_of(processes, boundaries) or new.summary
    )


def _summary_of(processes: Iterable[Process], boundaries: Boundaries) -> Summary | None:
    """One number for samples of which nobody knows the process; known processes have levels of their own."""
    samples = [sample for process in processes for sample in process.samples]
    return Summary(median(samples), n=len(samples)) if samples and boundaries is not Boundaries.PROCESS else None


def _no_commit(what: str) -> Commit:
    raise PerfciError(
        f"{what} does not say which commit it measured: give --commit SHA, or ingest it inside the repository."
    )


def _hash(*parts: str) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()
