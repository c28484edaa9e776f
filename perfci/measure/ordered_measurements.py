"""Measure what an order asks for, in one session that a next worker resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from perfci.config import Config
from perfci.history.series_histories import update_change_points
from perfci.measure.adaptive_pairs import AdaptivePairing, PairingResult
from perfci.measure.cells_within_time_budget import TimeBudget
from perfci.measure.commit_ranges.measure_commit_rounds import measure_commit_rounds
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import Commit, Process, Stage, Status, Verdict
from perfci.project_policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.store.queries.measured_series import load_series_ids_of_session
from perfci.store.verdicts_and_change_points import load_verdict_records
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.judging_policy import Policy


class OrderProgress(SessionProgress, Protocol):
    """Progress that also hears in what a stage is counted, and how many processes are stored already."""

    def count_in(self, noun: str, processes_each: int) -> None: ...


@dataclass(frozen=True, slots=True)
class OrderedMeasurement:
    """A session that is measured and judged but not finished: whoever ordered it has to know first."""

    session: MeasurementSession
    verdicts: Sequence[Verdict] = ()

    @property
    def failure(self) -> str:
        """Why nothing could be measured; empty where anything was."""
        processes: list[Process] = list(self.session.readings.list_processes())
        if any(process.status is Status.OK for process in processes):
            return ""
        reasons = [process.reason or process.status.value for process in processes]
        return f"Nothing could be measured: {reasons[0] if reasons else 'there was nothing to measure'}"

    def finish(self) -> None:
        """End the session, so that the next order measures anew."""
        self.session.finish()


def measure_ordered_pairs(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    base: Commit,
    head: Commit,
    progress: OrderProgress,
    *,
    identity: str,
    pairs: int | None = None,
) -> OrderedMeasurement:
    """Measure pairs of two commits and judge them as fresh ones, which decide over what a history shows.

    Nobody has looked at them before: they are no screening, and are judged at once, with the false
    discoveries among all benchmarks controlled, as pairs that were uploaded are. With a fixed number of
    ``pairs`` they are judged when all of them are measured.
    """
    policy = build_policy(config.settings)
    if pairs is not None:
        policy = replace(policy, default=replace(policy.default, looks=(pairs,), max_pairs=pairs))
    identical = runner.repository.differ_only_in_ignored_files(
        base, head, config.settings.suite.ignored_files
    )
    session = open_measurement_session(
        store,
        runner,
        config.project,
        scope,
        "aa" if identical else "compare",
        identity=f"{identity} {base.sha}..{head.sha}",
        on_process=progress.report_process,
        on_message=progress.report,
    )
    questions = [ComparisonQuestion(base.sha, head.sha, cell) for cell in scope.cells]
    progress.count_in("pair", 2)
    progress.start_stage("pairs", 2 * policy.default.looks[0] * len(questions))

    def on_look(open_questions: int, pairs_to_come: int) -> None:
        progress.set_remaining_processes(2 * pairs_to_come)

    stage = Stage.SCREENING if identical else Stage.CONFIRMATION
    rate = None if identical else FALSE_DISCOVERY_RATE
    pairing = AdaptivePairing(session, questions, policy, stage, on_look=on_look, false_discovery_rate=rate)
    result = pairing.measure_until_decided()
    verdicts = result.list_verdicts()
    if rate is not None:
        verdicts = control_false_discoveries(verdicts, rate)
    _record_new_verdicts(session, base, head, verdicts, result, rate)
    return OrderedMeasurement(session, verdicts)


def measure_ordered_commit(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    progress: OrderProgress,
    *,
    identity: str,
) -> OrderedMeasurement:
    """Measure one commit in rounds for the history."""
    rounds = config.settings.run.rounds
    session = open_measurement_session(
        store,
        runner,
        config.project,
        scope,
        "history",
        rounds=rounds,
        identity=identity,
        on_process=progress.report_process,
        on_message=progress.report,
    )
    progress.count_in("process", 1)
    progress.start_stage("rounds", len(scope.cells) * rounds)
    measure_commit_rounds(session, scope, rounds, progress, TimeBudget())
    policy: Policy = build_policy(config.settings)
    with store.begin() as tx:
        update_change_points(tx, config.project, load_series_ids_of_session(tx, session.uid), policy)
    return OrderedMeasurement(session)


def _record_new_verdicts(
    session: MeasurementSession,
    base: Commit,
    head: Commit,
    verdicts: Sequence[Verdict],
    result: PairingResult,
    rate: float | None,
) -> None:
    """Store the verdicts, but for those that a worker stored before it was lost."""
    with session.store.read() as tx:
        records = load_verdict_records(tx, session.project, base=base.sha, head=head.sha)
    stored = {record.verdict for record in records if record.session_uid == session.uid}
    new = [verdict for verdict in verdicts if verdict not in stored]
    session.record_verdicts(new, result.decisions, false_discovery_rate=rate)
