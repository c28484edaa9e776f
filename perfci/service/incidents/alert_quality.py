"""Alert quality of a project: false alarms, time to triage and noisy benchmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import load_member_benchmarks
from perfci.store.incidents.mutes import add_mute, load_mutes, was_unmuted_since
from perfci.store.incidents.records import OPEN_STATES, IncidentRecord, Mute
from perfci.store.projects import Project

NOISY_RATE, MIN_JUDGED = 0.2, 10
"""A benchmark is muted when more than this rate of at least this many judged incidents were invalid."""

MUTE_DURATION = timedelta(days=30)
"""Mutes expire, so that a repaired benchmark is unmuted without any action."""

REVIEW_PERIOD = timedelta(days=180)
"""Older incidents do not describe the current code and benchmarks."""

JUDGED_STATES = frozenset(IncidentState) - OPEN_STATES - {IncidentState.SNOOZED, IncidentState.DUPLICATE}


@dataclass(frozen=True, slots=True)
class NoisyBenchmark:
    """How many judged incidents of a benchmark were invalid."""

    benchmark: str
    judged: int
    invalid: int

    @property
    def rate(self) -> float:
        return self.invalid / self.judged


@dataclass(frozen=True, slots=True)
class AlertQuality:
    """Counts and medians over the paged incidents of the review period."""

    open: int
    overdue: int
    paged: int
    judged: int
    invalid: int
    hours_to_triage: float | None
    hours_to_close: float | None
    series_per_incident: float | None
    noisy: tuple[NoisyBenchmark, ...]

    @property
    def false_rate(self) -> float | None:
        return self.invalid / self.judged if self.judged else None


def compute_alert_quality(tx: Transaction, project: Project, now: datetime) -> AlertQuality:
    """Compute the alert quality over the incidents paged in the last half year."""
    paged = stored.load_paged_since(tx, project.id, now - REVIEW_PERIOD)
    judged = [record for record in paged if record.state in JUDGED_STATES]
    still_open = [record for record in paged if record.is_open]
    return AlertQuality(
        open=len(still_open),
        overdue=sum(record.due_at is not None and record.due_at < now for record in still_open),
        paged=len(paged),
        judged=len(judged),
        invalid=sum(record.state is IncidentState.INVALID for record in judged),
        hours_to_triage=_compute_median_hours(
            [
                (record.triaged_at - record.paged_at)
                for record in paged
                if record.triaged_at and record.paged_at
            ]
        ),
        hours_to_close=_compute_median_hours(
            [record.changed_at - record.paged_at for record in judged if record.paged_at]
        ),
        series_per_incident=median([record.series_count for record in paged]) if paged else None,
        noisy=tuple(_rank_noisy_benchmarks(tx, judged)),
    )


def find_noisy_benchmarks(tx: Transaction, project: Project, now: datetime) -> list[NoisyBenchmark]:
    """Find noisy benchmarks that are not muted and that no person has unmuted lately."""
    muted = {mute.benchmark for mute in load_mutes(tx, project.id, now)}
    over_limit = [
        benchmark
        for benchmark in compute_alert_quality(tx, project, now).noisy
        if benchmark.judged >= MIN_JUDGED and benchmark.rate > NOISY_RATE
    ]
    return [
        benchmark
        for benchmark in over_limit
        if benchmark.benchmark not in muted and not _was_unmuted(tx, project, benchmark, now)
    ]


def mute_noisy_benchmarks(
    tx: Transaction, project: Project, noisy: Sequence[NoisyBenchmark], now: datetime
) -> None:
    """Mute noisy benchmarks, unless a person has unmuted them meanwhile."""
    for benchmark in noisy:
        if not _was_unmuted(tx, project, benchmark, now):
            reason = f"{benchmark.invalid} of its {benchmark.judged} judged incidents were nothing"
            add_mute(
                tx,
                project.id,
                Mute(benchmark.benchmark, "", benchmark.rate, reason, now, now + MUTE_DURATION, SYSTEM_ACTOR),
            )


def _was_unmuted(tx: Transaction, project: Project, noisy: NoisyBenchmark, now: datetime) -> bool:
    return was_unmuted_since(tx, project.id, noisy.benchmark, now - MUTE_DURATION)


def _rank_noisy_benchmarks(tx: Transaction, judged: Sequence[IncidentRecord]) -> list[NoisyBenchmark]:
    """Rank the benchmarks with at least one invalid incident, the worst first."""
    states = {record.id: record.state for record in judged}
    every, invalid = Counter[str](), Counter[str]()
    for incident_id, pairs in load_member_benchmarks(tx, list(states)).items():
        for name in {name for name, _ in pairs}:
            every[name] += 1
            invalid[name] += states[incident_id] is IncidentState.INVALID
    benchmarks = [
        NoisyBenchmark(name, count, invalid[name]) for name, count in every.items() if invalid[name]
    ]
    return sorted(benchmarks, key=lambda noisy: (-noisy.rate, -noisy.judged, noisy.benchmark))


def _compute_median_hours(spans: Sequence[timedelta]) -> float | None:
    return median(span.total_seconds() for span in spans) / 3600 if spans else None
