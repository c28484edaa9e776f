"""Two commits in interleaved pairs: looks as planned, then fresh pairs for whatever was flagged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.measure.adaptive_pairs import Pairing
from perfci.measure.confirmation import settle, told
from perfci.measure.measurement_session import Session
from perfci.measure.open_session import Subject, open_session
from perfci.measure.progress import Watcher
from perfci.measure.questions import Question
from perfci.measure.record_decisions import record
from perfci.model import IN_TURNS, Commit, ObservedChange, Stage, Status, Verdict
from perfci.policies import policy_of
from perfci.runner.measurement_runner import Workbench
from perfci.store import Store
from perfci.verdicts.compare.pooled_verdict import PooledVerdict, pooled_verdict
from perfci.verdicts.history.environment_changes import changed
from perfci.verdicts.rule import MOVES


@dataclass(frozen=True, slots=True)
class Comparison:
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
    environment: Sequence[ObservedChange] = ()
    in_turns: bool = False
    late: bool = False
    fresh: str = ""
    equals: bool = False

    @property
    def sessions(self) -> list[str]:
        """All that was measured for this comparison, in its order."""
        return [self.session, self.fresh] if self.fresh else [self.session]


def run_comparison(
    store: Store, workbench: Workbench, config: Config, subject: Subject, base: Commit, head: Commit, watcher: Watcher,
    *, strict: bool = False, budget_s: float | None = None,
) -> Comparison:  # fmt: skip
    """Compare; the same commit on both sides is an A/A run, whose spread becomes the noise floor of its series.

    So are two commits that differ in no file the benchmarks can see (``[suite] unseen``).
    """
    policy = policy_of(config, strict=strict)
    equals = workbench.repository.look_alike(base, head, config.settings.suite.unseen)
    session = open_session(
        store, workbench, config.project, subject, "aa" if equals else "compare", about=f"{base.sha}..{head.sha}",
        on_process=watcher.process, say=watcher.say,
    )  # fmt: skip
    questions = [Question(base.sha, head.sha, cell) for cell in subject.cells]
    watcher.stage("pairs", 2 * policy.default.looks[0] * len(questions))
    deadline = None if budget_s is None else time.monotonic() + budget_s
    pairing = Pairing(session, questions, policy, Stage.SCREENING, deadline, told(watcher))
    first = [verdict for verdicts in pairing.settle().values() for verdict in verdicts]
    late = deadline is not None and time.monotonic() >= deadline
    record(session, first)
    flagged = [verdict for verdict in first if verdict.kind in MOVES]
    settled = settle(session, subject, flagged, policy, watcher)
    session.finish()
    places = {v.series for v in settled.verdicts}
    current = [*settled.verdicts, *(v for v in first if v.series not in places)]
    pooled = pooled_verdict(((series, shift) for (_, series), shift in pairing.shifts.items()), policy)
    return Comparison(
        session.uid, base, head, [*session.statuses, *settled.statuses], current, pooled,
        changed(workbench.environment(base.sha), workbench.environment(head.sha)), _took_turns(session), late,
        settled.session, equals,
    )  # fmt: skip


def _took_turns(session: Session) -> bool:
    return any(IN_TURNS in process.flags for rows in session.measured.values() for _, process in rows)
