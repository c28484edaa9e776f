"""Build a run from another tool's file, result by result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from perfci.formats import run_document
from perfci.formats.format_types import ImportDefaults, ImportedRun, UnknownUnitResult, WarnCallback
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

MAX_RESULTS = 10_000
"""Results in one file."""

MAX_PROCESSES = 10_000
"""Processes of one result; each run of hyperfine is one, and by default it stops after ten."""

MAX_NAME_LENGTH = 500

MAX_PARAMETERS = 64

UNKNOWN_MACHINE = "unknown"


class RunBuilder:
    """Builder of one run from a foreign file.

    ``warn`` receives a sentence about each value that cannot be kept. A run holds each series once: a
    repeated series adds its processes to the existing result.
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
        self._tool, self._source_name, self._warn = tool, source_name, warn
        self._defaults, self._started_at = defaults, started_at
        assumed_commit = commit or defaults.commit
        if assumed_commit is None:
            raise PerfciError(
                f"{source_name} does not say which commit it measured: "
                "give --commit SHA, or ingest it inside the repository."
            )
        self._commit = assumed_commit
        self._machine = Machine(name=defaults.machine or UNKNOWN_MACHINE)
        if machine:
            texts = {name: sanitize_text(getattr(machine, name)) for name in ("cpu", "accelerator", "name")}
            self._machine = replace(machine, **texts)  # type: ignore[arg-type]
        self._environment = Environment(_sanitize_pairs(environment))
        self._variant = Variant(_sanitize_pairs(variant))
        self._results: dict[Series, Result] = {}
        self._unresolved: list[UnknownUnitResult] = []
        if commit is None:
            warn(f"{tool} does not say which commit it measured: assumed to be {self._commit.short_sha}")
        if not machine and not defaults.machine:
            warn(
                f"{tool} does not say on which machine it measured: "
                "give --machine NAME, or all machines count as one"
            )

    def add_result_from_samples(
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
        """Add raw samples of one process, or of one process each with ``process_per_sample``."""
        stored = list(values)
        numbers = [number for number in map(parse_finite, stored) if number is not None]
        if len(numbers) < len(stored):
            self._warn(f"{benchmark}: non-finite samples were skipped")
        if process_per_sample and len(numbers) > MAX_PROCESSES:
            raise PerfciError(
                f"{self._source_name} holds more than {MAX_PROCESSES} runs of one command: too many."
            )
        if not numbers:
            return self.add_result_without_value(
                benchmark, parameters, metric, Status.FAILED, "no sample is a number", version=version
            )
        groups = [(sample,) for sample in numbers] if process_per_sample else [tuple(numbers)]
        processes = tuple(
            Process(index, samples=group, clock=clock, flags=flags) for index, group in enumerate(groups)
        )
        summary = _summarize(processes, boundaries)
        self._add_result(
            benchmark, parameters, metric, version, Status.OK, processes, summary, boundaries, number
        )
        return None

    def add_result_from_processes(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        processes: Iterable[Process],
        *,
        version: str = "",
    ) -> None:
        """Add a result whose processes the file keeps apart."""
        self._add_result(
            benchmark,
            parameters,
            metric,
            version,
            Status.OK,
            tuple(processes),
            None,
            ProcessBoundaries.PROCESS,
        )

    def add_result_from_summary(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        summary: SampleSummary,
        *,
        version: str = "",
    ) -> None:
        """Add a summary without its samples: shown and segmented, never compared in pairs."""
        self._add_result(
            benchmark, parameters, metric, version, Status.OK, (), summary, ProcessBoundaries.UNKNOWN
        )

    def add_result_without_value(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: Metric,
        status: Status,
        reason: str,
        *,
        version: str = "",
    ) -> None:
        """Add a result without a number, and the reason."""
        self._add_result(
            benchmark, parameters, metric, version, status, (), None, ProcessBoundaries.UNKNOWN, None, reason
        )

    def add_unresolved_result(
        self,
        benchmark: str,
        parameters: NamedValues,
        metric: str,
        values: Iterable[object],
        clock: Clock,
        source_fields: Mapping[str, Any],
        reason: str,
        *,
        unit: str = "",
        boundaries: ProcessBoundaries = ProcessBoundaries.UNKNOWN,
    ) -> None:
        """Add a metric of unknown unit or direction, kept beside the run until both are declared."""
        series = self._build_series(benchmark, parameters, Metric(metric, ""), "")
        numbers = [number for number in map(parse_finite, values) if number is not None]
        if series is None or not numbers:
            return
        processes = (Process(0, samples=tuple(numbers), clock=clock),)
        result = Result(series, Status.OK, processes, _summarize(processes, boundaries), boundaries)
        self._unresolved.append(UnknownUnitResult(metric, result, source_fields, reason, unit))

    def build(self, body: bytes) -> ImportedRun:
        """Build the run with its idempotency key and body hash.

        The source of a run is what its file measured and holds, whatever the file is called: the same file
        again is known, and another one of the same commit and machine is a session of its own.
        """
        project, machine = self._defaults.project, self._machine
        body_hash = sha256(body).hexdigest()
        source = hash_texts(
            project, self._tool, self._commit.sha, str(self._commit.dirty), repr(machine), body_hash
        )
        run = Run(
            project=project,
            session=f"{self._tool}-{source[:16]}",
            commit=self._commit,
            machine=machine,
            environment=self._environment,
            variant=self._variant,
            suite=self._tool,
            harness=self._tool,
            started_at=self._started_at,
            origin=build_origin(self._tool, Path(self._source_name).name, source, self._defaults.origin),
            results=tuple(self._results.values()),
        )
        return ImportedRun(
            run, run_document.idempotency_key(run), body_hash, unresolved=tuple(self._unresolved)
        )

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
        existing = self._results.get(series)
        self._results[series] = new if existing is None else _merge_results(existing, new)

    def _build_series(
        self, benchmark: str, parameters: NamedValues, metric: Metric, version: str
    ) -> Series | None:
        """Build the series of a result, or warn and return None if its names are invalid."""
        names = [benchmark, metric.name, *(text for pair in parameters for text in pair)]
        invalid = next((name for name in names if not _is_name(name)), None)
        if len(parameters) > MAX_PARAMETERS:
            self._warn(f"{benchmark} has more than {MAX_PARAMETERS} parameters; skipped")
            return None
        if invalid is not None:
            self._warn(
                f"{invalid[:60]!a} is not a valid name: "
                f"1 to {MAX_NAME_LENGTH} characters without control characters; skipped"
            )
            return None
        if len(self._results) >= MAX_RESULTS:
            raise PerfciError(f"{self._source_name} holds too many results: the limit is {MAX_RESULTS}.")
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
    """Drop pairs with invalid names, sanitize values and keep at most ``MAX_PARAMETERS``."""
    return tuple((name, sanitize_text(value)) for name, value in values if _is_name(name))[:MAX_PARAMETERS]


def _merge_results(existing: Result, new: Result) -> Result:
    """Merge a repeated series: processes are appended; without processes the last summary is kept."""
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
    """Return the median of all samples if their processes are unknown; else verdicts compute the level."""
    samples = [sample for process in processes for sample in process.samples]
    if not samples or boundaries is ProcessBoundaries.PROCESS:
        return None
    return SampleSummary(float(median(samples)), n=len(samples))


def build_origin(tool: str, file: str, source: str, job: NamedValues) -> NamedValues:
    """Build the origin of a run of another tool: its file, its ``source``, and the job that reads it."""
    return (("format", tool), ("file", file), ("source", source), *job)


def hash_texts(*parts: str) -> str:
    """Hash texts in their order, so that no two lists of texts give one hash by running together."""
    return sha256(json.dumps(parts).encode()).hexdigest()
