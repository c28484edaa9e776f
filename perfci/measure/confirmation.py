"""Second looks: what a first look suspected is measured again on fresh pairs, and only those convict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.measure.adaptive_pairs import AdaptivePairing, OnLook
from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.open_session import SessionScope, open_session
from perfci.measure.progress import SessionProgress
from perfci.measure.questions import Question
from perfci.measure.record_decisions import record_verdicts
from perfci.model import Stage, Status, Verdict
from perfci.report.number_format import format_count
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.policy import Policy


@dataclass(frozen=True, slots=True)
class ConfirmationResult:
    """What fresh pairs said of what was suspected; nothing where nothing was."""

    session: str = ""
    verdicts: Sequence[Verdict] = ()
    statuses: Sequence[Status] = ()


def confirm_changes(
    session: MeasurementSession,
    scope: SessionScope,
    candidates: Sequence[Verdict],
    policy: Policy,
    progress: SessionProgress,
) -> ConfirmationResult:
    """Convict or acquit each suspicion on pairs that no earlier look has seen, then control the false discoveries."""
    if not candidates:
        return ConfirmationResult()
    fresh, found = measure_fresh_pairs(session, scope, build_questions(candidates, scope), policy, progress)
    verdicts = control_false_discoveries(
        [verdict for verdicts in found.values() for verdict in verdicts], FALSE_DISCOVERY_RATE
    )
    record_verdicts(fresh, verdicts, false_discovery_rate=FALSE_DISCOVERY_RATE)
    fresh.finish()
    return ConfirmationResult(fresh.uid, verdicts, fresh.statuses)


def measure_fresh_pairs(
    session: MeasurementSession,
    scope: SessionScope,
    questions: Sequence[Question],
    policy: Policy,
    progress: SessionProgress,
) -> tuple[MeasurementSession, dict[Question, list[Verdict]]]:
    """Ask the same questions on fresh pairs, measured by fresh processes in a session of their own."""
    progress.start_stage("fresh pairs", 2 * policy.default.looks[0] * len(questions))
    progress.report(f"{format_count(len(questions), 'suspected change')} to settle on fresh pairs")
    session.workbench.restart_environments()
    fresh = open_session(
        session.store,
        session.workbench,
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
        on_look=build_look_callback(progress),
        false_discovery_rate=FALSE_DISCOVERY_RATE,
    )
    return fresh, pairing.measure_until_decided()


def build_questions(candidates: Sequence[Verdict], scope: SessionScope) -> list[Question]:
    cells = {cell.name: cell for cell in scope.cells}
    return list(dict.fromkeys(Question(v.base, v.head, cells[v.series.cell]) for v in candidates))


def build_look_callback(progress: SessionProgress) -> OnLook:
    """Tell a watcher what every look leaves open."""

    def on_look(questions: int, pairs: int) -> None:
        progress.set_remaining(2 * pairs)
        progress.report_step(f"{format_count(pairs, 'pair')} for {format_count(questions, 'open question')}")

    return on_look
