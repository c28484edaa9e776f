"""The histories of a project as bytes of another format, as they are read."""

from __future__ import annotations

from collections.abc import Iterator

from perfci.formats import WRITER_MODULES, WarnCallback, csv_export, get_writer
from perfci.model import Run
from perfci.report.escaping import escape_csv_cell
from perfci.store import Store
from perfci.store.queries.measurements import load_run
from perfci.store.queries.run_lookup import load_history_run_ids

EXPORT_FORMATS = ("csv", *WRITER_MODULES)


def export_history(
    store: Store, project: str, format: str, on_loss: WarnCallback, *, samples: bool = False
) -> Iterator[bytes]:
    """``lost`` takes a sentence for each thing the format cannot say; ``samples`` makes CSV a row for each of them."""
    if format == "csv":
        return _export_csv(store, project, samples)
    return get_writer(format).write(_load_runs(store, project), on_loss)


def _export_csv(store: Store, project: str, samples: bool) -> Iterator[bytes]:
    with store.read() as tx:
        for line in csv_export.export_csv(tx, project, samples=samples, write_name=escape_csv_cell):
            yield line.encode()


def _load_runs(store: Store, project: str) -> Iterator[Run]:
    """Each commit in a transaction of its own: a reader that stays for minutes would keep the log from being cut."""
    with store.read() as tx:
        of_commits = load_history_run_ids(tx, project)
    for ids in of_commits:
        with store.read() as tx:
            runs = [load_run(tx, run_id) for run_id in ids]
        yield from runs
