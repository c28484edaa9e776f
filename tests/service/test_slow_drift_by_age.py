"""Slow drift of a project that tags no release."""

from __future__ import annotations

import math
import random
from datetime import timedelta

from perfci.config import HistoryTable
from perfci.history.result_summaries import summarize_processes
from perfci.model import Series
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.store import Store
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha
from tests.support.stored_runs import ingest_run

CREEPING, STEADY = a_series("training.Step.time_step"), a_series("data.Loader.time_batch")
DAYS = 100


def test_compares_with_the_first_commit_of_the_month_of_thirty_days_ago(store: Store) -> None:
    chance = random.Random(5)
    for day in range(1, DAYS + 1):
        levels = {CREEPING: 1.003**day, STEADY: 1.0}
        store_day(
            store, day, {item: level * math.exp(chance.gauss(0, 0.005)) for item, level in levels.items()}
        )

    with store.read() as tx:
        evaluation = evaluate_project(tx, PROJECT, Policy(), HistoryTable())

    (creep,) = evaluation.creeps
    first = next(day for day in range(DAYS) if month_of(day) == month_of(DAYS - 30))
    assert (creep.series, creep.base, creep.head) == (CREEPING, a_sha(first), a_sha(DAYS))
    assert creep.release == f"{a_sha(first)[:10]} of {NOON + timedelta(days=first):%Y-%m-%d}"
    assert 1.05 < creep.drift_ratio < 1.25


def month_of(day: int) -> int:
    return (NOON + timedelta(days=day)).month


def store_day(store: Store, day: int, levels: dict[Series, float]) -> None:
    at = NOON + timedelta(days=day)
    results = [a_result(item, a_process(level)) for item, level in levels.items()]
    run = a_run(*results, commit=a_commit(day, committed_at=at), started_at=at, session=f"night-{day}")
    with store.begin() as tx:
        ingest_run(tx, run, f"key-{day}", "hash", kind="history", summarize=summarize_processes)
