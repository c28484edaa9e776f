"""Measure a range of commits in rounds, screen its neighbours and confirm candidates on fresh pairs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from perfci.config import Config
from perfci.history.decision_records import build_decision_key
from perfci.history.series_histories import update_change_points
from perfci.measure.cells_within_time_budget import LeftOutCell, TimeBudget
from perfci.measure.commit_range_screening import (
    ScreeningResult,
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
from perfci.runner.suite_cells import Cell
from perfci.runner.visit_plan import CommitVisit
from perfci.store import Store
from perfci.store.queries.measured_series import load_series_ids_of_session
from perfci.verdicts.judging_policy import Policy

LONGER_THAN_PLANNED = "what was measured before it took longer than planned; the next call goes on with it"
LATER_ROUND = "a later round, which begins when the one before it is complete"

RENEW_AFTER_S = 30.0
"""Seconds between restarts of the fork servers.

A restart costs about 3 s, so at most a tenth of the time.
"""


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


@dataclass(slots=True)
class RoundsPlan:
    """What the rounds of a session still lack, and what of it fits into the budget of this call."""

    visits: Sequence[CommitVisit]
    measured: set[tuple[str, str, int | None]]  # sha, cell name and round
    budget: TimeBudget
    left_out: list[LeftOutCell] = field(default_factory=list)

    def list_missing_cells(self, visit: CommitVisit) -> list[Cell]:
        """The cells of a visit that were not measured, in its order."""
        return [cell for cell in visit.cells if (visit.sha, cell.name, visit.round) not in self.measured]

    def list_visits(self, number: int) -> list[CommitVisit]:
        """The visits of one round, in their order."""
        return [visit for visit in self.visits if visit.round == number]

    def choose_cells_of_round(self, number: int, tried: Collection[Cell]) -> Collection[Cell]:
        """Choose cells of a round that fit now; where none does, note those that are left."""
        counts = Counter(
            cell
            for visit in self.list_visits(number)
            for cell in self.list_missing_cells(visit)
            if cell not in tried
        )
        chosen, left_out = self.budget.choose_cells(list(counts.items()))
        if not chosen:
            named = {left.cell for left in self.left_out}
            self.left_out += [left for left in left_out if left.cell not in named]
        return chosen

    def note_unmeasured(self, visits: Sequence[CommitVisit], reason: str) -> None:
        """Note every cell that these visits lack."""
        counts = Counter(cell for visit in visits for cell in self.list_missing_cells(visit))
        named = {left.cell for left in self.left_out}
        self.left_out += [
            LeftOutCell(cell, cell.cost_s * count, reason)
            for cell, count in counts.items()
            if cell not in named
        ]


def measure_and_confirm_range(
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
    Within a ``budget`` rounds are measured as far as it goes; a range is screened once they are complete,
    and its candidates are confirmed to the end.
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
    left_out = measure_commit_rounds(session, scope, rounds, progress, budget or TimeBudget())
    policy = build_policy(config.settings)
    if any(left.fits_later for left in left_out):
        _update_change_points(session, config, policy)
        return RangeResult([session.uid], session.statuses, [], [], session.work_s, left_out)
    screening = screen_neighbouring_commits(session.readings, pair_neighbouring_commits(scope), policy)
    session.record_verdicts(screening.verdicts, screening.decisions)
    _update_change_points(session, config, policy)
    confirmation = ConfirmationResult()
    if confirm:
        confirmation = confirm_changes(session, scope, screening.candidates, policy, progress)
    session.finish()
    return _build_result(session, screening, confirmation, left_out)


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


def measure_commit_rounds(
    session: MeasurementSession,
    scope: SessionScope,
    rounds: int,
    progress: SessionProgress,
    budget: TimeBudget,
) -> Sequence[LeftOutCell]:
    """Visit every commit once per round; a resumed session measures only what it lacks.

    Returns the cells that the budget has no room for.
    """
    visits = list(visit_plan.plan_round_visits(list(scope.commits), scope.cells, rounds, session.seed))
    plan = RoundsPlan(visits, _list_measured_visits(session), budget)
    renewed_at = time.monotonic()
    for number in range(rounds):
        progress.report_with_time_left(f"round {number + 1} of {rounds}")
        if time.monotonic() - renewed_at > RENEW_AFTER_S:
            session.runner.close_fork_servers()
            renewed_at = time.monotonic()
        _measure_round(session, plan, number)
        if any(left.fits_later for left in plan.left_out):
            later = [visit for visit in visits if visit.round is not None and visit.round > number]
            plan.note_unmeasured(later, LATER_ROUND)
            break
    return plan.left_out


def _measure_round(session: MeasurementSession, plan: RoundsPlan, number: int) -> None:
    """Measure what fits of a round, in passes over its commits: cells that end early leave room for more."""
    tried: set[Cell] = set()
    while chosen := plan.choose_cells_of_round(number, tried):
        tried.update(chosen)
        for visit in plan.list_visits(number):
            cells = [cell for cell in plan.list_missing_cells(visit) if cell in chosen]
            if cells and not session.measure_visit(visit, cells, plan.budget.has_room_for):
                plan.measured = _list_measured_visits(session)
                plan.note_unmeasured(plan.list_visits(number), LONGER_THAN_PLANNED)
                return
        plan.measured = _list_measured_visits(session)


def _list_measured_visits(session: MeasurementSession) -> set[tuple[str, str, int | None]]:
    return {
        (sha, series.cell, process.round)
        for sha, rows in session.readings.processes_by_sha.items()
        for series, process in rows
    }
