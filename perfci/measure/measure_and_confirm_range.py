"""Measure a range of commits in rounds, screen its neighbours and confirm candidates on fresh pairs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.history.decision_records import build_decision_key
from perfci.history.series_histories import update_change_points
from perfci.measure.commit_range_screening import (
    pair_neighbouring_commits,
    screen_neighbouring_commits,
)
from perfci.measure.confirmation import ConfirmationResult, confirm_changes
from perfci.measure.measurement_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import Status, Verdict
from perfci.project_policies import build_policy
from perfci.runner import visit_plan
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.store.queries.measured_series import load_series_ids_of_session

RENEW_AFTER_S = 30.0
"""Seconds between restarts of the fork servers.

A restart costs about 3 s, so at most a tenth of the time.
"""


@dataclass(frozen=True, slots=True)
class RangeResult:
    """The result of a range: how its processes ended, every current verdict, and the confirmed ones.

    ``sessions`` lists the session of the rounds first, then the one of the fresh pairs. ``work_s`` is in
    seconds.
    """

    sessions: Sequence[str]
    statuses: Sequence[Status]
    verdicts: Sequence[Verdict]
    confirmed: Sequence[Verdict]
    work_s: float


def measure_and_confirm_range(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    rounds: int,
    progress: SessionProgress,
    *,
    confirm: bool = True,
) -> RangeResult:
    """Measure and screen a range and, with ``confirm``, judge every candidate on fresh interleaved pairs."""
    session = open_measurement_session(
        store,
        runner,
        config.project,
        scope,
        "history",
        rounds=rounds,
        on_process=progress.report_process,
        on_message=progress.report,
    )
    progress.start_stage("rounds", len(scope.commits) * len(scope.cells) * rounds)
    measure_commit_rounds(session, scope, rounds, progress)
    policy = build_policy(config.settings)
    screening = screen_neighbouring_commits(session.readings, pair_neighbouring_commits(scope), policy)
    session.record_verdicts(screening.verdicts, screening.decisions)
    with store.begin() as tx:
        update_change_points(tx, config.project, load_series_ids_of_session(tx, session.uid), policy)
    confirmation = ConfirmationResult()
    if confirm:
        confirmation = confirm_changes(session, scope, screening.candidates, policy, progress)
    session.finish()
    replaced = {build_decision_key(verdict) for verdict in confirmation.verdicts}
    screened = [v for v in screening.verdicts if build_decision_key(v) not in replaced]
    return RangeResult(
        sessions=[session.uid, confirmation.session] if confirmation.session else [session.uid],
        statuses=[*session.statuses, *confirmation.statuses],
        verdicts=[*confirmation.verdicts, *screened],
        confirmed=confirmation.verdicts,
        work_s=session.work_s,
    )


def measure_commit_rounds(
    session: MeasurementSession, scope: SessionScope, rounds: int, progress: SessionProgress
) -> None:
    """Visit every commit once per round; a resumed session measures only what it lacks."""
    measured = {
        (sha, series.cell, process.round)
        for sha, rows in session.readings.processes_by_sha.items()
        for series, process in rows
    }
    renewed_at, last_round = time.monotonic(), -1
    for visit in visit_plan.plan_round_visits(list(scope.commits), scope.cells, rounds, session.seed):
        cells = [cell for cell in visit.cells if (visit.sha, cell.name, visit.round) not in measured]
        if visit.round is not None and visit.round != last_round:
            last_round = visit.round
            progress.report_with_time_left(f"round {last_round + 1} of {rounds}")
            if time.monotonic() - renewed_at > RENEW_AFTER_S:
                session.runner.close_fork_servers()
                renewed_at = time.monotonic()
        if cells:
            session.measure_visit(visit, cells)
