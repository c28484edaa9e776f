"""Write runs as a results folder for ``asv publish`` and ``asv compare``, as a tar archive or in place."""

from __future__ import annotations

import hashlib
import io
import json
import math
import statistics
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from pathlib import PurePosixPath
from typing import Any

from perfci.formats.asv.asv_reader import BENCHMARKS, MACHINE, sanitize_file_name
from perfci.formats.asv.read_asv_cells import MAX_CELLS, METRIC_NAMES
from perfci.formats.format_types import WarnCallback, WarnOnce
from perfci.model import (
    Machine,
    Point,
    Process,
    ProcessBoundaries,
    Result,
    Run,
    SampleSummary,
    Series,
    Status,
    Variant,
)
from perfci.verdicts.process_levels import displayed_point_level

COLUMNS = (
    *("result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"),
    *("stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"),
)

ASV_TYPES = {
    ("time", "seconds"): "time",
    ("peak_memory", "bytes"): "peakmemory",
    ("memory", "bytes"): "memory",
}
"""The types of asv, by metric and unit; every other metric is of type ``track``."""

NAME_PREFIXES = {"time": "time_", "peakmemory": "peakmem_", "memory": "mem_", "track": "track_"}

MAX_ENVIRONMENT_NAME = 127
"""asv names a file by a hash of its environment from 128 characters on (``asv.results.get_filename``)."""

DIRTY_SKIPPED = "asv cannot store an uncommitted working tree: skipped"
PAIRS_LOST = "asv does not store pairs: paired measurements are written as plain history"
PROCESSES_POOLED = "asv keeps no processes: their samples are pooled, so that pairs can no longer be compared"
REASONS_LOST = "asv keeps no reasons: out of memory, timeouts and crashes all become plain failures"
DIRECTION_LOST = (
    "asv has no direction: throughputs are written as they are, and asv shows their gains as regressions"
)
MACHINES_BY_NAME = "asv knows machines by name, one for each class of hardware"
ENVIRONMENT_LOST = (
    "asv keeps neither flags nor what was observed of the environment: drivers, clocks, patch levels"
)
VERSIONS_LOST = (
    "asv keeps one version of a benchmark for each commit, and no harness version: the last one is written"
)
INTERVALS_LOST = (
    "asv keeps interval and count of a value only beside its quartiles: without them they are left out"
)
GAPS_READ_AS_SKIPPED = "asv measures whole grids: a cell of one that was not measured reads as skipped"
GRID_FLATTENED = (
    "the parameters of a benchmark span more cells than asv should write: they are written as one axis"
)


SKIPPED_CELL: dict[str, Any] = {"result": math.nan}
"""A cell that was not measured, which asv reads as skipped."""


def serialize_runs(runs: Iterable[Run], warn: WarnCallback) -> Iterator[bytes]:
    """Yield the folder as chunks of a tar archive."""
    buffer = io.BytesIO()
    # "w|" never seeks back, so that what was written can leave the buffer at once.
    with tarfile.open(fileobj=buffer, mode="w|") as archive:
        for name, body in iter_result_files(runs, warn):
            member = tarfile.TarInfo(f"results/{name}")
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
            yield _drain(buffer)
    yield _drain(buffer)


