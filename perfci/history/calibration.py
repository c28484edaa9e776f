"""The false-alarm meter of a project and the noise floors of its series, as the store has them now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy.orm import Session as Transaction

from perfci.stats import noise_model
from perfci.store import Store
from perfci.store.queries.measurements import aa_log_ratios
from perfci.store.queries.records import VerdictTally
from perfci.store.queries.verdict_counts import comparisons_of_equals, retold, tallies_of_equals
from perfci.store.tables.measurements import EPOCH
from perfci.verdicts.calibration import Calibration, Floor, Given, Meter, Window, convictions, meter, nominations
from perfci.verdicts.policy import Policy

Name = TypeVar("Name", bound=str)

RECENT_DAYS = 30
"""What is true lately, beside what was true ever: a month of nights."""


def calibration(store: Store, project: str, policy: Policy, now: datetime) -> Calibration:
    """Count over all time and over the last month."""
    with store.read() as tx:
        return calibrated(tx, project, policy, now)


def calibrated(tx: Transaction, project: str, policy: Policy, now: datetime) -> Calibration:
    windows = [_window(tx, project, policy, days, now) for days in (None, RECENT_DAYS)]
    return Calibration(windows, floors(tx, project, policy), comparisons_of_equals(tx, project)[1])


def floors(tx: Transaction, project: str, policy: Policy) -> list[Floor]:
    """The noise floor of every series that was compared with itself, the noisiest first."""
    found = []
    for series, ratios in aa_log_ratios(tx, project).items():
        floor = noise_model.floor(ratios)
        rule = policy.rule_for(series)
        if floor is not None:
            found.append(Floor(series, floor, len(ratios), rule.bar if floor else rule.counted_bar))
    return sorted(found, key=lambda one: (-one.noise_floor, one.series.label))


def _window(tx: Transaction, project: str, policy: Policy, days: int | None, now: datetime) -> Window:
    since = EPOCH if days is None else now - timedelta(days=days)
    tallies = tallies_of_equals(tx, project, since)
    questions = list(retold(tx, project, since))
    return Window(
        days,
        comparisons_of_equals(tx, project, since)[0],
        meter(_given(tallies)),
        _by(tallies, suite_of),
        _by(tallies, lambda one: policy.class_of(one.series)),
        nominations(questions),
        convictions(questions),
    )


def suite_of(tally: VerdictTally) -> str:
    """A suite is a file of benchmarks: ``benchmarks/training`` for ``training.Step.time_step``."""
    file, dot, _ = tally.series.benchmark.name.partition(".")
    return "/".join(part for part in (tally.suite, file if dot else "") if part)


def _by(tallies: Sequence[VerdictTally], name_of: Callable[[VerdictTally], Name]) -> dict[Name, Meter]:
    names = sorted({name_of(one) for one in tallies})
    return {name: meter(_given([one for one in tallies if name_of(one) == name])) for name in names}


def _given(tallies: Sequence[VerdictTally]) -> Counter[Given]:
    given: Counter[Given] = Counter()
    for one in tallies:
        given[one.stage, one.kind] += one.count
    return given
