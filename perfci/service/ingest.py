"""Files of other tools become runs in the store, all of them or none."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.formats import Document, detect_format, format_named, read_documents
from perfci.model import Benchmark, Run
from perfci.store import Store
from perfci.store.writes import describe_benchmarks, ingest_runs


@dataclass(frozen=True, slots=True)
class IngestReport:
    """``runs_known`` were stored before; ``values`` and ``samples`` count only what is new."""

    runs_new: int
    runs_known: int
    values: int
    samples: int
    warnings: tuple[str, ...]


def ingest_path(store: Store, path: Path, format: str, project: str) -> IngestReport:
    """Read a file or folder of ``format`` (``auto`` looks at the content) in one transaction."""
    name = detect_format(path) if format == "auto" else format
    warnings: Counter[str] = Counter()
    described: dict[Benchmark, tuple[str, Mapping[str, Any]]] = {}
    documents = read_documents(path, name, project, lambda sentence: warnings.update([sentence]))
    with _without_collector(), store.begin() as tx:
        counts = ingest_runs(tx, _keyed(documents, described), changed=format_named(name).CHANGED)
        describe_benchmarks(tx, project, described)
    return IngestReport(
        runs_new=counts.runs_new,
        runs_known=counts.runs_known,
        values=counts.values,
        samples=counts.samples,
        warnings=tuple(f"{text} ({times} times)" if times > 1 else text for text, times in warnings.items()),
    )


def _keyed(
    documents: Iterator[Document], described: dict[Benchmark, tuple[str, Mapping[str, Any]]]
) -> Iterator[tuple[Run, str, str]]:
    """Pass runs on as they are read, noting what is told of benchmarks on the way."""
    for document in documents:
        described.update(document.described)
        yield document.run, document.key, document.body_hash


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
