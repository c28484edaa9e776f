"""The histories of a project as bytes of another format, as they are read."""

from __future__ import annotations

from collections.abc import Iterator

from perfci.formats import WRITERS, Warn, csv_export, writer_named
from perfci.model import Run
from perfci.report.escaping import csv_cell
from perfci.store import Store
from perfci.store.exports import history_runs
from perfci.store.queries.measurements import load_run

EXPORTS = ("csv", *WRITERS)


def export(store: Store, project: str, format: str, lost: Warn, *, samples: bool = False) -> Iterator[bytes]:
    """``lost`` takes a sentence for each thing the format cannot say; ``samples`` makes CSV a row for each of them."""
    if format == "csv":
        return _table(store, project, samples)
    return writer_named(format).write(_runs(store, project), lost)


def _table(store: Store, project: str, samples: bool) -> Iterator[bytes]:
    with store.read() as tx:
        for line in csv_export.export(tx, project, samples=samples, named=csv_cell):
            yield line.encode()


def _runs(store: Store, project: str) -> Iterator[Run]:
    """Each commit in a transaction of its own: a reader that stays for minutes would keep the log from being cut."""
    with store.read() as tx:
        of_commits = history_runs(tx, project)
    for ids in of_commits:
        with store.read() as tx:
            runs = [load_run(tx, run_id) for run_id in ids]
        yield from runs
