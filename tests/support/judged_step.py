"""A stored history with a step, and a verdict on it."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy.orm import Session

from perfci.store.verdicts_and_change_points import add_verdicts
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.stored_runs import ingest_run, replace_change_points
from tests.support.stored_summaries import compute_stored_summaries


def store_judged_step(tx: Session) -> None:
    """Store five commits of one series, the fourth a fifth slower, and the verdict that says so."""
    for number in range(1, 6):
        processes = [a_process(1.0 if number < 4 else 1.2, index=index) for index in range(2)]
        run = a_run(
            a_result(None, *processes),
            commit=a_commit(number),
            session=f"s{number}",
            started_at=NOON + timedelta(hours=number),
        )
        ingest_run(tx, run, f"{number:064x}", "body")
    replace_change_points(tx, PROJECT, a_series(), [a_change_point(commit=a_sha(4), last_good=a_sha(3))])
    compute_stored_summaries(tx)
    add_verdicts(tx, PROJECT, "s4", [a_verdict(base=a_sha(3), head=a_sha(4), evidence=(5, 7))], NOON)
