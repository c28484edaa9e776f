"""Import result files of other tools into the store, all runs or none."""

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
from perfci.formats.format_registry import detect_format, get_reader, read_imported_runs
from perfci.formats.format_types import ImportDefaults, ImportedRun
from perfci.model import Benchmark, Commit, Run
from perfci.service.uploads.results_without_unit import add_results_of_known_units
from perfci.store import Store, unresolved_results
from perfci.store.unresolved_results import UnitAnswer
from perfci.store.writes import ingest
from perfci.store.writes.ingest import ingest_runs, save_benchmark_descriptions
from perfci.verdicts.process_levels import summarize_processes

APPROXIMATE_ORDER = "commits ordered by date: no git repository was available"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Counts of one import; ``values`` and ``samples`` count new data only."""

    runs_new: int
    runs_known: int
    values: int
    samples: int
    warnings: tuple[str, ...]
    unresolved: int = 0


def import_file_or_folder(
    store: Store,
    path: Path,
    format: str,
    project: str | ImportDefaults,
    known_commits: Mapping[str, Commit] | None = None,
    metric_units: Mapping[str, UnitAnswer] = MappingProxyType({}),
) -> IngestReport:
    """Import a file or folder of ``format`` (``auto`` detects it from the content) in one transaction.

    ``known_commits`` are the commits of the local repository by sha; they complete commits that a file names.
    ``metric_units`` are the units and directions of metrics that perfci does not know.
    """
    name = detect_format(path) if format == "auto" else format
    defaults = project if isinstance(project, ImportDefaults) else ImportDefaults(project)
    arriving = _RunImport(known_commits or {}, metric_units)
    documents = read_imported_runs(
        path, name, defaults, lambda sentence: arriving.warnings.update([sentence])
    )
    with _disable_gc(), store.begin() as tx:
        counts = ingest_runs(
            tx,
            arriving.runs(documents),
            on_changed=get_reader(name).ON_CHANGED_BODY,
            summarize=summarize_processes,
        )
        save_benchmark_descriptions(tx, defaults.project, arriving.descriptions)
        unresolved_count = arriving.save_unresolved(tx, defaults.project, name, datetime.now(UTC))
        ingest.set_session_source(tx, sorted(arriving.unordered_sessions), APPROXIMATE_ORDER)
    return IngestReport(
        runs_new=counts.runs_new,
        runs_known=counts.runs_known,
        values=counts.values,
        samples=counts.samples,
        warnings=tuple(f"{text} ({n} times)" if n > 1 else text for text, n in arriving.warnings.items()),
        unresolved=unresolved_count,
    )


class _RunImport:
    """Runs of one import, with the warnings and unresolved units collected on the way."""

    def __init__(self, known_commits: Mapping[str, Commit], metric_units: Mapping[str, UnitAnswer]) -> None:
        self.warnings: Counter[str] = Counter()
        self.descriptions: dict[Benchmark, tuple[str, Mapping[str, Any]]] = {}
        self.unordered_sessions: set[str] = set()
        self._unresolved: list[ImportedRun] = []
        self._known_commits, self._metric_units = known_commits, metric_units

    def runs(self, documents: Iterator[ImportedRun]) -> Iterator[tuple[Run, str, str]]:
        for document in documents:
            self.descriptions.update(document.benchmark_sources)
            if document.unresolved:
                self._unresolved.append(document)
            yield self._complete_commit(document.run), document.idempotency_key, document.body_hash

    def save_unresolved(self, tx: Session, project: str, format_name: str, at: datetime) -> int:
        """Store results of unknown units beside their runs; return how many."""
        unresolved_count = 0
        for document in self._unresolved:
            rows = [
                (
                    result.metric,
                    {"found": result.source_fields, "result": run_document.result_to_dict(result.result)},
                    result.reason,
                )
                for result in document.unresolved
            ]
            unresolved_count += unresolved_results.add_unresolved_results(
                tx, document.idempotency_key, format_name, rows, at
            )
        resolved = (
            add_results_of_known_units(tx, project, self._metric_units, at)
            if unresolved_count
            else set[str]()
        )
        for result in (result for document in self._unresolved for result in document.unresolved):
            if result.metric not in resolved:
                self.warnings[f"{result.metric} has an unresolved unit: {result.reason}"] += 1
        return unresolved_count

    def _complete_commit(self, run: Run) -> Run:
        """Complete the commit of a run from git; without it the history is ordered by date."""
        commit = self._known_commits.get(run.commit.sha) or self._find_by_prefix(run.commit.sha)
        if commit is not None:
            return replace(run, commit=replace(commit, dirty=run.commit.dirty))
        if run.commit.position is None:
            self.unordered_sessions.add(run.session)
        return run

    def _find_by_prefix(self, sha: str) -> Commit | None:
        if len(sha) >= 40:
            return None
        commits = [commit for full, commit in self._known_commits.items() if full.startswith(sha)]
        return commits[0] if len(commits) == 1 else None


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
