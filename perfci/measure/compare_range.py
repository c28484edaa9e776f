"""A range of commits: measured in rounds, screened neighbour by neighbour, convicted on fresh pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.history.derive_change_points import update_change_points
from perfci.measure.confirmation import Settled, settle
from perfci.measure.open_session import Subject, open_session
from perfci.measure.progress import Watcher
from perfci.measure.record_decisions import record, with_evidence
from perfci.measure.rounds import measure_rounds, neighbours, screened
from perfci.model import Status, Verdict
from perfci.policies import policy_of
from perfci.runner.measurement_runner import Workbench
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
    settled: Sequence[Verdict]
    work_s: float


def run_range(
    store: Store, workbench: Workbench, config: Config, subject: Subject, rounds: int, watcher: Watcher, *,
    confirm: bool = True,
) -> RangeResult:  # fmt: skip
    """Measure, screen and (unless told not to) settle every suspicion on fresh interleaved pairs."""
    session = open_session(
        store, workbench, config.project, subject, "history", rounds=rounds, on_process=watcher.process, say=watcher.say
    )
    watcher.stage("rounds", len(subject.commits) * len(subject.cells) * rounds)
    measure_rounds(session, subject, rounds, watcher)
    policy = policy_of(config)
    screening, nominated = screened(session, neighbours(subject), policy)
    record(session, with_evidence(session, screening))
    with store.begin() as tx:
        update_change_points(tx, config.project, series_of_session(tx, session.uid), policy)
    settled = settle(session, subject, nominated, policy, watcher) if confirm else Settled()
    session.finish()
    places = {(v.series, v.base, v.head) for v in settled.verdicts}
    current = [*settled.verdicts, *(v for v in screening if (v.series, v.base, v.head) not in places)]
    sessions = [session.uid, settled.session] if settled.session else [session.uid]
    return RangeResult(sessions, [*session.statuses, *settled.statuses], current, settled.verdicts, session.work_s)
