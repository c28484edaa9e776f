"""The noise of a project: how often A/A runs raise false alarms, and the noise floor of each series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.history.verdict_counts import (
    StagedKind,
    count_aa_false_alarms,
    count_candidate_fates,
    count_retracted_confirmations,
)
from perfci.stats.noise_floor import compute_noise_floor
from perfci.store.column_conversions import EPOCH
from perfci.store.queries.false_alarm_inputs import (
    count_aa_sessions,
    count_aa_verdicts,
    load_verdicts_of_changed_pairs,
)
from perfci.store.queries.query_records import VerdictCount
from perfci.store.verdict_decision_records import load_aa_results_by_series
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.project_noise import (
    FalseAlarmMeter,
    NoiseWindow,
    ProjectNoise,
    SeriesNoiseFloor,
)

MeterName = TypeVar("MeterName", bound=str)

RECENT_DAYS = 30
"""Length of the recent window, beside the one over all time: a month of nightly runs."""


def compute_project_noise(tx: Transaction, project: str, policy: Policy, now: datetime) -> ProjectNoise:
    """Compute the noise of a project over all time and over the last month."""
    windows = [_compute_window(tx, project, policy, days, now) for days in (None, RECENT_DAYS)]
    return ProjectNoise(windows, compute_noise_floors(tx, project, policy), count_aa_sessions(tx, project)[1])


def compute_noise_floors(tx: Transaction, project: str, policy: Policy) -> list[SeriesNoiseFloor]:
    """The noise floor (a log ratio) of every series with A/A runs, the noisiest first."""
    floors = []
    for series, aa_results in load_aa_results_by_series(tx, project).items():
        floor = compute_noise_floor([result.log_ratio for result in aa_results])
        rule = policy.rule_for(series)
        if floor is not None:
            floors.append(
                SeriesNoiseFloor(
                    series, floor, len(aa_results), rule.bar if floor else rule.effective_exact_bar
                )
            )
    return sorted(floors, key=lambda floor: (-floor.noise_floor, floor.series.label))


def _compute_window(
    tx: Transaction, project: str, policy: Policy, days: int | None, now: datetime
) -> NoiseWindow:
    since = EPOCH if days is None else now - timedelta(days=days)
    counts = count_aa_verdicts(tx, project, since)
    sequences = list(load_verdicts_of_changed_pairs(tx, project, since))
    return NoiseWindow(
        days,
        count_aa_sessions(tx, project, since)[0],
        count_aa_false_alarms(_count_verdicts(counts)),
        _group_meters(counts, _get_suite_and_file),
        _group_meters(counts, lambda count: policy.metric_class_of(count.series)),
        count_candidate_fates(sequences),
        count_retracted_confirmations(sequences),
    )


def _get_suite_and_file(count: VerdictCount) -> str:
    """The suite and the file of a benchmark: ``benchmarks/training`` for ``training.Step.time_step``."""
    file, dot, _ = count.series.benchmark.name.partition(".")
    return "/".join(part for part in (count.suite, file if dot else "") if part)


def _group_meters(
    counts: Sequence[VerdictCount], name_of: Callable[[VerdictCount], MeterName]
) -> dict[MeterName, FalseAlarmMeter]:
    names = sorted({name_of(count) for count in counts})
    return {
        name: count_aa_false_alarms(_count_verdicts([count for count in counts if name_of(count) == name]))
        for name in names
    }


def _count_verdicts(counts: Sequence[VerdictCount]) -> Counter[StagedKind]:
    totals: Counter[StagedKind] = Counter()
    for count in counts:
        totals[count.stage, count.kind] += count.count
    return totals
