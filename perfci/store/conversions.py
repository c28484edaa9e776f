"""Model values to columns and back, their identities, and the ids a store has already seen."""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    Interval,
    Machine,
    Metric,
    Pairs,
    Process,
    Role,
    Series,
    Stage,
    Status,
    Summary,
    Variant,
    Verdict,
    VerdictKind,
)
from perfci.store.tables.measurements import ABSENT


def identity(*parts: object) -> str:
    """Hash canonical JSON: equal values have equal identities, different ones different ones."""
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def machine_identity(machine: Machine) -> str:
    return identity(
        machine.name, machine.cpu, machine.cores, machine.memory_gb, machine.accelerator, machine.accelerators
    )


def series_identity(project: str, series: Series) -> str:
    metric, benchmark = series.metric, series.benchmark
    return identity(
        [project, benchmark.name, benchmark.version, series.parameters],
        [metric.name, metric.unit, metric.direction],
        [machine_identity(series.machine), series.variant.values, series.harness],
    )


def pack(samples: Sequence[float]) -> bytes:
    """Samples as little-endian float64, exact."""
    packed = array("d", samples)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(blob: bytes) -> tuple[float, ...]:
    samples = array("d", blob)
    if sys.byteorder == "big":
        samples.byteswap()
    return tuple(samples)


def storable(text: str) -> str:
    """What a dying program wrote may be no text at all: replace what no database takes, rather than lose the rest."""
    if not text or (text.isascii() and "\x00" not in text):
        return text
    return text.replace("\x00", "\ufffd").encode(errors="replace").decode()


def or_absent(value: int | None) -> int:
    return ABSENT if value is None else value


def or_none(value: int) -> int | None:
    return None if value == ABSENT else value


def pairs(stored: Sequence[Sequence[str]]) -> Pairs:
    return tuple((name, value) for name, value in stored)


def process_columns(process: Process) -> dict[str, Any]:
    return {
        "index": process.index,
        "role": process.role.value,
        "status": process.status.value,
        "clock": process.clock.value,
        "pair": or_absent(process.pair),
        "round": or_absent(process.round),
        "order": or_absent(process.order),
        "started_at": process.started_at,
        "duration_s": process.duration_s,
        "reason": storable(process.reason),
        "exit_code": process.exit_code,
        "stderr_tail": storable(process.stderr_tail),
        "flags": process.flags,
        "samples": pack(process.samples),
    }


# Looked up thousands of times for one answer, which to call the words themselves would make slower.
ROLES = {one.value: one for one in Role}
STATUSES = {one.value: one for one in Status}
CLOCKS = {one.value: one for one in Clock}
KINDS = {one.value: one for one in VerdictKind}
STAGES = {one.value: one for one in Stage}


def process_of(row: Any) -> Process:
    """Read a process from any row that has the columns of ``processes``."""
    return Process(
        index=row.index,
        role=ROLES[row.role],
        status=STATUSES[row.status],
        samples=unpack(row.samples),
        clock=CLOCKS[row.clock],
        pair=or_none(row.pair),
        round=or_none(row.round),
        order=or_none(row.order),
        started_at=row.started_at,
        duration_s=row.duration_s,
        reason=row.reason,
        exit_code=row.exit_code,
        stderr_tail=row.stderr_tail,
        flags=tuple(row.flags),
    )


def machine_of(row: Any) -> Machine:
    return Machine(
        cpu=row.cpu,
        cores=row.cores,
        memory_gb=row.memory_gb,
        accelerator=row.accelerator,
        accelerators=row.accelerators,
        name=row.name,
    )


def commit_of(row: Any) -> Commit:
    return Commit(
        sha=row.sha,
        subject=row.subject,
        author=row.author,
        committed_at=row.committed_at,
        parents=tuple(row.parents),
        branch=row.branch,
        tags=tuple(row.tags),
        position=row.position,
        dirty=row.dirty,
    )


def series_of(row: Any, machine: Machine, variant: Variant) -> Series:
    """Read a series from a row of ``series`` that also has its benchmark's name and version."""
    return Series(
        benchmark=Benchmark(row.name, row.version),
        parameters=pairs(row.parameters),
        metric=Metric(row.metric, row.unit, row.direction),
        machine=machine,
        variant=variant,
        harness=row.harness,
    )


def summary_of(row: Any) -> Summary | None:
    return None if row.value is None else Summary(row.value, row.ci_lo, row.ci_hi, row.q25, row.q75, row.n)


def verdict_of(row: Any, series: Series) -> Verdict:
    return Verdict(
        kind=KINDS[row.kind],
        stage=STAGES[row.stage],
        series=series,
        base=row.base,
        head=row.head,
        ratio=row.ratio,
        interval=None if row.interval_lo is None else Interval(row.interval_lo, row.interval_hi),
        base_level=row.base_level,
        head_level=row.head_level,
        noise_floor=row.noise_floor,
        mde=row.mde,
        pairs=row.pairs,
        pairs_to_decide=row.pairs_to_decide,
        p_value=row.p_value,
        reason=row.reason,
        evidence=tuple(row.evidence),
    )


class Ids:
    """Row ids by value, so that a hot writer asks the database only once for each.

    A transaction works on a view of its own, and so does each savepoint in it; what a view learned becomes known around
    it only when it is kept, so a rolled-back row never leaves an id behind.
    """

    def __init__(self, around: Ids | None = None) -> None:
        self._around = around
        self._learned: dict[object, int] = {}
        self._levels: tuple[dict[object, int], ...] = (*(around._levels if around else ()), self._learned)

    def view(self) -> Ids:
        return Ids(self)

    def keep(self) -> None:
        """Tell the view around this one, or the store, what was learned; the store forgets what it learned first."""
        assert self._around is not None
        known = self._around._learned
        known.update(self._learned)
        if self._around._around is None and len(known) > MOST_IDS:
            for key in list(islice(known, len(known) - MOST_IDS // 2)):
                known.pop(key, None)

    def forget(self) -> None:
        """Unlearn everything, around this view too: the rows are not those of yesterday."""
        for level in self._levels:
            level.clear()

    def known(self, key: object) -> int | None:
        for level in self._levels:
            if (found := level.get(key)) is not None:
                return found
        return None

    def learn(self, key: object, row_id: int) -> int:
        self._learned[key] = row_id
        return row_id

    def get(self, key: object, find_or_add: Callable[[], int]) -> int:
        found = self.known(key)
        return self.learn(key, find_or_add()) if found is None else found


MOST_IDS = 200_000
"""Ids a store remembers: those of some thousand series and their newest results, in some ten megabytes."""
