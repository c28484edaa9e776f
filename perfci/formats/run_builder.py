"""A run of another tool's file, put together result by result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from perfci.formats.protocol import ImportDefaults, ImportedRun, UnknownUnitResult, WarnCallback
from perfci.formats.value_parsing import CONTROL_CHARACTERS, parse_finite, sanitize_text
from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    Environment,
    Machine,
    Metric,
    NamedValues,
    PerfciError,
    Process,
    ProcessBoundaries,
    Result,
    Run,
    SampleSummary,
    Series,
    Status,
    Variant,
)
from perfci.stats.location import median

MAX_RESULTS = 10_000
"""Results in one file; ten times what a run of perfci may hold over HTTP."""

MAX_PROCESSES = 10_000
"""Processes of one result; hyperfine's runs are that, and it stops after ten by default."""

MAX_NAME_LENGTH = 500

MAX_PARAMETERS = 64

UNKNOWN_MACHINE = "unknown"


class RunBuilder:
    """One run of a foreign file, put together result by result.

    What cannot be kept is told to ``warn``. The same series met again adds processes to what is there: a run holds
    each series once.
    """

    def __init__(
        self,
        tool: str,
        source_name: str,
        defaults: ImportDefaults,
        warn: WarnCallback,
        *,
        started_at: datetime,
        commit: Commit | None = None,
        machine: Machine | None = None,
        environment: NamedValues = (),
        variant: NamedValues = (),
    ) -> None:
        self._tool, self._what, self._warn = tool, source_name, warn
        self._given, self._started_at = defaults, started_at
        self._commit = commit or defaults.commit or _raise_no_commit(source_name)
        self._machine = (
            _sanitize_machine(machine) if machine else Machine(name=defaults.machine or UNKNOWN_MACHINE)
        )
        self._environment, self._variant = (
            Environment(_sanitize_pairs(environment)),
            Variant(_sanitize_pairs(variant)),
        )
        self._results: dict[Series, Result] = {}
        self._quarantined: list[UnknownUnitResult] = []
        if commit is None:
            warn(f"{tool} does not say which commit it measured: assumed to be {self._commit.short_sha}")
        if not machine and not defaults.machine:
            warn(
                f"{tool} does not say on which machine it measured: give --machine NAME, or all machines count as one"
            )

    def add_samples(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        values: Iterable[object],
        clock: Clock,
        *,
        process_per_sample: bool = False,
        boundaries: ProcessBoundaries = ProcessBoundaries.PROCESS,
        number: int | None = None,
        version: str = "",
        flags: tuple[str, ...] = (),
    ) -> None:
        """Raw samples of one process, or where each is a process of its own (``apart``) of as many."""
        stored = list(values)
        numbers = [number for number in map(parse_finite, stored) if number is not None]
        if len(numbers) < len(stored):
            self._warn(f"{benchmark}: non-finite samples were skipped")
        if process_per_sample and len(numbers) > MAX_PROCESSES:
            raise PerfciError(f"{self._what} holds more than {MAX_PROCESSES} runs of one command: too many.")
        groups = [(one,) for one in numbers] if process_per_sample else [tuple(numbers)] if numbers else []
        if not groups:
            return self.add_without_value(
                benchmark, parameters, metric, Status.FAILED, "no sample is a number", version=version
            )
        processes = tuple(
            Process(index, samples=group, clock=clock, flags=flags) for index, group in enumerate(groups)
        )
        summary = _summarize(processes, boundaries)
        self._add_result(
            benchmark, parameters, metric, version, Status.OK, processes, summary, boundaries, number
        )
        return None

    def add_processes(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        processes: Iterable[Process],
        *,
        version: str = "",
    ) -> None:
        """Processes that a file tells apart."""
        known = tuple(processes)
        self._add_result(
            benchmark, parameters, metric, version, Status.OK, known, None, ProcessBoundaries.PROCESS
        )

    def add_summary(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        summary: SampleSummary,
        *,
        version: str = "",
    ) -> None:
        """What a tool computed from samples that it did not write: shown and segmented, never compared in pairs."""
        self._add_result(
            benchmark, parameters, metric, version, Status.OK, (), summary, ProcessBoundaries.UNKNOWN
        )

    def add_without_value(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        status: Status,
        reason: str,
        *,
        version: str = "",
    ) -> None:
        """A result without a number, and why."""
        self._add_result(
            benchmark, parameters, metric, version, status, (), None, ProcessBoundaries.UNKNOWN, None, reason
        )

    def add_unresolved(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: str,
        values: Iterable[object],
        clock: Clock,
        source_fields: Mapping[str, Any],
        reason: str,
        *,
        boundaries: ProcessBoundaries = ProcessBoundaries.UNKNOWN,
    ) -> None:
        """A metric of unknown unit or direction: kept beside the run until somebody says them."""
        series = self._build_series(benchmark, parameters, Metric(metric, ""), "")
        numbers = [number for number in map(parse_finite, values) if number is not None]
        if series is None or not numbers:
            return
        processes = (Process(0, samples=tuple(numbers), clock=clock),)
        result = Result(series, Status.OK, processes, _summarize(processes, boundaries), boundaries)
        self._quarantined.append(UnknownUnitResult(metric, result, source_fields, reason))

    def build(self, body: bytes) -> ImportedRun:
        """The run, its key and the hash of its body; a file has no place in its key, only what it says."""
        project, machine = self._given.project, self._machine
        body_hash = sha256(body).hexdigest()
        run = Run(
            project=project,
            session=f"{self._tool}-{_hash_parts(project, repr(machine))[:16]}",
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
        key = _hash_parts(
            project, self._tool, self._commit.sha, str(self._commit.dirty), repr(machine), body_hash
        )
        return ImportedRun(run, key, body_hash, unresolved=tuple(self._quarantined))

    def _add_result(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        version: str,
        status: Status,
        processes: tuple[Process, ...],
        summary: SampleSummary | None,
        boundaries: ProcessBoundaries,
        number: int | None = None,
        reason: str = "",
    ) -> None:
        series = self._build_series(benchmark, parameters, metric, version)
        if series is None:
            return
        new = Result(series, status, processes, summary, boundaries, number, reason)
        known = self._results.get(series)
        self._results[series] = new if known is None else _merge_results(known, new)

    def _build_series(
        self, benchmark: str, parameters: NamedValues, metric: Metric, version: str
    ) -> Series | None:
        """The series of a result, if its names are fit to be shown."""
        names = [benchmark, metric.name, *(one for pair in parameters for one in pair)]
        wrong = next((name for name in names if not _is_name(name)), None)
        if len(parameters) > MAX_PARAMETERS:
            self._warn(f"{benchmark} has more than {MAX_PARAMETERS} parameters; skipped")
            return None
        if wrong is not None:
            self._warn(
                f"{wrong[:60]!a} is not a valid name: 1 to {MAX_NAME_LENGTH} characters without control characters; skipped"
            )
            return None
        if len(self._results) >= MAX_RESULTS:
            raise PerfciError(f"{self._what} holds too many results: the limit is {MAX_RESULTS}.")
        return Series(
            Benchmark(benchmark, sanitize_text(version)),
            parameters,
            metric,
            self._machine,
            self._variant,
            self._tool,
        )


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_LENGTH and not CONTROL_CHARACTERS.search(text)


def _sanitize_pairs(values: NamedValues) -> NamedValues:
    """What is observed or chosen: as many as a run may hold, without what cannot be shown."""
    return tuple((name, sanitize_text(value)) for name, value in values if _is_name(name))[:MAX_PARAMETERS]


def _sanitize_machine(machine: Machine) -> Machine:
    texts = {name: sanitize_text(getattr(machine, name)) for name in ("cpu", "accelerator", "name")}
    return replace(machine, **texts)  # type: ignore[arg-type]


def _merge_results(existing: Result, new: Result) -> Result:
    """The same series met again in one file: its processes are counted on; without any the last summary counts."""
    if new.status is not Status.OK:
        return existing
    if existing.status is not Status.OK:
        return new
    start = len(existing.processes)
    more = (replace(process, index=start + place) for place, process in enumerate(new.processes))
    processes = (*existing.processes, *more)
    boundaries = existing.boundaries if existing.boundaries is new.boundaries else ProcessBoundaries.UNKNOWN
    return replace(
        new,
        processes=processes,
        boundaries=boundaries,
        summary=_summarize(processes, boundaries) or new.summary,
    )


def _summarize(processes: Iterable[Process], boundaries: ProcessBoundaries) -> SampleSummary | None:
    """One number for samples of which nobody knows the process; known processes have levels of their own."""
    samples = [sample for process in processes for sample in process.samples]
    return (
        SampleSummary(median(samples), n=len(samples))
        if samples and boundaries is not ProcessBoundaries.PROCESS
        else None
    )


def _raise_no_commit(source_name: str) -> Commit:
    raise PerfciError(
        f"{source_name} does not say which commit it measured: give --commit SHA, or ingest it inside the repository."
    )


def _hash_parts(*parts: str) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()
