"""Write the histories of a project as CSV: a row for each commit of each series, or for each raw sample."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby

from perfci.model import Machine, NamedValues, Point, ProcessBoundaries, Series, Status
from perfci.verdicts.process_levels import displayed_point_level

CSV_COLUMNS = (
    *(
        "project",
        "commit",
        "committed_at",
        "benchmark",
        "version",
        "parameters",
        "metric",
        "unit",
        "direction",
    ),
    *("machine", "variant", "status", "value", "ci_lo", "ci_hi", "processes", "samples", "invalid"),
)

SAMPLE_COLUMNS = (*CSV_COLUMNS, "process", "role", "pair", "round", "order", "place", "sample")
"""Columns of the export of raw samples: each sample with its process and its index in that process."""

CsvRow = tuple[object, ...]


def iter_history_csv_lines(
    points: Iterable[tuple[Series, Point]],
    project: str,
    *,
    samples: bool,
    write_name: Callable[[str], str] = str,
) -> Iterator[str]:
    """Yield lines of CSV sorted by commit, benchmark, version, parameters, metric, machine and variant.

    ``points`` come grouped by commit. Parameters, machine and variant are JSON objects, so that different
    values always differ as text. ``write_name`` escapes names, since a spreadsheet runs some of them as
    formulas.
    """
    yield _format_line(SAMPLE_COLUMNS if samples else CSV_COLUMNS)
    for _, commit_points in groupby(points, key=lambda pair: pair[1].commit.sha):
        rows = sorted(
            (_sort_key(series), _point_row(project, series, point, write_name), point)
            for series, point in commit_points
        )
        for _, row, point in rows:
            if samples:
                for sample in _sample_rows(point):
                    yield _format_line((*row, *sample))
            else:
                yield _format_line(row)


def _sort_key(series: Series) -> tuple[str, ...]:
    metric = series.metric
    return (
        *(series.benchmark.name, series.benchmark.version, _format_pairs(series.parameters), metric.name),
        *(
            _format_machine(series.machine),
            _format_pairs(series.variant.values),
            metric.unit,
            metric.direction,
            series.harness,
        ),
    )


def _point_row(project: str, series: Series, point: Point, write_name: Callable[[str], str]) -> CsvRow:
    summary, commit = point.summary, point.commit
    counted = point.boundaries is ProcessBoundaries.PROCESS and point.processes
    return (
        write_name(project),
        commit.sha,
        commit.committed_at and commit.committed_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        write_name(series.benchmark.name),
        write_name(series.benchmark.version),
        _format_pairs(series.parameters),
        write_name(series.metric.name),
        write_name(series.metric.unit),
        series.metric.direction,
        _format_machine(series.machine),
        _format_pairs(series.variant.values),
        point.status.value,
        displayed_point_level(point),
        summary and summary.ci_lo,
        summary and summary.ci_hi,
        sum(process.status is Status.OK for process in point.processes) if counted else None,
        sum(len(process.samples) for process in point.processes) or None,
        write_name(point.invalid.reason) if point.invalid else None,
    )


def _sample_rows(point: Point) -> Iterator[CsvRow]:
    for process in point.processes:
        process_cells = (process.index, process.role.value, process.pair, process.round, process.order)
        for place, sample in enumerate(process.samples):
            yield (*process_cells, place, sample)


@cache
def _format_machine(machine: Machine) -> str:
    fields = {name: getattr(machine, name) for name in machine.__dataclass_fields__}
    return _format_object([(name, value) for name, value in fields.items() if value])


@cache
def _format_pairs(pairs: NamedValues) -> str:
    return _format_object(pairs) if pairs else ""


def _format_object(pairs: Sequence[tuple[str, object]]) -> str:
    members = (f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
    return "{" + ",".join(members) + "}"


def _format_line(row: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in row])
    return text.getvalue()