def iter_result_files(runs: Iterable[Run], warn: WarnCallback) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield name and content of each file of the folder: one for each commit, machine and environment.

    ``runs`` come grouped by commit.
    """
    warn_once = WarnOnce(warn)
    benchmarks: dict[str, dict[str, Any]] = {}
    machines: dict[str, Machine] = {}
    for _, commit_runs in groupby(runs, key=lambda run: (run.commit.sha, run.commit.dirty)):
        groups: dict[tuple[Machine, Variant], list[Run]] = defaultdict(list)
        for run in commit_runs:
            groups[run.machine, run.variant].append(run)
        for (machine, variant), group in groups.items():
            if group[0].commit.dirty:
                warn_once(DIRTY_SKIPPED)
                continue
            name, environment_name = _machine_name(machine), _environment_name(variant)
            machines[name] = machine
            file_part = environment_name
            if len(file_part) > MAX_ENVIRONMENT_NAME:
                file_part = "env-" + hashlib.md5(file_part.encode(), usedforsecurity=False).hexdigest()
            path = PurePosixPath(name, f"{group[0].commit.sha[:8]}-{file_part}.json")
            yield path, _dump_json(_build_result_file(group, name, environment_name, benchmarks, warn_once))
    for name, machine in machines.items():
        warn_once(MACHINES_BY_NAME)
        yield PurePosixPath(name, MACHINE), _dump_json(_machine_fields(name, machine) | {"version": 1})
    yield PurePosixPath(BENCHMARKS), _dump_json(benchmarks | {"version": 2})


def _build_result_file(
    runs: Sequence[Run],
    machine: str,
    environment_name: str,
    benchmarks: dict[str, dict[str, Any]],
    warn: WarnCallback,
) -> dict[str, Any]:
    newest = runs[-1]
    python, requirements, env_vars = _split_variant(newest.variant)
    if any(run.environment.values for run in runs):
        warn(ENVIRONMENT_LOST)
    cells = _group_by_benchmark(runs, warn)
    return {
        "commit_hash": newest.commit.sha,
        "env_name": environment_name,
        "date": _milliseconds(newest.commit.committed_at or newest.started_at),
        "params": {**_machine_fields(machine, newest.machine), "python": python, **requirements},
        "python": python,
        "requirements": requirements,
        "env_vars": env_vars,
        "result_columns": list(COLUMNS),
        "results": {name: _build_row(cells[name], benchmarks, warn) for name in cells},
        "durations": {},
        "version": 2,
    }


def _group_by_benchmark(
    runs: Iterable[Run], warn: WarnCallback
) -> dict[str, list[tuple[Series, list[tuple[Run, Result]]]]]:
    """Group the results by the name that asv gives a benchmark, each series with all its results."""
    merged: dict[Series, list[tuple[Run, Result]]] = defaultdict(list)
    for run in runs:
        for result in run.results:
            merged[result.series].append((run, result))
    rows: dict[tuple[str, str], list[Series]] = defaultdict(list)
    for series in merged:
        rows[_asv_benchmark_name(series), series.benchmark.version].append(series)
    last_version_of = dict(rows.keys())
    if len(last_version_of) < len(rows):
        warn(VERSIONS_LOST)
    return {
        name: [(series, merged[series]) for series in rows[name, version]]
        for name, version in last_version_of.items()
    }


def _build_row(
    cells: Sequence[tuple[Series, Sequence[tuple[Run, Result]]]],
    benchmarks: dict[str, dict[str, Any]],
    warn: WarnCallback,
) -> list[Any]:
    """Build the row of one benchmark: in every column a list of cells, over the grid of its parameters."""
    first = cells[0][0]
    names, cell_keys = _grid_axes([series for series, _ in cells], warn)
    axes = [list(dict.fromkeys(values[place] for values in cell_keys)) for place in range(len(names))]
    cell_values = dict(
        zip(cell_keys, (_build_cell(series, measured, warn) for series, measured in cells), strict=True)
    )
    grid = list(product(*axes))
    if len(cell_values) < len(cells):
        warn(VERSIONS_LOST)
    if len(grid) > len(cell_values):
        warn(GAPS_READ_AS_SKIPPED)
    _describe_benchmark(first, names, axes, benchmarks)
    columns: dict[str, Any] = {
        name: [cell_values.get(cell, SKIPPED_CELL).get(name) for cell in grid]
        for name in COLUMNS
        if name.startswith("stats_") or name in ("result", "samples")
    }
    started = [run.started_at for _, measured in cells for run, _ in measured]
    columns |= {"params": axes, "version": first.benchmark.version, "started_at": _milliseconds(max(started))}
    for name, column in columns.items():
        if name != "params" and isinstance(column, list) and all(value is None for value in column):
            columns[name] = None
    # asv leaves out the empty end of a row.
    row = [columns.get(name) for name in COLUMNS]
    while row and row[-1] is None:
        row.pop()
    return row


def _grid_axes(cells: Sequence[Series], warn: WarnCallback) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return parameter names and each cell's values; an irregular or too large grid becomes one axis."""
    names = [name for name, _ in cells[0].parameters]
    sizes = [len({dict(series.parameters).get(name) for series in cells}) for name in names]
    regular = all([name for name, _ in series.parameters] == names for series in cells)
    if regular and math.prod(sizes) <= min(MAX_CELLS, 100 * len(cells)):
        return names, [tuple(value for _, value in series.parameters) for series in cells]
    warn(GRID_FLATTENED)
    return ["parameters"], [(json.dumps(dict(series.parameters)),) for series in cells]


def _build_cell(series: Series, measured: Sequence[tuple[Run, Result]], warn: WarnCallback) -> dict[str, Any]:
    results = [result for _, result in measured]
    if series.metric.direction == "higher":
        warn(DIRECTION_LOST)
    good = [result for result in results if result.status is Status.OK]
    if not good:
        if all(result.status is Status.SKIPPED for result in results):
            return SKIPPED_CELL
        warn(REASONS_LOST)
        return {"result": None}
    processes = tuple(
        process for result in good for process in result.processes if process.status is Status.OK
    )
    _warn_of_process_losses(processes, good, warn)
    summary = next((result.summary for result in reversed(good) if result.summary), None)
    commit = measured[0][0].commit
    level = displayed_point_level(Point(commit, Status.OK, processes, summary))
    samples = [sample for process in processes for sample in process.samples]
    return {
        "result": level,
        "samples": samples or None,
        **_cell_statistics(samples, summary, good[-1].number, warn),
    }


def _warn_of_process_losses(
    processes: Sequence[Process], results: Sequence[Result], warn: WarnCallback
) -> None:
    if any(process.pair is not None for process in processes):
        warn(PAIRS_LOST)
    if any(result.boundaries is ProcessBoundaries.PROCESS for result in results):
        warn(PROCESSES_POOLED)
    if any(process.flags for process in processes):
        warn(ENVIRONMENT_LOST)


