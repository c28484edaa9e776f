"""Column types of all tables, and model values as column values and back."""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from perfci.model import (
    ChangePoint,
    Clock,
    Interval,
    Machine,
    NamedValues,
    Process,
    Role,
    SampleSummary,
    Series,
    Stage,
    Status,
    TailVerdict,
    Verdict,
    VerdictKind,
    level_matching_ratio,
)

ABSENT = -1
"""Stands for "none" in unique constraints, where SQL treats NULLs as different."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class UtcMs(sa.TypeDecorator[datetime]):
    """A UTC moment in whole milliseconds, stored as an integer."""

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        """Convert a moment to milliseconds."""
        return None if value is None else (value - EPOCH) // MILLISECOND

    def process_result_value(self, value: int | None, dialect: sa.Dialect) -> datetime | None:
        """Convert milliseconds to a UTC moment."""
        return None if value is None else EPOCH + value * MILLISECOND


as_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class JsonText(sa.TypeDecorator[Any]):
    """A small JSON value as compact text, byte for byte equal on every database."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Convert a value to JSON text."""
        return None if value is None else as_json(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> Any:
        """Convert JSON text to a value."""
        if value == "[]":  # most values are, and a list of thousands is read for one page
            return []
        return None if value is None else json.loads(value)


def hash_values(*parts: object) -> str:
    """Compute the SHA-256 of the values as canonical JSON."""
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def machine_identity(machine: Machine) -> str:
    """Compute the identity of a machine class."""
    return hash_values(
        machine.name, machine.cpu, machine.cores, machine.memory_gb, machine.accelerator, machine.accelerators
    )


def series_identity(project: str, series: Series) -> str:
    """Compute the identity of a series in a project."""
    metric, benchmark = series.metric, series.benchmark
    return hash_values(
        [project, benchmark.name, benchmark.version, series.parameters],
        [metric.name, metric.unit, metric.direction],
        [machine_identity(series.machine), series.variant.values, series.harness],
    )


def pack_samples(samples: Sequence[float]) -> bytes:
    """Pack samples as little-endian float64, exactly."""
    packed = array("d", samples)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_samples(blob: bytes) -> tuple[float, ...]:
    """Unpack what ``pack_samples`` packed."""
    samples = array("d", blob)
    if sys.byteorder == "big":
        samples.byteswap()
    return tuple(samples)


def replace_unstorable_characters(text: str) -> str:
    """Replace NUL characters and lone surrogates, which no database stores: program output may be any
    bytes.
    """
    if not text or (text.isascii() and "\x00" not in text):
        return text
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()


def none_to_absent(value: int | None) -> int:
    """Convert None to ABSENT, so that unique keys can include the column."""
    return ABSENT if value is None else value


def absent_to_none(value: int) -> int | None:
    """Convert ABSENT to None."""
    return None if value == ABSENT else value


def named_values_from_json(stored: Sequence[Sequence[str]]) -> NamedValues:
    """Convert stored JSON lists to named values."""
    return tuple((name, value) for name, value in stored)


def process_to_columns(process: Process) -> dict[str, Any]:
    """Convert a process to its columns."""
    return {
        "index": process.index,
        "role": process.role.value,
        "status": process.status.value,
        "clock": process.clock.value,
        "pair": none_to_absent(process.pair),
        "round": none_to_absent(process.round),
        "order": none_to_absent(process.order),
        "started_at": process.started_at,
        "duration_s": process.duration_s,
        "reason": replace_unstorable_characters(process.reason),
        "exit_code": process.exit_code,
        "stderr_tail": replace_unstorable_characters(process.stderr_tail),
        "flags": process.flags,
        "samples": pack_samples(process.samples),
    }


# Looked up thousands of times for one answer, which to call the words themselves would make slower.
ROLES = {member.value: member for member in Role}
STATUSES = {statu.value: statu for statu in Status}
CLOCKS = {member.value: member for member in Clock}
KINDS = {member.value: member for member in VerdictKind}
STAGES = {member.value: member for member in Stage}


def build_process(row: Any) -> Process:
    """Build a process from any row that has the columns of ``processes``."""
    return Process(
        index=row.index,
        role=ROLES[row.role],
        status=STATUSES[row.status],
        samples=unpack_samples(row.samples),
        clock=CLOCKS[row.clock],
        pair=absent_to_none(row.pair),
        round=absent_to_none(row.round),
        order=absent_to_none(row.order),
        started_at=row.started_at,
        duration_s=row.duration_s,
        reason=row.reason,
        exit_code=row.exit_code,
        stderr_tail=row.stderr_tail,
        flags=tuple(row.flags),
    )


def build_sample_summary(row: Any, *, has_processes: bool = True) -> SampleSummary | None:
    """Build the summary of a result that came without samples; None if there is none.

    Of a result whose processes were dropped with their partition, the computed level is left.
    """
    value = row.level if row.value is None and not has_processes else row.value
    return None if value is None else SampleSummary(value, row.ci_lo, row.ci_hi, row.q25, row.q75, row.n)


def build_interval(lo: float | None, hi: float | None) -> Interval | None:
    """Build an interval from its two columns; older rows have none."""
    return None if lo is None or hi is None else Interval(lo, hi)


CHANGE_POINT_COLUMNS = (
    "commit",
    "last_good",
    "relative_change",
    "before",
    "after",
    "interval_lo",
    "interval_hi",
)


def change_point_values(
    change: ChangePoint,
) -> tuple[str, str, float, float, float, float | None, float | None]:
    """Return the values of ``CHANGE_POINT_COLUMNS``."""
    return (
        change.commit,
        change.last_good,
        change.relative_change,
        change.before,
        change.after,
        change.interval.lo if change.interval else None,
        change.interval.hi if change.interval else None,
    )


def build_change_point(row: Any, series: Series) -> ChangePoint:
    """Build a change point from any row that has ``CHANGE_POINT_COLUMNS``."""
    interval = build_interval(row.interval_lo, row.interval_hi)
    return ChangePoint(series, row.commit, row.last_good, row.before, row.after, interval)


def build_verdict(row: Any, series: Series) -> Verdict:
    """Build a verdict from a row of ``verdicts``.

    Older rows have the median of the head, which divided by that of the base is not the ratio.
    """
    head_level = row.head_level
    if head_level is not None and row.base_level:
        head_level = level_matching_ratio(row.base_level, row.ratio, head_level)
    return Verdict(
        kind=KINDS[row.kind],
        stage=STAGES[row.stage],
        series=series,
        base=row.base,
        head=row.head,
        ratio=row.ratio,
        interval=build_interval(row.interval_lo, row.interval_hi),
        base_level=row.base_level,
        head_level=head_level,
        noise_floor=row.noise_floor,
        mde=row.mde,
        pairs=row.pairs,
        pairs_to_decide=row.pairs_to_decide,
        p_value=row.p_value,
        reason=row.reason,
        evidence=tuple(row.evidence),
        tail=build_tail_verdict(row),
    )


def verdict_values(verdict: Verdict) -> dict[str, Any]:
    """Return the columns of a verdict: all but its series."""
    return {
        "kind": verdict.kind.value,
        "stage": verdict.stage.value,
        "base": verdict.base,
        "head": verdict.head,
        "ratio": verdict.ratio,
        "interval_lo": verdict.interval and verdict.interval.lo,
        "interval_hi": verdict.interval and verdict.interval.hi,
        "base_level": verdict.base_level,
        "head_level": verdict.head_level,
        "noise_floor": verdict.noise_floor,
        "mde": verdict.mde,
        "pairs": verdict.pairs,
        "pairs_to_decide": verdict.pairs_to_decide,
        "p_value": verdict.p_value,
        "reason": verdict.reason,
        "evidence": verdict.evidence,
        **tail_verdict_values(verdict.tail),
    }


def build_tail_verdict(row: Any) -> TailVerdict | None:
    """Build the verdict on the tail from a row of ``verdicts``; None where there is none."""
    if not row.tail_kind:
        return None
    interval = build_interval(row.tail_interval_lo, row.tail_interval_hi)
    return TailVerdict(KINDS[row.tail_kind], row.tail_ratio, interval)


def tail_verdict_values(tail: TailVerdict | None) -> dict[str, str | float | None]:
    """Return the columns of a verdict on the tail; an empty kind says that there is none."""
    interval = tail.interval if tail else None
    return {
        "tail_kind": tail.kind.value if tail else "",
        "tail_ratio": tail.ratio if tail else None,
        "tail_interval_lo": interval.lo if interval else None,
        "tail_interval_hi": interval.hi if interval else None,
    }
