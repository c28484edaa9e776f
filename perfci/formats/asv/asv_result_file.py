"""Parse an asv result file of version 1 or 2 into uniform rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from perfci.formats.format_types import WarnCallback
from perfci.formats.value_parsing import SHA_PATTERN, parse_json
from perfci.model import PerfciError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AsvBenchmarkRow:
    """One benchmark in a result file; ``columns`` hold one entry per cell of the grid of ``params``."""

    result: list[Any] | None
    params: tuple[tuple[str, ...], ...]
    version: str
    started_at: datetime | None
    columns: Mapping[str, Any]

    def cell_value(self, column: str, cell: int) -> Any:
        """Return one entry of a column, or None: asv leaves out empty columns and lists."""
        entries = self.columns.get(column)
        return entries[cell] if isinstance(entries, list) and cell < len(entries) else None


def parse_json_object(body: bytes, source_name: str) -> dict[str, Any]:
    """Parse a JSON object."""
    content = parse_json(body, source_name)
    if not isinstance(content, dict):
        raise PerfciError(f"{source_name} is not an asv file: expected a JSON object.")
    return content


def parse_result_file(body: bytes, source_name: str) -> dict[str, Any]:
    """Parse a result file and check the fields that every result file must have."""
    content = parse_json_object(body, source_name)
    sha, params, results = content.get("commit_hash"), content.get("params"), content.get("results")
    if not isinstance(sha, str) or not isinstance(results, dict):
        raise PerfciError(f"{source_name} is not an asv result file: it has no commit_hash with results.")
    if not SHA_PATTERN.fullmatch(sha):
        raise PerfciError(f"{source_name} has the commit_hash {sha[:80]!r}: expected hexadecimal digits.")
    if not isinstance(params, dict) or not isinstance(params.get("machine"), str):
        raise PerfciError(f"{source_name} does not say which machine it was measured on.")
    version = result_file_version(content)
    if version not in (1, 2):
        raise PerfciError(f"{source_name} has the asv file version {version!r}: perfci reads 1 and 2.")
    if version == 2 and not isinstance(content.get("result_columns"), list):
        raise PerfciError(f"{source_name} has no result_columns, which version 2 needs.")
    return content


def result_file_version(content: Mapping[str, Any]) -> object:
    """Return the version of a result file; where none is stored, its keys decide."""
    return content.get("version", 2 if "result_columns" in content else 1)


def iter_benchmark_rows(
    content: Mapping[str, Any], warn: WarnCallback
) -> Iterator[tuple[str, AsvBenchmarkRow]]:
    """Yield each benchmark of a checked result file; one whose entry is malformed is left out."""
    read = _columns_of_version_2 if result_file_version(content) == 2 else _columns_of_version_1
    for name, entry in content["results"].items():
        try:
            columns = read(content, name, entry)
            yield name, _build_row(columns)
        except (TypeError, KeyError, IndexError, AttributeError):
            warn(f"{name}: its entry in the result file is malformed")


def parse_epoch_milliseconds(milliseconds: object) -> datetime | None:
    """Parse a time as asv writes it (milliseconds since 1970); None where it is missing or invalid."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    try:
        return EPOCH + timedelta(milliseconds=int(milliseconds))
    except (OverflowError, ValueError):  # infinity, NaN, or beyond the year 9999
        return None


def _build_row(columns: Mapping[str, Any]) -> AsvBenchmarkRow:
    # asv writes None for a benchmark that failed as a whole.
    result, params, version = columns["result"], columns.get("params") or [], columns.get("version")
    if not (result is None or isinstance(result, list)) or not isinstance(params, list):
        raise TypeError("result and params are lists")
    return AsvBenchmarkRow(
        result=result,
        params=tuple(tuple(map(str, axis)) for axis in params) if params else (),
        version="" if version is None else str(version),
        started_at=parse_epoch_milliseconds(columns.get("started_at")),
        columns=columns,
    )


def _columns_of_version_2(content: Mapping[str, Any], _name: str, entry: Any) -> Mapping[str, Any]:
    """Return columns of version 2: a list in the order of ``result_columns``, without its empty end."""
    if not isinstance(entry, list):
        raise TypeError("an entry is a list")
    columns = dict(zip(content["result_columns"], entry, strict=False))
    columns.setdefault("result", None)
    return columns


def _columns_of_version_1(content: Mapping[str, Any], name: str, entry: Any) -> Mapping[str, Any]:
    """Return columns of version 1: a bare value or an object; versions and times stand in separate tables.

    Follows asv's ``update_to_2``.
    """
    if not isinstance(entry, dict):
        entry = {"result": [entry]}
    stats = _as_list(entry.get("stats"))
    columns = {
        "result": _as_list(entry["result"]),
        "params": entry.get("params"),
        "samples": entry.get("samples"),
    }
    for column in ("q_25", "q_75", "number", "repeat"):
        columns[f"stats_{column}"] = stats and [cell and cell.get(column) for cell in stats]
    for end, column in enumerate(("stats_ci_99_a", "stats_ci_99_b")):
        columns[column] = stats and [cell and cell["ci_99"][end] for cell in stats]
    columns["version"] = content.get("benchmark_version", {}).get(name)
    columns["started_at"] = content.get("started_at", {}).get(name)
    return columns


def _as_list(value: Any) -> list[Any] | None:
    return value if value is None or isinstance(value, list) else [value]
