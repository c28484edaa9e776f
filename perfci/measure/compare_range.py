"""A range of commits: measured in rounds, screened neighbour by neighbour, convicted on fresh pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.history.derive_change_points import update_change_points
from perfci.measure.confirmation import ConfirmationResult, confirm_changes
from perfci.measure.open_session import SessionScope, open_session
from perfci.measure.progress import SessionProgress
from perfci.measure.record_decisions import attach_evidence, record_verdicts
from perfci.measure.rounds import measure_rounds, pair_neighbours, screen_neighbours
from perfci.model import Status, Verdict
from perfci.policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.store.queries.measurements import series_of_session


@dataclass(frozen=True, slots=True)
class RangeResult:
    """What a range gave: the ends of its processes, every current verdict, and those settled on fresh pairs.

    ``sessions`` are all that was measured for it, the rounds first, then the fresh pairs.
    """

    sessions: Sequence[str]
    statuses: Sequence[Status]
    verdicts: Sequence[Verdict]
    confirmed: Sequence[Verdict]
    work_s: float


def run_range(
    store: Store,
    workbench: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    rounds: int,
    progress: SessionProgress,
    *,
    confirm: bool = True,
) -> RangeResult:
    """Measure, screen and (unless told not to) settle every suspicion on fresh interleaved pairs."""
    session = open_session(
        store,
        workbench,
        config.project,
        scope,
        "history",
        rounds=rounds,
        on_process=progress.report_process,
        on_message=progress.report,
    )
    progress.start_stage("rounds", len(scope.commits) * len(scope.cells) * rounds)
    measure_rounds(session, scope, rounds, progress)
    policy = build_policy(config)
    screening, nominated = screen_neighbours(session, pair_neighbours(scope), policy)
    record_verdicts(session, attach_evidence(session, screening))
    with store.begin() as tx:
        update_change_points(tx, config.project, series_of_session(tx, session.uid), policy)
    settled = (
        confirm_changes(session, scope, nominated, policy, progress) if confirm else ConfirmationResult()
    )
    session.finish()
    places = {(v.series, v.base, v.head) for v in settled.verdicts}
    current = [*settled.verdicts, *(v for v in screening if (v.series, v.base, v.head) not in places)]
    sessions = [session.uid, settled.session] if settled.session else [session.uid]
    return RangeResult(
        sessions, [*session.statuses, *settled.statuses], current, settled.verdicts, session.work_s
    )
