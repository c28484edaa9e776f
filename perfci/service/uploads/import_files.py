"""Files of other tools become runs in the store, all of them or none."""

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

from perfci.formats import Document, Given, detect_format, format_named, read_documents, run_document
from perfci.model import Benchmark, Commit, Run
from perfci.service.uploads.unresolved_units import apply_answers
from perfci.store import Store
from perfci.store.queries import unresolved_results
from perfci.store.queries.unresolved_results import Answer
from perfci.store.writes.ingest import describe_benchmarks, ingest_runs
from perfci.verdicts.process_levels import digest

APPROXIMATE = "commits ordered by date: their git was not at hand"


@dataclass(frozen=True, slots=True)
class IngestReport:
    """``runs_known`` were stored before; ``values`` and ``samples`` count only what is new."""

    runs_new: int
    runs_known: int
    values: int
    samples: int
    warnings: tuple[str, ...]
    quarantined: int = 0


def ingest_path(
    store: Store,
    path: Path,
    format: str,
    project: str | Given,
    line: Mapping[str, Commit] | None = None,
    meanings: Mapping[str, Answer] = MappingProxyType({}),
) -> IngestReport:
    """Read a file or folder of ``format`` (``auto`` looks at the content) in one transaction.

    ``line`` are the commits of the repository at hand by sha: what a file only names is completed from there.
    ``meanings`` are units and directions of metrics that perfci does not know.
    """
    name = detect_format(path) if format == "auto" else format
    given = project if isinstance(project, Given) else Given(project)
    arriving = _Arriving(line or {}, meanings)
    documents = read_documents(path, name, given, lambda sentence: arriving.warnings.update([sentence]))
    with _without_collector(), store.begin() as tx:
        counts = ingest_runs(tx, arriving.runs(documents), changed=format_named(name).CHANGED, came_to=digest)
        describe_benchmarks(tx, given.project, arriving.described)
        quarantined = arriving.keep_apart(tx, given.project, name, datetime.now(UTC))
        unresolved_results.say_source(tx, sorted(arriving.unplaced), APPROXIMATE)
    return IngestReport(
        runs_new=counts.runs_new,
        runs_known=counts.runs_known,
        values=counts.values,
        samples=counts.samples,
        warnings=tuple(f"{text} ({n} times)" if n > 1 else text for text, n in arriving.warnings.items()),
        quarantined=quarantined,
    )


class _Arriving:
    """Runs on their way into the store, and what is learnt while they pass."""

    def __init__(self, line: Mapping[str, Commit], meanings: Mapping[str, Answer]) -> None:
        self.warnings: Counter[str] = Counter()
        self.described: dict[Benchmark, tuple[str, Mapping[str, Any]]] = {}
        self.unplaced: set[str] = set()
        self._apart: list[Document] = []
        self._line, self._meanings = line, meanings

    def runs(self, documents: Iterator[Document]) -> Iterator[tuple[Run, str, str]]:
        for document in documents:
            self.described.update(document.described)
            if document.quarantined:
                self._apart.append(document)
            yield self._placed(document.run), document.key, document.body_hash

    def keep_apart(self, tx: Session, project: str, format_name: str, at: datetime) -> int:
        """Store what nobody can judge yet beside its run."""
        kept = 0
        for document in self._apart:
            rows = [
                (one.metric, {"found": one.found, "result": run_document.result_content(one.result)}, one.reason)
                for one in document.quarantined
            ]
            kept += unresolved_results.add(tx, document.key, format_name, rows, at)
        resolved = apply_answers(tx, project, self._meanings, at) if kept else set[str]()
        for one in (one for document in self._apart for one in document.quarantined):
            if one.metric not in resolved:
                self.warnings[f"{one.metric} is kept apart: {one.reason}"] += 1
        return kept

    def _placed(self, run: Run) -> Run:
        """A run with all that git knows of its commit; without it the order of its history is that of dates."""
        found = self._line.get(run.commit.sha) or self._abbreviated(run.commit.sha)
        if found is not None:
            return replace(run, commit=replace(found, dirty=run.commit.dirty))
        if run.commit.position is None:
            self.unplaced.add(run.session)
        return run

    def _abbreviated(self, sha: str) -> Commit | None:
        if len(sha) >= 40:
            return None
        found = [commit for full, commit in self._line.items() if full.startswith(sha)]
        return found[0] if len(found) == 1 else None


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Millions of small values that hold no cycles pass through: searching them for some costs a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
