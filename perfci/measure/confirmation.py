"""Confirm candidate changes: measure them again on fresh pairs, which alone decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.measure.adaptive_pairs import AdaptivePairing, OnLook, PairingResult
from perfci.measure.cells_within_time_budget import TimeBudget
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import Stage, Status, Verdict
from perfci.number_format import format_count, format_duration
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.judging_policy import Policy


@dataclass(frozen=True, slots=True)
class ConfirmationResult:
    """The verdicts on fresh pairs and the session that measured them; empty where there was no candidate.

    ``open_questions`` are those that the time budget left without enough pairs: the session is unfinished,
    has no verdict yet, and goes on when it is opened again.
    """

    session: str = ""
    verdicts: Sequence[Verdict] = ()
    statuses: Sequence[Status] = ()
    open_questions: Sequence[ComparisonQuestion] = ()


def confirm_changes(
    session: MeasurementSession,
    scope: SessionScope,
    candidates: Sequence[Verdict],
    policy: Policy,
    progress: SessionProgress,
    *,
    budget: TimeBudget | None = None,
) -> ConfirmationResult:
    """Judge each candidate on pairs that no earlier look has used, then control the false discoveries.

    Together they are judged once all have their pairs: until then what a ``budget`` left open waits.
    """
    if not candidates:
        return ConfirmationResult()
    questions = build_confirmation_questions(candidates, scope)
    deadline = budget.deadline if budget else None
    fresh, result = measure_fresh_pairs(session, scope, questions, policy, progress, deadline=deadline)
    if result.open_questions:
        return ConfirmationResult(fresh.uid, (), fresh.statuses, result.open_questions)
    verdicts = control_false_discoveries(result.list_verdicts(), FALSE_DISCOVERY_RATE)
    fresh.record_verdicts(verdicts, result.decisions, false_discovery_rate=FALSE_DISCOVERY_RATE)
    fresh.finish()
    return ConfirmationResult(fresh.uid, verdicts, fresh.statuses)


def measure_fresh_pairs(
    session: MeasurementSession,
    scope: SessionScope,
    questions: Sequence[ComparisonQuestion],
    policy: Policy,
    progress: SessionProgress,
    *,
    deadline: float | None = None,
) -> tuple[MeasurementSession, PairingResult]:
    """Measure fresh pairs of the questions, by fresh processes in a session of their own."""
    progress.start_stage("fresh pairs", 2 * policy.default.looks[0] * len(questions))
    progress.report(_format_cost(session, questions, policy))
    # Fresh parents have another memory layout, so that the screening's is no part of what is confirmed.
    session.runner.close_fork_servers()
    fresh = open_measurement_session(
        session.store,
        session.runner,
        session.project,
        scope,
        "confirm",
        identity=session.uid,
        on_process=progress.report_process,
        on_message=progress.report,
    )
    pairing = AdaptivePairing(
        fresh,
        questions,
        policy,
        Stage.CONFIRMATION,
        deadline=deadline,
        on_look=build_interim_look_reporter(progress),
        false_discovery_rate=FALSE_DISCOVERY_RATE,
    )
    return fresh, pairing.measure_until_decided()


def _format_cost(session: MeasurementSession, questions: Sequence[ComparisonQuestion], policy: Policy) -> str:
    """How long fresh pairs take, from the first look that may decide to the last, by what was measured."""
    process_s = max((question.cell.cost_s for question in questions), default=0.0)
    if session.statuses:
        process_s = session.work_s / len(session.statuses)
    least, most = (2 * process_s * len(questions) * policy.default.looks[at] for at in (0, -1))
    return (
        f"confirming {format_count(len(questions), 'candidate change')} by A/B reruns: "
        f"{format_duration(least)} to {format_duration(most)}"
    )


def build_confirmation_questions(
    candidates: Sequence[Verdict], scope: SessionScope
) -> list[ComparisonQuestion]:
    """One question for each pair of commits and cell of the candidates."""
    cells = {cell.name: cell for cell in scope.cells}
    return list(dict.fromkeys(ComparisonQuestion(v.base, v.head, cells[v.series.cell]) for v in candidates))


def build_interim_look_reporter(progress: SessionProgress) -> OnLook:
    """Report to ``progress`` what every look leaves open."""

    def on_look(questions: int, pairs: int) -> None:
        progress.set_remaining_processes(2 * pairs)
        progress.report_with_time_left(
            f"{format_count(pairs, 'pair')} for {format_count(questions, 'open question')}"
        )

    return on_look
