"""Alert quality of a project: false alarms, time to triage and noisy benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.incidents.mute_benchmarks import (
    JUDGED_STATES,
    REVIEW_PERIOD,
    NoisyBenchmark,
    rank_noisy_benchmarks,
)
from perfci.store.incidents import incident_store as stored
from perfci.store.projects import Project


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
    def false_alarm_rate(self) -> float | None:
        return self.invalid / self.judged if self.judged else None


def compute_alert_quality(tx: Transaction, project: Project, now: datetime) -> AlertQuality:
    """Compute the alert quality over the incidents paged in the last half year."""
    paged = stored.load_incidents(tx, project.id, paged_since=now - REVIEW_PERIOD, with_detail=False)
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
        noisy=tuple(rank_noisy_benchmarks(tx, judged)),
    )


def _compute_median_hours(spans: Sequence[timedelta]) -> float | None:
    return median(span.total_seconds() for span in spans) / 3600 if spans else None
