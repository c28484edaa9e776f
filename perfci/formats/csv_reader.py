"""Read CSV with a header: perfci's own export, or any table with a benchmark and a value in each row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from perfci.formats import Document, Given, Warn, unit_conversion
from perfci.formats.csv_export import COLUMNS, SAMPLE_COLUMNS
from perfci.formats.input_files import read_bytes
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import MAX_BYTES, commit_of, file_time, finite, mapping, moment, pairs, text
from perfci.model import Clock, Commit, Machine, Pairs, PerfciError, Process, Role, Status, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "csv"

NEEDED = ("benchmark", "value")

SAMPLES = tuple(name for name in SAMPLE_COLUMNS if name not in COLUMNS)

LONGEST_CELL = 1_000_000
"""Characters; Python's own limit is 131,072, which a cell of many parameters may pass."""

Row = dict[str, str]


def recognises(path: Path, head: bytes) -> bool:
    columns = [name.strip(' "') for name in head.split(b"\n", 1)[0].decode(errors="replace").strip().split(",")]
    return all(name in columns for name in NEEDED)


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """A run for each commit on each machine in each variant. A column that perfci has no meaning for is a parameter."""
    body = read_bytes(path, MAX_BYTES)
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in _rows(body, path, warn):
        groups[row.get("commit", ""), row.get("machine", ""), row.get("variant", "")].append(row)
    if not groups:
        raise PerfciError(f"{path} holds no row with a benchmark and a value.")
    for (_, machine, variant), rows in groups.items():
        run = Assembly(
            TOOL,
            str(path),
            given,
            warn,
            started_at=_when(rows[0]) or file_time(path),
            commit=_commit(rows[0]),
            machine=_machine(machine),
            variant=_named(variant, "variant"),
        )
        for alike in _grouped(rows).values():
            _add(run, alike, given)
        yield run.document(sha256(json.dumps(rows).encode()).digest())


def _rows(body: bytes, path: Path, warn: Warn) -> Iterator[Row]:
    try:
        table = io.StringIO(body.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        raise PerfciError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}.") from error
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.DictReader(table, restkey="", strict=True)
    try:
        missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
        if missing:
            raise PerfciError(f"{path} has no column {missing[0]}: expected a header with {' and '.join(NEEDED)}.")
        for row in reader:
            if None in row.values() or "" in row:
                warn("a row with more or fewer cells than the header is left out")
            else:
                yield _told({name.strip(): _plain(cell) for name, cell in row.items()}, warn)
    except csv.Error as error:
        raise PerfciError(f"{path}, line {reader.line_num}, is damaged: {error}.") from error


def _told(row: Row, warn: Warn) -> Row:
    """The row, and a word about a value in it that is no number."""
    if (value := row["value"].strip()) and _number(value) is None:
        warn(f"{row['benchmark'][:60]!a}: the value {value[:40]!a} is no finite number; taken as failed")
    return row


def _plain(cell: str) -> str:
    """A name without the apostrophe that keeps a spreadsheet from running it as a formula."""
    return cell[1:] if re.match(r"'[=+\-@\t\r]", cell) else cell


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Rows of one series: one for each of its samples, where those were exported."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        own = tuple(cell for name, cell in row.items() if name not in ("value", *SAMPLES))
        found[own].append(row)
    return found


def _add(run: Assembly, rows: Sequence[Row], given: Given) -> None:
    row = rows[0]
    benchmark, parameters, version = row["benchmark"], _parameters(row), row.get("version", "")
    name, unit = row.get("metric", "") or "value", row.get("unit", "")
    direction = unit_conversion.direction_named(row.get("direction")) or given.direction
    known = unit_conversion.known(name, unit, direction)
    numbers = [number for one in rows if (number := _number(one.get("value", ""))) is not None]
    if known is None:
        run.quarantine(benchmark, parameters, name, numbers, Clock.VALUE, row, unit_conversion.unknown(name, unit))
        return
    status = row.get("status", "ok") or "ok"
    if status != Status.OK or not numbers:
        ended = Status(status) if status in set(Status) and status != Status.OK else Status.FAILED
        run.ended(benchmark, parameters, known.metric, ended, "the table holds no value", version=version)
    elif row.get("sample"):
        run.processes(benchmark, parameters, known.metric, _processes(rows, known.scale), version=version)
    elif len(rows) > 1:
        run.samples(benchmark, parameters, known.metric, map(known.scale.of, numbers), Clock.VALUE, version=version)
    else:
        low, high = (_number(row.get(name, "")) for name in ("ci_lo", "ci_hi"))
        ends = [end if end is None else known.scale.of(end) for end in (low, high)]
        run.summary(
            benchmark, parameters, known.metric, Summary(known.scale.of(numbers[0]), ends[0], ends[1]), version=version
        )


def _processes(rows: Iterable[Row], scale: unit_conversion.Scale) -> Iterator[Process]:
    """The processes that ``--samples`` told apart, in their order."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if (number := _number(row.get("sample", ""))) is not None:
            found[tuple(row.get(name, "") for name in ("process", "role", "pair", "round", "order"))].append(number)
    for (index, role, pair, turn, order), samples in found.items():
        yield Process(
            index=_whole(index) or 0,
            role=Role(role) if role in set(Role) else Role.HISTORY,
            pair=_whole(pair),
            round=_whole(turn),
            order=_whole(order),
            samples=tuple(map(scale.of, samples)),
        )


def _parameters(row: Row) -> Pairs:
    known = {*COLUMNS, *SAMPLES}
    others = {name: cell for name, cell in row.items() if name not in known and cell}
    return (*_named(row.get("parameters", ""), "parameter"), *others.items())


def _named(cell: str, alone: str) -> Pairs:
    """A cell of names and values as a JSON object; any other text is one value."""
    content = _object(cell)
    return pairs(content) if content is not None else ((alone, cell),)


def _object(cell: str) -> Mapping[str, Any] | None:
    if not cell:
        return {}
    try:
        content = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    return mapping(content) if isinstance(content, dict) else None


def _machine(cell: str) -> Machine | None:
    content = _object(cell)
    if content is None:
        return Machine(name=cell)
    if not content:
        return None
    told = {name: text(value) for name, value in content.items()}
    return Machine(
        cpu=told.get("cpu", ""),
        cores=_whole(told.get("cores", "")),
        memory_gb=_whole(told.get("memory_gb", "")),
        accelerator=told.get("accelerator", ""),
        accelerators=_whole(told.get("accelerators", "")) or 0,
        name=told.get("name", ""),
    )


def _commit(row: Row) -> Commit | None:
    return commit_of(row.get("commit"), committed_at=_when(row))


def _when(row: Row) -> datetime | None:
    return moment(row.get("committed_at") or None)


def _number(cell: str) -> float | None:
    try:
        return finite(float(cell))
    except ValueError:
        return None


def _whole(cell: str) -> int | None:
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 10 else None
