"""A store with a step that fresh pairs confirmed, judged by the worker: one incident of two series."""

from __future__ import annotations

from datetime import timedelta

from perfci.store import Store
from tests.support.builders import NOON, a_commit, a_pair, a_process, a_result, a_run, a_series
from tests.support.pull_request_uploads import WOBBLES, main_run, run_judge_worker, upload

STEP_AT = 13
COMMITS = 24


def store_confirmed_step(store: Store) -> None:
    """24 commits of which the thirteenth is slower, and fresh pairs of it and the one before."""
    for number in range(1, COMMITS + 1):
        level = (1.0 if number < STEP_AT else 1.3) + WOBBLES[number % len(WOBBLES)]
        results = [
            a_result(
                a_series(parameters={"n": size}),
                *(a_process(level * float(size) + k / 1e4, index=k) for k in range(3)),
            )
            for size in ("1", "2")
        ]
        upload(store, main_run(number, *results))
    pairs = [a_pair(number, 1.0 + WOBBLES[number] / 3, 1.31 + WOBBLES[-number] / 3) for number in range(12)]
    for side, number in ((0, STEP_AT - 1), (1, STEP_AT)):
        result = a_result(a_series(parameters={"n": "1"}), *(pair[side] for pair in pairs))
        upload(
            store,
            a_run(result, commit=a_commit(number), session="pairs", started_at=NOON + timedelta(days=9)),
        )
    run_judge_worker(store)
