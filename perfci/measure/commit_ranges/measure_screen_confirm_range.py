"""Measure a range of commits in rounds, screen its neighbours and confirm candidates on fresh pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.history.decision_records import build_decision_key
from perfci.history.series_histories import update_change_points
from perfci.measure.cells_within_time_budget import LeftOutCell, TimeBudget
from perfci.measure.commit_ranges.commit_range_screening import (
    ScreeningResult,
    pair_neighbouring_commits,
    screen_neighbouring_commits,
)
from perfci.measure.commit_ranges.measure_commit_rounds import measure_commit_rounds
from perfci.measure.confirmation import ConfirmationResult, confirm_changes
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import Status, Verdict
from perfci.project_policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell
from perfci.store import Store
from perfci.store.queries.measured_series import load_series_ids_of_session
from perfci.verdicts.judging_policy import Policy

UNCONFIRMED = "candidate changes wait for more fresh pairs"
"""Why a cell is left out whose rounds are complete."""


@dataclass(frozen=True, slots=True)
class RangeResult:
    """The result of a range: how its processes ended, every current verdict, and the confirmed ones.

    ``sessions`` lists the session of the rounds first, then the one of the fresh pairs. ``work_s`` is in
    seconds. ``left_out`` are the cells that the budget had no room for: where some of them fit later, the
    session is unfinished, and the next call with the same options goes on with it.
    """

    sessions: Sequence[str]
    statuses: Sequence[Status]
    verdicts: Sequence[Verdict]
    confirmed: Sequence[Verdict]
    work_s: float
    left_out: Sequence[LeftOutCell] = ()


def measure_screen_confirm_range(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    rounds: int,
    progress: SessionProgress,
    *,
    confirm: bool = True,
    budget: TimeBudget | None = None,
    plan_summary: str = "",
) -> RangeResult:
    """Measure and screen a range and, with ``confirm``, judge every candidate on fresh interleaved pairs.

    ``plan_summary`` is reported once the session is open, which is when nothing can be refused any more.
    Within a ``budget`` rounds are measured as far as it goes; a range is screened once they are complete.
    Where the budget ends before all candidates have their fresh pairs, the next call goes on with those.
    """
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
    if plan_summary:
        progress.report(plan_summary)
    progress.start_stage("rounds", len(scope.commits) * len(scope.cells) * rounds)
    budget = budget or TimeBudget()
    left_out = measure_commit_rounds(session, scope, rounds, progress, budget)
    policy = build_policy(config.settings)
    if any(left.fits_later for left in left_out):
        _update_change_points(session, config, policy)
        return RangeResult([session.uid], session.statuses, [], [], session.work_s, left_out)
    screening = screen_neighbouring_commits(session.readings, pair_neighbouring_commits(scope), policy)
    session.record_verdicts(screening.verdicts, screening.decisions)
    _update_change_points(session, config, policy)
    confirmation = ConfirmationResult()
    if confirm:
        confirmation = confirm_changes(session, scope, screening.candidates, policy, progress, budget=budget)
    left_out = [*left_out, *_list_unconfirmed_cells(confirmation)]
    if not confirmation.open_questions:
        session.finish()
    return _build_result(session, screening, confirmation, left_out)


def _list_unconfirmed_cells(confirmation: ConfirmationResult) -> list[LeftOutCell]:
    """The cells whose candidate changes wait for fresh pairs, each with the cost of one pair per question."""
    costs_s: dict[Cell, float] = {}
    for question in confirmation.open_questions:
        costs_s[question.cell] = costs_s.get(question.cell, 0.0) + 2 * question.cell.cost_s
    return [LeftOutCell(cell, cost_s, UNCONFIRMED) for cell, cost_s in costs_s.items()]


def _update_change_points(session: MeasurementSession, config: Config, policy: Policy) -> None:
    """Evaluate the histories of all series of a session."""
    with session.store.begin() as tx:
        update_change_points(tx, config.project, load_series_ids_of_session(tx, session.uid), policy)


def _build_result(
    session: MeasurementSession,
    screening: ScreeningResult,
    confirmation: ConfirmationResult,
    left_out: Sequence[LeftOutCell],
) -> RangeResult:
    """Join the rounds and the fresh pairs; a confirmed verdict takes the place of its screening."""
    replaced = {build_decision_key(verdict) for verdict in confirmation.verdicts}
    screened = [v for v in screening.verdicts if build_decision_key(v) not in replaced]
    return RangeResult(
        sessions=[session.uid, confirmation.session] if confirmation.session else [session.uid],
        statuses=[*session.statuses, *confirmation.statuses],
        verdicts=[*confirmation.verdicts, *screened],
        confirmed=confirmation.verdicts,
        work_s=session.work_s,
        left_out=left_out,
    )
