"""Mute benchmarks: by hand, and for a while those whose incidents were mostly invalid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.audit_context import SYSTEM_ACTOR, AuditContext
from perfci.service.incidents.due_transitions import BeginTransaction
from perfci.store import Store
from perfci.store.incidents.expected_changes_and_muted_benchmarks import (
    add_mute,
    end_mute,
    has_mute_ended_since,
    load_mutes,
)
from perfci.store.incidents.incident_records import OPEN_STATES, IncidentRecord, Mute
from perfci.store.incidents.incident_store import load_benchmarks_by_incident, load_incidents
from perfci.store.projects import Project

MANUAL_MUTE_REASON = "muted by hand"

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
    def invalid_rate(self) -> float:
        return self.invalid / self.judged


def set_benchmark_mute(
    tx: Transaction,
    project: Project,
    benchmark: str,
    metric: str,
    context: AuditContext,
    *,
    days: int,
    reason: str = "",
) -> bool:
    """Mute a benchmark for some days, or unmute it for 0; return False if it was not muted."""
    if days:
        until = context.at + timedelta(days=days)
        actor = context.actor.name
        mute = Mute(benchmark, metric, 0.0, reason or MANUAL_MUTE_REASON, context.at, until, actor)
        add_mute(tx, project.id, mute)
        is_changed = True
    else:
        is_changed = end_mute(tx, project.id, benchmark, metric, context.at)
    action = "benchmark.mute" if days else "benchmark.unmute"
    context.add_audit_entry(tx, action, benchmark, project.id, {"days": days, "reason": reason})
    return is_changed


def mute_noisy_benchmarks(
    store: Store, project: Project, now: datetime, begin: BeginTransaction | None = None
) -> None:
    """Mute the noisy benchmarks of a project that are not muted and that no person has unmuted lately."""
    with store.read() as tx:
        muted = {mute.benchmark for mute in load_mutes(tx, project.id, now)}
        noisy = [
            benchmark
            for benchmark in rank_noisy_benchmarks(
                tx, load_incidents(tx, project.id, paged_since=now - REVIEW_PERIOD, with_detail=False)
            )
            if benchmark.judged >= MIN_JUDGED
            and benchmark.invalid_rate > NOISY_RATE
            and benchmark.benchmark not in muted
            and not has_mute_ended_since(tx, project.id, benchmark.benchmark, now - MUTE_DURATION)
        ]
    if not noisy:
        return
    with (begin or store.begin)() as tx:
        for benchmark in noisy:
            # A person may have unmuted it since the read.
            if not has_mute_ended_since(tx, project.id, benchmark.benchmark, now - MUTE_DURATION):
                reason = f"{benchmark.invalid} of its {benchmark.judged} judged incidents were nothing"
                rate, until = benchmark.invalid_rate, now + MUTE_DURATION
                mute = Mute(benchmark.benchmark, "", rate, reason, now, until, SYSTEM_ACTOR)
                add_mute(tx, project.id, mute)


def rank_noisy_benchmarks(tx: Transaction, paged: Sequence[IncidentRecord]) -> list[NoisyBenchmark]:
    """Rank the benchmarks with at least one invalid incident among the judged ones, the worst first."""
    states = {record.id: record.state for record in paged if record.state in JUDGED_STATES}
    every, invalid = Counter[str](), Counter[str]()
    for incident_id, pairs in load_benchmarks_by_incident(tx, list(states)).items():
        for name in {name for name, _ in pairs}:
            every[name] += 1
            invalid[name] += states[incident_id] is IncidentState.INVALID
    benchmarks = [
        NoisyBenchmark(name, count, invalid[name]) for name, count in every.items() if invalid[name]
    ]
    return sorted(benchmarks, key=lambda noisy: (-noisy.invalid_rate, -noisy.judged, noisy.benchmark))
