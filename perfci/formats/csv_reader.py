"""Read CSV with a header: perfci's own export, or any table with a benchmark and a value in each row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from perfci.formats import metric_identification, unit_conversion
from perfci.formats.bounded_files import read_decompressed
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.history_csv_writer import CSV_COLUMNS, SAMPLE_COLUMNS
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    MAX_BYTES,
    build_valid_commit,
    dict_or_empty,
    file_modified_at,
    parse_finite,
    parse_time,
    to_text,
    to_text_pairs,
)
from perfci.model import (
    Clock,
    Machine,
    NamedValues,
    PerfciError,
    Process,
    Role,
    SampleSummary,
    Status,
)

TOOL = "csv"

REQUIRED_COLUMNS = ("benchmark", "value")

SAMPLE_ONLY_COLUMNS = tuple(name for name in SAMPLE_COLUMNS if name not in CSV_COLUMNS)

MAX_CELL_LENGTH = 1_000_000
"""In characters; Python's own limit is 131,072, which a cell of many parameters may pass."""

FORMULA_ESCAPE = re.compile(r"\A'(?=[=+\-@\t\r])")
"""The apostrophe that keeps a spreadsheet from running a name as a formula (OWASP, *CSV Injection*)."""

CsvRecord = dict[str, str]


def can_read(path: Path, outline: ContentOutline) -> bool:
    header = outline.head.split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").strip()
    columns = [name.strip(' "') for name in header.split(",")]
    return not outline.is_json and all(name in columns for name in REQUIRED_COLUMNS)


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield a run for each commit, machine and variant. A column without a meaning here is a parameter."""
    body = read_decompressed(path, MAX_BYTES)
    groups: dict[tuple[str, str, str], list[CsvRecord]] = defaultdict(list)
    for row in _read_rows(body, path, warn):
        groups[row.get("commit", ""), row.get("machine", ""), row.get("variant", "")].append(row)
    if not groups:
        raise PerfciError(f"{path} holds no row with a benchmark and a value.")
    for (commit, machine, variant), rows in groups.items():
        committed_at = parse_time(rows[0].get("committed_at") or None)
        run = RunBuilder(
            TOOL,
            str(path),
            defaults,
            warn,
            started_at=committed_at or file_modified_at(path),
            commit=build_valid_commit(commit, committed_at=committed_at),
            machine=_parse_machine(machine),
            variant=_parse_pairs(variant, "variant"),
        )
        for series_rows in _group_by_series(rows).values():
            _add_series(run, series_rows, defaults)
        yield run.build(sha256(json.dumps(rows).encode()).digest())


def _read_rows(body: bytes, path: Path, warn: WarnCallback) -> Iterator[CsvRecord]:
    try:
        # Excel begins with a byte order mark; newline="" leaves line ends within a cell as they are.
        table = io.StringIO(body.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        raise PerfciError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    csv.field_size_limit(MAX_CELL_LENGTH)  # of the whole process: a reader has none of its own
    reader = csv.DictReader(table, restkey="", strict=True)
    try:
        missing = [name for name in REQUIRED_COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise PerfciError(
                f"{path} has no column {missing[0]}: expected a header with {' and '.join(REQUIRED_COLUMNS)}."
            )
        for row in reader:
            # DictReader fills missing cells with None, and puts further ones under restkey.
            if None in row.values() or "" in row:
                warn("a row with more or fewer cells than the header was skipped")
                continue
            record = {name.strip(): FORMULA_ESCAPE.sub("", cell) for name, cell in row.items()}
            if record.get("invalid", "").strip():
                warn("a row that is marked invalid was left out")
                continue
            value = record["value"].strip()
            if value and _parse_number(value) is None:
                subject = f"{record['benchmark'][:60]!a}: the value {value[:40]!a}"
                warn(f"{subject} is not a finite number; treated as failed")
            yield record
    except csv.Error as error:
        raise PerfciError(f"{path}, line {reader.line_num}, is damaged: {error}.") from error


def _group_by_series(rows: Iterable[CsvRecord]) -> dict[tuple[str, ...], list[CsvRecord]]:
    """Group rows by series: one row for each sample where samples were exported, else one row."""
    groups: dict[tuple[str, ...], list[CsvRecord]] = defaultdict(list)
    for row in rows:
        key = tuple(cell for name, cell in row.items() if name not in ("value", *SAMPLE_ONLY_COLUMNS))
        groups[key].append(row)
    return groups


def _add_series(run: RunBuilder, rows: Sequence[CsvRecord], defaults: ImportDefaults) -> None:
    row = rows[0]
    benchmark, parameters, version = row["benchmark"], _read_parameters(row), row.get("version", "")
    name, unit = row.get("metric", "") or "value", row.get("unit", "")
    direction = metric_identification.parse_direction(row.get("direction")) or defaults.direction
    known_metric = metric_identification.identify_metric(name, unit, direction)
    numbers = [
        number for sample_row in rows if (number := _parse_number(sample_row.get("value", ""))) is not None
    ]
    if known_metric is None:
        reason = metric_identification.explain_unresolved_unit(name, unit)
        run.add_unresolved_result(benchmark, parameters, name, numbers, Clock.VALUE, row, reason, unit=unit)
        return
    metric, convert = known_metric.metric, known_metric.conversion.convert
    status = row.get("status", "ok") or "ok"
    if status != Status.OK or not numbers:
        is_failure = status in set(Status) and status != Status.OK
        failure = Status(status) if is_failure else Status.FAILED
        run.add_result_without_value(
            benchmark, parameters, metric, failure, "the table holds no value", version=version
        )
    elif row.get("sample"):
        processes = _build_processes(rows, known_metric.conversion)
        run.add_result_from_processes(benchmark, parameters, metric, processes, version=version)
    elif len(rows) > 1:
        samples = map(convert, numbers)
        run.add_result_from_samples(benchmark, parameters, metric, samples, Clock.VALUE, version=version)
    else:
        bounds = [_parse_number(row.get(column, "")) for column in ("ci_lo", "ci_hi")]
        ci_lo, ci_hi = [None if bound is None else convert(bound) for bound in bounds]
        summary = SampleSummary(convert(numbers[0]), ci_lo, ci_hi)
        run.add_result_from_summary(benchmark, parameters, metric, summary, version=version)


def _build_processes(rows: Iterable[CsvRecord], scale: unit_conversion.UnitConversion) -> Iterator[Process]:
    """Yield the processes of an export with ``--samples``, in their order."""
    samples_by_process: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if (number := _parse_number(row.get("sample", ""))) is not None:
            samples_by_process[
                tuple(row.get(name, "") for name in ("process", "role", "pair", "round", "order"))
            ].append(number)
    for (index, role, pair, turn, order), samples in samples_by_process.items():
        yield Process(
            index=_parse_whole(index) or 0,
            role=Role(role) if role in set(Role) else Role.HISTORY,
            pair=_parse_whole(pair),
            round=_parse_whole(turn),
            order=_parse_whole(order),
            samples=tuple(map(scale.convert, samples)),
        )


def _read_parameters(row: CsvRecord) -> NamedValues:
    format_columns = {*CSV_COLUMNS, *SAMPLE_ONLY_COLUMNS}
    others = {name: cell for name, cell in row.items() if name not in format_columns and cell}
    return (*_parse_pairs(row.get("parameters", ""), "parameter"), *others.items())


def _parse_pairs(cell: str, default_name: str) -> NamedValues:
    """Parse a cell that is a JSON object of names and values; any other text is one value."""
    content = _parse_object(cell)
    return to_text_pairs(content) if content is not None else ((default_name, cell),)


def _parse_object(cell: str) -> Mapping[str, Any] | None:
    if not cell:
        return {}
    try:
        content = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return dict_or_empty(content) if isinstance(content, dict) else None


def _parse_machine(cell: str) -> Machine | None:
    content = _parse_object(cell)
    if content is None:
        return Machine(name=cell)
    if not content:
        return None
    fields = {name: to_text(value) for name, value in content.items()}
    return Machine(
        cpu=fields.get("cpu", ""),
        cores=_parse_whole(fields.get("cores", "")),
        memory_gb=_parse_whole(fields.get("memory_gb", "")),
        accelerator=fields.get("accelerator", ""),
        accelerators=_parse_whole(fields.get("accelerators", "")) or 0,
        name=fields.get("name", ""),
    )


def _parse_number(cell: str) -> float | None:
    try:
        return parse_finite(float(cell))
    except ValueError:
        return None


def _parse_whole(cell: str) -> int | None:
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 10 else None
