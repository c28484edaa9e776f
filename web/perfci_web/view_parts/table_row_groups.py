"""Group the rows of tables by cell (benchmark, parameters, machine), or by missing reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from perfci.model import CPU_METRIC_PREFIX, Series, Status
from perfci.report.serializers import serialize_series

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class CellRows(Generic[RowT]):
    """The rows of one benchmark with one set of parameters on one machine; ``series`` is that of the first
    row.
    """

    series: Series
    rows: tuple[RowT, ...]


def group_rows_by_benchmark_cell(
    rows: Iterable[RowT],
    series_of: Callable[[RowT], Series],
    is_informational: Callable[[RowT], bool] = lambda row: False,
) -> list[CellRows[RowT]]:
    """Group rows into cells, in the order of their first rows; informational rows go last within a cell."""
    rows_by_cell: dict[tuple[object, ...], list[RowT]] = {}
    for row in rows:
        rows_by_cell.setdefault(series_of(row).key_without_metric, []).append(row)
    return [
        CellRows(series_of(cell_rows[0]), _sort_rows(cell_rows, series_of, is_informational))
        for cell_rows in rows_by_cell.values()
    ]


def _sort_rows(
    rows: Sequence[RowT], series_of: Callable[[RowT], Series], is_informational: Callable[[RowT], bool]
) -> tuple[RowT, ...]:
    """Sort the rows of a cell; clock twins stand together, CPU time before wall time."""
    names = {series_of(row).metric.name for row in rows}

    def clockless_metric(row: RowT) -> str:
        name = series_of(row).metric.name
        own = name.removeprefix(CPU_METRIC_PREFIX)
        return own if own in names else name

    judged = {clockless_metric(row) for row in rows if not is_informational(row)}
    first = {name: k for k, name in reversed(list(enumerate(map(clockless_metric, rows))))}

    def sort_key(row: RowT) -> tuple[bool, int, bool]:
        name = clockless_metric(row)
        return name not in judged, first[name], series_of(row).metric.name == name

    return tuple(sorted(rows, key=sort_key))


NO_REASON = "no reason was given"


@dataclass(frozen=True, slots=True)
class MissingReason:
    """A reason, and the series it applies to."""

    text: str
    series: tuple[Series, ...]

    @property
    def series_grouped_into_cells(self) -> list[CellRows[Series]]:
        return group_rows_by_benchmark_cell(self.series, lambda series: series)


def group_series_by_reason(series_by_text: Iterable[tuple[str, Series]]) -> tuple[MissingReason, ...]:
    """Group series by reason, most frequent first."""
    together: dict[str, list[Series]] = {}
    for text, series in series_by_text:
        together.setdefault(text or NO_REASON, []).append(series)
    reasons = [MissingReason(text, tuple(series)) for text, series in together.items()]
    return tuple(sorted(reasons, key=lambda reason: (-len(reason.series), reason.text)))


def format_failure(status: Status, reason: str) -> str:
    """Format a failure: ``oom: CUDA out of memory``."""
    how = "" if status is Status.FAILED and reason else status.value
    return ": ".join(part for part in (how, reason) if part)


def count_missing_series(reasons: Iterable[MissingReason]) -> int:
    return sum(len(reason.series) for reason in reasons)


def serialize_missing_reason(reason: MissingReason) -> dict[str, Any]:
    return {"reason": reason.text, "series": [serialize_series(series) for series in reason.series]}
