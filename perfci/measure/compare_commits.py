"""Compare two commits in interleaved pairs: the planned looks, then fresh pairs for the candidates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.config import Config
from perfci.measure.adaptive_pairs import AdaptivePairing, PairingResult
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.confirmation import build_interim_look_reporter, confirm_changes
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import ALTERNATING_FLAG, Commit, EnvironmentChange, Stage, Status, Verdict
from perfci.project_policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.verdicts.compare.pooled_verdict import PooledVerdict, pooled_verdict_of_series
from perfci.verdicts.comparison_rule import MOVE_KINDS
from perfci.verdicts.environment_changes import diff_environments
from perfci.verdicts.judging_policy import Policy


@dataclass(frozen=True, slots=True)
class CommitComparison:
    """The result of comparing two commits.

    How the processes ended, and one current verdict per judged series.

    ``session`` measured the screening pairs, ``confirmation_session`` the fresh pairs of the candidates, if
    any. ``pooled`` is the verdict on all benchmarks together by their screening pairs; fresh pairs are left
    out, since they were measured for the benchmarks that looked changed and would outweigh the rest.
    ``environment`` is what differs between base and head, ``in_turns`` whether processes of a pair
    alternated, and ``hit_deadline`` whether the time budget ended the measuring. With ``identical_inputs``
    the commits differ in no file that the benchmarks can see, so every move is a false alarm.
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
    def session_uids(self) -> list[str]:
        """The session of the planned looks and, if there was one, that of the confirmation."""
        return [self.session, self.confirmation_session] if self.confirmation_session else [self.session]


def measure_commit_comparison(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    base: Commit,
    head: Commit,
    progress: SessionProgress,
    *,
    strict: bool = False,
    budget_s: float | None = None,
) -> CommitComparison:
    """Compare two commits; one commit with itself is an A/A run, which sets the noise floor of its series.

    Two commits that differ only in files the benchmarks cannot see (``[suite] ignored_files``) are an A/A
    run too.
    """
    policy = build_policy(config.settings, strict=strict)
    identical_inputs = runner.repository.differ_only_in_ignored_files(
        base, head, config.settings.suite.ignored_files
    )
    session = open_measurement_session(
        store,
        runner,
        config.project,
        scope,
        "aa" if identical_inputs else "compare",
        identity=f"{base.sha}..{head.sha}",
        on_process=progress.report_process,
        on_message=progress.report,
    )
    questions = [ComparisonQuestion(base.sha, head.sha, cell) for cell in scope.cells]
    deadline = None if budget_s is None else time.monotonic() + budget_s
    screening = _screen(session, questions, policy, deadline, progress)
    hit_deadline = deadline is not None and time.monotonic() >= deadline
    screened = screening.list_verdicts()
    session.record_verdicts(screened, screening.decisions)
    candidates = [verdict for verdict in screened if verdict.kind in MOVE_KINDS]
    confirmation = confirm_changes(session, scope, candidates, policy, progress)
    session.finish()
    replaced = {verdict.series for verdict in confirmation.verdicts}
    shifts = ((series, shift) for (_, series), shift in screening.shifts.items())
    return CommitComparison(
        session=session.uid,
        base=base,
        head=head,
        statuses=[*session.statuses, *confirmation.statuses],
        verdicts=[*confirmation.verdicts, *(v for v in screened if v.series not in replaced)],
        pooled=pooled_verdict_of_series(shifts, policy),
        environment=diff_environments(
            runner.describe_environment(base.sha), runner.describe_environment(head.sha)
        ),
        in_turns=any(ALTERNATING_FLAG in process.flags for process in session.readings.list_processes()),
        hit_deadline=hit_deadline,
        confirmation_session=confirmation.session,
        identical_inputs=identical_inputs,
    )


def _screen(
    session: MeasurementSession,
    questions: Sequence[ComparisonQuestion],
    policy: Policy,
    deadline: float | None,
    progress: SessionProgress,
) -> PairingResult:
    """Take the planned looks at every question until each is decided."""
    progress.start_stage("pairs", 2 * policy.default.looks[0] * len(questions))
    pairing = AdaptivePairing(
        session, questions, policy, Stage.SCREENING, deadline, build_interim_look_reporter(progress)
    )
    return pairing.measure_until_decided()
