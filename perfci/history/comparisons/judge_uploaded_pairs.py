"""Judge uploaded pairs, which were measured elsewhere, from their stored samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.complete_process_pairs import (
    PairedProcesses,
    find_complete_pair_numbers,
    select_paired_processes,
)
from perfci.history.decision_records import (
    METHOD_PAIRS,
    DecisionKey,
    build_decision_key,
    build_decision_record,
    build_interim_analysis_record,
)
from perfci.history.session_replay import SessionSamples
from perfci.model import Role, Series, Stage, Verdict
from perfci.store.queries.history_conditions import PULL_REQUEST_KIND
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.query_records import VerdictRecord
from perfci.store.queries.runs_and_sessions import find_sessions_started_after
from perfci.store.verdict_decision_records import (
    AAResult,
    DecisionRecord,
    add_verdict_decision_records,
    load_aa_results_by_series,
    load_latest_verdict_id,
)
from perfci.store.verdicts_and_change_points import add_verdicts, load_verdict_records
from perfci.store.writes.find_or_add_rows import load_session_kinds
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci.verdicts.judging_policy import Policy

VerdictDecision = tuple[Verdict, DecisionRecord]
"""A verdict and how it was reached."""


@dataclass(frozen=True, slots=True)
class UploadedPairs:
    """Everything that is read of one session before its pairs are judged.

    ``answered_questions`` are those with a verdict of a session that began later: fresh pairs decide over
    the pairs that nominated the candidate, in whichever order they arrive. A pull request answers no
    question but those of pull requests, and none that was answered without it.
    """

    project: str
    uid: str
    samples: SessionSamples
    aa_results: Mapping[Series, Sequence[AAResult]]
    aa_verdicts_until: int
    current_verdicts: frozenset[Verdict]
    answered_questions: frozenset[DecisionKey]

    @classmethod
    def load(cls, tx: Transaction, project: str, uid: str) -> UploadedPairs:
        """Read the session with the A/A runs known when it was first judged, for the same result."""
        samples = SessionSamples.from_rows(load_session_processes(tx, uid))
        existing = [
            record
            for base, head in _list_compared_commits(samples)
            for record in load_verdict_records(
                tx, project, base=base, head=head, current_only=False, with_pull_requests=True
            )
        ]
        records = [record for record in existing if record.session_uid == uid]
        until = min((record.id - 1 for record in records), default=load_latest_verdict_id(tx))
        current = [record for record in existing if record.superseded_by is None]
        own_verdicts = frozenset(record.verdict for record in current if record.session_uid == uid)
        deciding = _find_deciding_sessions(tx, uid, current)
        answered = frozenset(
            build_decision_key(record.verdict) for record in current if record.session_uid in deciding
        )
        aa_results = load_aa_results_by_series(tx, project, until)
        return cls(project, uid, samples, aa_results, until, own_verdicts, answered)

    def judge(self, policy: Policy) -> list[VerdictDecision]:
        """Judge each series of each comparison; omit verdicts that repeat or precede a current one.

        The pairs are looked at once, so a move needs what a confirmation needs, and the false discovery
        rate is controlled over all verdicts together.
        """
        judged = [
            judged_series
            for base, head in _list_compared_commits(self.samples)
            for judged_series in self._judge_commits(base, head, policy)
        ]
        verdicts = control_false_discoveries([verdict for verdict, _ in judged], FALSE_DISCOVERY_RATE)
        with_evidence = [
            (replace(verdict, evidence=self.samples.list_evidence_process_ids(verdict, decision)), decision)
            for verdict, (_, decision) in zip(verdicts, judged, strict=True)
        ]
        return [
            (verdict, decision)
            for verdict, decision in with_evidence
            if verdict not in self.current_verdicts
            and build_decision_key(verdict) not in self.answered_questions
        ]

    def _judge_commits(self, base: str, head: str, policy: Policy) -> list[VerdictDecision]:
        readings = {sha: list(self.samples.processes_by_sha.get(sha, ())) for sha in (base, head)}
        pairs = find_complete_pair_numbers(readings, base, head, self.samples.pair_commits)
        sides_by_series = select_paired_processes(readings, base, head, pairs)
        return [
            self._judge_series(series, base, head, pairs, sides, policy)
            for series, sides in sides_by_series.items()
            if policy.is_judged(series)
        ]

    def _judge_series(
        self,
        series: Series,
        base: str,
        head: str,
        pairs: Sequence[int],
        sides: PairedProcesses,
        policy: Policy,
    ) -> VerdictDecision:
        rule = policy.rule_for(series)
        look = interim_analysis(
            series,
            base,
            head,
            *sides,
            rule=rule,
            aa_runs=self.aa_results.get(series, ()),
            stage=Stage.CONFIRMATION,
        )
        records = [build_interim_analysis_record(look, len(pairs), None)]
        decision = build_decision_record(
            METHOD_PAIRS, rule, records, aa_verdicts_until=self.aa_verdicts_until
        )
        return look.verdict, decision


def _find_deciding_sessions(tx: Transaction, uid: str, current: Sequence[VerdictRecord]) -> set[str]:
    """Find the sessions whose verdicts prevail over those of this session."""
    kinds = load_session_kinds(tx, {uid, *(record.session_uid for record in current)})
    others = {other for other, kind in kinds.items() if kind != PULL_REQUEST_KIND}
    if kinds.get(uid) != PULL_REQUEST_KIND:
        return find_sessions_started_after(tx, uid, others)
    return others | find_sessions_started_after(tx, uid, kinds.keys())


def _list_compared_commits(samples: SessionSamples) -> list[tuple[str, str]]:
    """The pairs of commits that a session compared; half a pair compares nothing."""
    complete = (sides for sides in samples.pair_commits.values() if {Role.BASE, Role.HEAD} <= sides.keys())
    return list(dict.fromkeys((sides[Role.BASE], sides[Role.HEAD]) for sides in complete))


def save_verdicts_with_decisions(
    tx: Transaction, project: str, uid: str, verdict_decisions: Sequence[VerdictDecision], now: datetime
) -> None:
    """Store verdicts with their decisions; the verdicts they replace are marked, never edited."""
    row_ids = add_verdicts(tx, project, uid, [verdict for verdict, _ in verdict_decisions], now)
    decisions = (replace(record, rate=FALSE_DISCOVERY_RATE) for _, record in verdict_decisions)
    add_verdict_decision_records(tx, dict(zip(row_ids, decisions, strict=True)))
