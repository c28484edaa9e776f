"""The points of a series as columns, packed in blocks: what lists and charts read in place of its results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfci.model import Point, Status
from perfci.store.column_conversions import STATUSES
from perfci.store.queries.series_points import PlainResult, PointBlock
from perfci.verdicts.process_levels import displayed_point_level, displayed_point_spread, summary_spread
from perfci.verdicts.usable_processes import disqualifying_flags, select_displayed_processes

STATUS_CODES = {
    Status.OK: 0,
    Status.FAILED: 1,
    Status.OOM: 2,
    Status.TIMEOUT: 3,
    Status.SKIPPED: 4,
    Status.CRASHED: 5,
}
"""How a status is stored in one byte; a code is never given to another status."""

STATUS_OF_CODE = {code: status for status, code in STATUS_CODES.items()}

LEVELS = np.dtype([("commit_id", "<i8"), ("level", "<f8"), ("status", "u1")])
"""What lists read of a point; a level that is absent is NaN."""

DETAILS = np.dtype(
    [
        ("result_id", "<i8"),
        ("results", "<u4"),
        ("processes", "<u4"),
        ("lo", "<f8"),
        ("hi", "<f8"),
        ("has_remark", "u1"),
    ]
)
"""What charts read beside it: the results that the point joins (the newest, and how many), the middle half of
its processes, and whether there is a reason or a flag to read."""

BLOCK_POINTS = 128
"""Points of a block: a new one rewrites 8 kB, and 5,000 commits are 40 rows."""

Columns = NDArray[Any]


class PointKey(NamedTuple):
    """Which results a point joins: one with the same key has the same content."""

    commit_id: int
    result_id: int
    results: int


class PointRow(NamedTuple):
    """One point, as columns hold it."""

    commit_id: int
    level: float
    status: int
    result_id: int
    results: int
    processes: int
    lo: float
    hi: float
    has_remark: bool


@dataclass(frozen=True, slots=True, eq=False)
class PointColumns:
    """The points of a series, oldest commit first; details only where a chart needs them."""

    levels: Columns
    details: Columns

    @classmethod
    def from_blocks(cls, blocks: Sequence[PointBlock]) -> PointColumns:
        """Unpack stored blocks, given in order."""
        return cls(
            np.frombuffer(b"".join(block.levels for block in blocks), LEVELS),
            np.frombuffer(b"".join(block.details for block in blocks), DETAILS),
        )

    @classmethod
    def from_rows(cls, rows: Sequence[PointRow]) -> PointColumns:
        """Pack the rows of points."""
        return cls(np.array([row[:3] for row in rows], LEVELS), np.array([row[3:] for row in rows], DETAILS))

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def keys(self) -> list[PointKey]:
        """The key of each point."""
        return self.list_keys(slice(None))

    def list_keys(self, places: slice | Sequence[int]) -> list[PointKey]:
        """The keys of the points at some places."""
        levels, details = self.levels[places], self.details[places]
        columns = (levels["commit_id"], details["result_id"], details["results"])
        return [PointKey(*key) for key in zip(*(column.tolist() for column in columns), strict=True)]

    def split_blocks(self) -> Iterator[PointBlock]:
        """Pack the points in blocks."""
        for start in range(0, len(self), BLOCK_POINTS):
            part = slice(start, start + BLOCK_POINTS)
            yield PointBlock(start // BLOCK_POINTS, self.levels[part].tobytes(), self.details[part].tobytes())


def unpack_levels(packed: bytes) -> Columns:
    """Unpack the levels of points from the blocks of a series."""
    return np.frombuffer(packed, LEVELS)


def find_failures_at_end(levels: Columns) -> tuple[int, int | None]:
    """How many commits after the last one with a value should have one and do not, and the place of the
    first of them."""
    absent = np.isnan(levels["level"])
    measured = np.flatnonzero(~absent)
    after = int(measured[-1]) + 1 if len(measured) else 0
    failed = after + np.flatnonzero((absent & (levels["status"] != STATUS_CODES[Status.SKIPPED]))[after:])
    return len(failed), int(failed[0]) if len(failed) else None


def median_level(levels: Columns) -> float | None:
    """The median of all values, None without one."""
    values = levels["level"][~np.isnan(levels["level"])]
    return float(np.median(values)) if len(values) else None


def list_last_levels(levels: Columns, count: int) -> list[float]:
    """The last values, oldest first."""
    values: list[float] = levels["level"][~np.isnan(levels["level"])][-count:].tolist()
    return values


def build_point_row(key: PointKey, point: Point) -> PointRow:
    """The row of a point, computed from its processes."""
    level = displayed_point_level(point) if point.status is Status.OK else None
    status = Status.FAILED if level is None and point.status is Status.OK else point.status
    lo, hi = (math.nan, math.nan) if level is None else displayed_point_spread(point, level)
    flagged = any(disqualifying_flags(process) for process in select_displayed_processes(point.processes))
    return PointRow(
        key.commit_id,
        math.nan if level is None else level,
        STATUS_CODES[status],
        key.result_id,
        key.results,
        len(point.processes),
        lo,
        hi,
        bool(point.reason or flagged),
    )


def build_plain_point_row(key: PointKey, result: PlainResult) -> PointRow | None:
    """The row of a point whose samples say no more than its one result; None where they may."""
    level, lo, hi = math.nan, math.nan, math.nan
    if key.results > 1 or result.flagged_processes:
        return None
    if result.status != Status.OK.value:
        if result.ok_processes:
            return None
    elif not result.processes and result.value is not None:
        level = result.value
        lo, hi = summary_spread(result.summary, level)
    elif result.processes == result.ok_processes == 1 and result.level is not None:
        level = lo = hi = result.level
    else:
        return None
    code = STATUS_CODES[STATUSES[result.status]]
    return PointRow(
        *(key.commit_id, level, code, key.result_id, key.results, result.processes, lo, hi),
        bool(result.reason),
    )
