"""Import result files of other tools into the store, all runs of a file or none."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy.orm import Session

from perfci.formats import run_document
from perfci.formats.format_types import ImportDefaults, ImportedRun
from perfci.history.result_summaries import summarize_processes
from perfci.model import Benchmark, Commit, PerfciError, Run
from perfci.service.uploads.read_result_files import FileReading, find_files
from perfci.service.uploads.resolve_units import (
    format_metric_option,
    resolve_waiting_results,
)
from perfci.store import Store, unresolved_results
from perfci.store.projects import find_project
from perfci.store.unresolved_results import UnitAnswer
from perfci.store.writes import ingest
from perfci.store.writes.ingest import ingest_runs, save_benchmark_descriptions

APPROXIMATE_ORDER = "commits ordered by date: no git repository was available"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts of one import; ``values`` and ``samples`` count new data only.

    ``unresolved`` results of what was read wait for a unit; ``resolved`` ones do no more, whenever they came.
    """

    runs_new: int = 0
    runs_known: int = 0
    values: int = 0
    samples: int = 0
    warnings: tuple[str, ...] = ()
    unresolved: int = 0
    resolved: int = 0

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(
            self.runs_new + other.runs_new,
            self.runs_known + other.runs_known,
            self.values + other.values,
            self.samples + other.samples,
            (*self.warnings, *other.warnings),
            self.unresolved + other.unresolved,
            self.resolved + other.resolved,
        )


def import_file_or_folder(
    store: Store,
    path: Path,
    format: str,
    project: str | ImportDefaults,
    known_commits: Mapping[str, Commit] | None = None,
    metric_units: Mapping[str, UnitAnswer] = MappingProxyType({}),
) -> IngestReport:
    """Import a file or the files of a folder (``auto`` detects formats by content), each in one transaction.

    ``known_commits`` are the commits of the local repository by sha; they complete commits that a file names.
    ``metric_units`` are the units and directions of metrics that perfci does not know.
    """
    defaults = project if isinstance(project, ImportDefaults) else ImportDefaults(project)
    reading = FileReading(defaults, known_commits or {})
    arriving = _RunImport(metric_units)
    report, unread = IngestReport(), list[PerfciError]()
    files = find_files(path, format, arriving.warn)
    for file, format_name in files:
        try:
            report += _import_file(store, reading, file, format_name, arriving)
        except PerfciError as error:
            if len(files) == 1:
                raise
            unread.append(error)
            arriving.warn(f"Left out: {error}")
    if len(unread) == len(files):
        raise PerfciError(f"{path}: no file can be read. The first: {unread[0]}")
    return replace(report, warnings=arriving.list_warnings())


def _import_file(
    store: Store, reading: FileReading, file: Path, format_name: str, arriving: _RunImport
) -> IngestReport:
    project = reading.defaults.project
    documents = reading.read_file(file, format_name, arriving.warn)
    arriving.begin_file()
    with _disable_gc(), store.begin() as tx:
        counts = ingest_runs(tx, arriving.runs(documents), summarize=summarize_processes)
        save_benchmark_descriptions(tx, project, arriving.descriptions)
        waiting, resolved = arriving.save_unresolved(tx, project, format_name, datetime.now(UTC))
        ingest.set_session_source(tx, sorted(arriving.unordered_sessions), APPROXIMATE_ORDER)
    return IngestReport(
        counts.runs_new,
        counts.runs_known,
        counts.values + resolved,
        counts.samples,
        unresolved=waiting,
        resolved=resolved,
    )


class _RunImport:
    """Runs of one import, with the warnings and unresolved units collected on the way."""

    def __init__(self, metric_units: Mapping[str, UnitAnswer]) -> None:
        self._warnings: Counter[str] = Counter()
        self._metric_units = metric_units
        self.begin_file()

    def begin_file(self) -> None:
        """Forget what belongs to the file before."""
        self.descriptions: dict[Benchmark, tuple[str, Mapping[str, Any]]] = {}
        self.unordered_sessions: set[str] = set()
        self._unresolved: list[ImportedRun] = []

    def warn(self, sentence: str) -> None:
        self._warnings[sentence] += 1

    def list_warnings(self) -> tuple[str, ...]:
        return tuple(f"{text} ({n} times)" if n > 1 else text for text, n in self._warnings.items())

    def runs(self, documents: Iterator[ImportedRun]) -> Iterator[tuple[Run, str, str]]:
        for document in documents:
            self.descriptions.update(document.benchmark_sources)
            if document.unresolved:
                self._unresolved.append(document)
            if document.run.commit.position is None:
                self.unordered_sessions.add(document.run.session)
            yield document.run, document.idempotency_key, document.body_hash

    def save_unresolved(self, tx: Session, project: str, format_name: str, at: datetime) -> tuple[int, int]:
        """Store results of unknown units beside their runs, and resolve those whose unit is known.

        Return how many results of this file wait, and how many do no more.
        """
        for document in self._unresolved:
            rows = [
                (
                    result.metric,
                    {
                        "found": result.source_fields,
                        "unit": result.unit_in_file,
                        "result": run_document.result_to_dict(result.result),
                    },
                    result.reason,
                )
                for result in document.unresolved
            ]
            unresolved_results.add_unresolved_results(tx, document.idempotency_key, format_name, rows, at)
        resolved = []
        if self._unresolved or self._metric_units:
            resolved = resolve_waiting_results(tx, project, self._metric_units, at)
        return self._warn_of_waiting(tx, project), len(resolved)

    def _warn_of_waiting(self, tx: Session, project: str) -> int:
        keys = {document.idempotency_key for document in self._unresolved}
        project_record = find_project(tx, project) if keys else None
        if project_record is None:
            return 0
        waiting = [
            record
            for record in unresolved_results.load_unresolved_results(tx, project_record.id)
            if record.run_key in keys
        ]
        for record in waiting:
            self.warn(
                f"{record.metric} has an unresolved unit: {record.reason}; it is judged once you say what it "
                f"means: {format_metric_option(record)}"
            )
        return len(waiting)


@contextlib.contextmanager
def _disable_gc() -> Iterator[None]:
    """Disable garbage collection: scanning millions of acyclic values would cost a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
