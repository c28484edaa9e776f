"""Export the histories of a project as a stream of bytes in another format."""

from __future__ import annotations

from collections.abc import Iterator

from perfci.formats import history_csv_writer
from perfci.formats.format_registry import WRITER_MODULES, get_writer
from perfci.formats.format_types import WarnCallback
from perfci.model import Run
from perfci.report.escaping import escape_csv_cell
from perfci.store import Store
from perfci.store.queries.measured_samples import load_points_in_sha_order, load_run
from perfci.store.queries.runs_and_sessions import load_history_run_ids

EXPORT_FORMATS = ("csv", *WRITER_MODULES)


def export_history(
    store: Store, project: str, format: str, on_loss: WarnCallback, *, samples: bool = False
) -> Iterator[bytes]:
    """Stream the histories of a project in ``format``.

    ``on_loss`` is called with a sentence for everything the format cannot represent; ``samples`` writes one
    CSV row for each sample instead of each result.
    """
    if format == "csv":
        return _export_csv(store, project, samples)
    return get_writer(format).serialize_runs(_load_runs(store, project), on_loss)


def _export_csv(store: Store, project: str, samples: bool) -> Iterator[bytes]:
    with store.read() as tx:
        points = load_points_in_sha_order(tx, project)
        for line in history_csv_writer.iter_history_csv_lines(
            points, project, samples=samples, write_name=escape_csv_cell
        ):
            yield line.encode()


def _load_runs(store: Store, project: str) -> Iterator[Run]:
    """Load each commit in its own transaction: one open for minutes would block checkpoints of the WAL."""
    with store.read() as tx:
        of_commits = load_history_run_ids(tx, project)
    for ids in of_commits:
        with store.read() as tx:
            runs = [load_run(tx, run_id) for run_id in ids]
        yield from runs
