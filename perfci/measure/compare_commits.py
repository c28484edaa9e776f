"""Two commits in interleaved pairs: looks as planned, then fresh pairs for whatever was flagged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.confirmation import build_look_callback, confirm_changes
from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.open_session import SessionScope, open_session
from perfci.measure.progress import SessionProgress
from perfci.measure.questions import Question
from perfci.measure.record_decisions import record_verdicts
from perfci.model import ALTERNATING_FLAG, Commit, EnvironmentChange, Stage, Status, Verdict
from perfci.policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.verdicts.compare.pooled_verdict import PooledVerdict, pool_series_shifts
from perfci.verdicts.history.environment_changes import diff_environments
from perfci.verdicts.rule import MOVE_KINDS


@dataclass(frozen=True, slots=True)
class CommitComparison:
    """What two commits showed: the ends of the processes, and one current verdict per judged series.

    ``session`` measured the pairs of the first looks, and ``fresh`` those that settled what they flagged, if anything.
    ``pooled`` is what all benchmarks said together while they were screened, fresh pairs left out: those were bought
    for what looked changed, and would speak louder than the rest. ``environment`` is what was observed differently at
    base and head, ``in_turns`` tells that processes of a pair took turns, and ``late`` that the time budget ended the
    search for more pairs. ``equals`` differ in no file that the benchmarks can see: whatever moved is a false alarm.
    """

    session: str
    base: Commit
    head: Commit
    statuses: Sequence[Status]
    verdicts: Sequence[Verdict]
    pooled: PooledVerdict | None = None
    environment: Sequence[EnvironmentChange] = ()
    in_turns: bool = False
    hit_deadline: bool = False
    confirmation_session: str = ""
    identical_inputs: bool = False

    @property
    def sessions(self) -> list[str]:
        """All that was measured for this comparison, in its order."""
        return [self.session, self.confirmation_session] if self.confirmation_session else [self.session]


def run_comparison(
    store: Store,
    workbench: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    base: Commit,
    head: Commit,
    progress: SessionProgress,
    *,
    strict: bool = False,
    budget_s: float | None = None,
) -> CommitComparison:
    """Compare; the same commit on both sides is an A/A run, whose spread becomes the noise floor of its series.

    So are two commits that differ in no file the benchmarks can see (``[suite] ignored_files``).
    """
    policy = build_policy(config, strict=strict)
    equals = workbench.repository.has_identical_inputs(base, head, config.settings.suite.ignored_files)
    session = open_session(
        store,
        workbench,
        config.project,
        scope,
        "aa" if equals else "compare",
        identity=f"{base.sha}..{head.sha}",
        on_process=progress.report_process,
        on_message=progress.report,
    )
    questions = [Question(base.sha, head.sha, cell) for cell in scope.cells]
    progress.start_stage("pairs", 2 * policy.default.looks[0] * len(questions))
    deadline = None if budget_s is None else time.monotonic() + budget_s
    pairing = AdaptivePairing(
        session, questions, policy, Stage.SCREENING, deadline, build_look_callback(progress)
    )
    first = [verdict for verdicts in pairing.measure_until_decided().values() for verdict in verdicts]
    late = deadline is not None and time.monotonic() >= deadline
    record_verdicts(session, first)
    flagged = [verdict for verdict in first if verdict.kind in MOVE_KINDS]
    settled = confirm_changes(session, scope, flagged, policy, progress)
    session.finish()
    places = {v.series for v in settled.verdicts}
    current = [*settled.verdicts, *(v for v in first if v.series not in places)]
    pooled = pool_series_shifts(((series, shift) for (_, series), shift in pairing.shifts.items()), policy)
    return CommitComparison(
        session.uid,
        base,
        head,
        [*session.statuses, *settled.statuses],
        current,
        pooled,
        diff_environments(workbench.environment(base.sha), workbench.environment(head.sha)),
        _has_interleaved_processes(session),
        late,
        settled.session,
        equals,
    )


def _has_interleaved_processes(session: MeasurementSession) -> bool:
    return any(
        ALTERNATING_FLAG in process.flags for rows in session.processes_by_sha.values() for _, process in rows
    )