def _cell_statistics(
    samples: Sequence[float], summary: SampleSummary | None, number: int | None, warn: WarnCallback
) -> dict[str, Any]:
    """Return quartiles, interval and counts, or none: `asv compare` fails for a cell that has only some.

    As asv does, quartiles of one sample are that sample, and an interval that is unknown is infinite.
    """
    bounds = summary or SampleSummary(0.0)
    q25, q75 = bounds.q25, bounds.q75
    if samples and (q25 is None or q75 is None):
        q25, q75 = _quartiles(samples)
    if q25 is None or q75 is None:
        if (bounds.ci_lo, bounds.ci_hi, bounds.n) != (None, None, None):
            warn(INTERVALS_LOST)
        return {}
    return {
        "stats_ci_99_a": -math.inf if bounds.ci_lo is None else bounds.ci_lo,
        "stats_ci_99_b": math.inf if bounds.ci_hi is None else bounds.ci_hi,
        "stats_q_25": q25,
        "stats_q_75": q75,
        "stats_number": number,
        "stats_repeat": bounds.n or len(samples) or None,
    }


def _quartiles(samples: Sequence[float]) -> tuple[float, float]:
    if len(samples) == 1:
        return samples[0], samples[0]
    q25, _, q75 = statistics.quantiles(samples, n=4, method="inclusive")
    return q25, q75


def _asv_benchmark_name(series: Series) -> str:
    """Name the benchmark for asv, whose prefix implies its one metric; any other metric is appended."""
    benchmark, function = series.benchmark.name, series.benchmark.name.rpartition(".")[2]
    kind = _asv_type(series)
    plain = function.startswith(NAME_PREFIXES[kind]) and series.metric.name == METRIC_NAMES[kind]
    return benchmark if plain else f"{benchmark}.{series.metric.name}"


def _asv_type(series: Series) -> str:
    return ASV_TYPES.get((series.metric.name, series.metric.unit), "track")


def _describe_benchmark(
    series: Series, names: list[str], axes: list[list[str]], benchmarks: dict[str, dict[str, Any]]
) -> None:
    """Add a benchmark to benchmarks.json, merging axes; asv passes on attributes it does not know."""
    name = _asv_benchmark_name(series)
    earlier = benchmarks.get(name, {})
    same_axes = earlier.get("param_names") == names
    benchmarks[name] = {
        "name": name,
        "code": "",
        "type": _asv_type(series),
        "unit": series.metric.unit,
        "version": series.benchmark.version,
        "param_names": names,
        "params": [
            list(dict.fromkeys([*earlier["params"][i], *axis])) if same_axes else axis
            for i, axis in enumerate(axes)
        ],
        "direction": series.metric.direction,
        "perfci": {"benchmark": series.benchmark.name, "metric": series.metric.name},
    }


def _split_variant(variant: Variant) -> tuple[str, dict[str, str], dict[str, str]]:
    """Split a variant into Python, requirements and environment variables (inverse of ``build_variant``)."""
    chosen = dict(sorted(variant.values))
    python = chosen.pop("python", "")
    for name in ("environment_type", "env_name"):
        chosen.pop(name, None)
    env_vars = {name.removeprefix("env "): value for name, value in chosen.items() if name.startswith("env ")}
    return python, {name: value for name, value in chosen.items() if not name.startswith("env ")}, env_vars


def _environment_name(variant: Variant) -> str:
    chosen = dict(variant.values)
    if "env_name" in chosen:
        return chosen["env_name"]
    python, requirements, env_vars = _split_variant(variant)
    parts = [tool] if (tool := chosen.get("environment_type", "")) else []
    parts += [f"py{python}"] + [name + value for name, value in (*requirements.items(), *env_vars.items())]
    return sanitize_file_name("-".join(parts))


def _machine_name(machine: Machine) -> str:
    """Return a folder name; a hash separates machine classes whose sanitized names would be equal."""
    if machine.name and sanitize_file_name(machine.name) == machine.name and machine.name not in (".", ".."):
        return machine.name
    mark = hashlib.sha256(repr(machine).encode()).hexdigest()[:8]
    return f"{sanitize_file_name(machine.label).replace(' ', '-').replace(',', '')[:80]}-{mark}"


def _machine_fields(name: str, machine: Machine) -> dict[str, str]:
    facts = {
        "machine": name,
        "cpu": machine.cpu,
        "num_cpu": str(machine.cores) if machine.cores else "",
        "ram": f"{machine.memory_gb}GB" if machine.memory_gb else "",
        "gpu": f"{machine.accelerators}x {machine.accelerator}" if machine.accelerator else "",
    }
    return {key: value for key, value in facts.items() if value}


def _milliseconds(moment: Any) -> int:
    return int(moment.timestamp() * 1000)


def _dump_json(content: object) -> bytes:
    """Serialize JSON as asv does, with bare NaN and Infinity."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, sort_keys=False).encode() + b"\n"


def _drain(buffer: io.BytesIO) -> bytes:
    chunk = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return chunk
