"""Export the histories of a project as a stream of bytes in another format.

What is exported is chosen at the start, and read in parts: no transaction is open while somebody takes the
bytes, since one that lasts for minutes keeps SQLite's write-ahead log from being reset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from perfci.formats import history_csv_writer
from perfci.formats.format_registry import WRITER_MODULES, get_writer
from perfci.formats.format_types import WarnCallback
from perfci.model import Point, Run, Series
from perfci.report.escaping import escape_csv_cell
from perfci.store import Store
from perfci.store.queries.measured_samples import load_points_of_runs, load_run
from perfci.store.queries.runs_and_sessions import load_history_run_ids, load_run_ids_in_sha_order

EXPORT_FORMATS = ("csv", *WRITER_MODULES)

INVALID_LEFT_OUT = "Results that are marked invalid are left out: this format has no such mark."

MAX_RESULTS_IN_MEMORY = 2000
"""Results of CSV that are in memory at once; those of one commit always are."""


def export_history(
    store: Store, project: str, format: str, on_loss: WarnCallback, *, samples: bool = False
) -> Iterator[bytes]:
    """Stream the histories of a project in ``format``.

    ``on_loss`` is called with a sentence for everything the format cannot represent; ``samples`` writes one
    CSV row for each sample instead of each result.
    """
    if format == "csv":
        return _export_csv(store, project, samples)
    runs = _load_runs(store, project)
    if format != "perfci":
        runs = _leave_out_invalid_results(runs, on_loss)
    return get_writer(format).serialize_runs(runs, on_loss)


def _leave_out_invalid_results(runs: Iterator[Run], on_loss: WarnCallback) -> Iterator[Run]:
    """Leave out what is marked invalid: in a format without such marks it would be taken for valid."""
    for run in runs:
        valid = () if run.invalid else tuple(result for result in run.results if not result.invalid)
        if len(valid) < len(run.results):
            on_loss(INVALID_LEFT_OUT)
        if valid:
            yield replace(run, results=valid)


def _export_csv(store: Store, project: str, samples: bool) -> Iterator[bytes]:
    points = iter_points_in_sha_order(store, project)
    for line in history_csv_writer.iter_history_csv_lines(
        points, project, samples=samples, write_name=escape_csv_cell
    ):
        yield line.encode()


def iter_points_in_sha_order(store: Store, project: str) -> Iterator[tuple[Series, Point]]:
    """Load all points of the runs that are stored now, by the sha of their commits."""
    with store.read() as tx:
        parts = load_run_ids_in_sha_order(tx, project, MAX_RESULTS_IN_MEMORY)
    for run_ids in parts:
        with store.read() as tx:
            points = load_points_of_runs(tx, run_ids)
        yield from points


def _load_runs(store: Store, project: str) -> Iterator[Run]:
    """Load the runs that are stored now, commit by commit."""
    with store.read() as tx:
        of_commits = load_history_run_ids(tx, project)
    for ids in of_commits:
        with store.read() as tx:
            runs = [load_run(tx, run_id) for run_id in ids]
        yield from runs
