"""Pairs that were measured elsewhere and uploaded: judged from the stored samples, as a replay would judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history.judge_samples import (
    METHOD_PAIRS,
    DecisionKey,
    PairedProcesses,
    build_decision_key,
    build_decision_record,
    build_look_record,
    find_complete_pairs,
    select_judged_sides,
)
from perfci.history.stored_samples import SessionSamples
from perfci.model import Role, Series, Stage, Verdict
from perfci.store.queries.decisions import (
    AAResult,
    DecisionRecord,
    add_decisions,
    load_aa_results,
    load_latest_verdict_id,
)
from perfci.store.queries.measurements import load_session_processes, load_verdict_records
from perfci.store.queries.run_lookup import find_later_sessions
from perfci.store.writes.verdict_writes import add_verdicts
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.pairwise import interim_analysis
from perfci.verdicts.policy import Policy

VerdictDecision = tuple[Verdict, DecisionRecord]


@dataclass(frozen=True, slots=True)
class UploadedPairs:
    """What has to be read of one session before its pairs are judged.

    ``settled`` are the questions that a session which began later has answered: fresh pairs speak after those that
    raised the suspicion, in whichever order they arrive.
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
        """What was known of noise when the session was first judged is what counts whenever that is done again."""
        samples = SessionSamples.from_rows(load_session_processes(tx, uid))
        told = [
            record
            for base, head in _list_compared_commits(samples)
            for record in load_verdict_records(tx, project, base=base, head=head, current_only=False)
        ]
        records = [record for record in told if record.session_uid == uid]
        until = min((record.id - 1 for record in records), default=load_latest_verdict_id(tx))
        current = [record for record in told if record.superseded_by is None]
        standing = frozenset(record.verdict for record in current if record.session_uid == uid)
        later = find_later_sessions(tx, uid, {record.session_uid for record in current})
        settled = frozenset(
            build_decision_key(record.verdict) for record in current if record.session_uid in later
        )
        return cls(project, uid, samples, load_aa_results(tx, project, until), until, standing, settled)

    def judge(self, policy: Policy) -> list[VerdictDecision]:
        """One verdict for each judged series of each comparison, where none that stands already says as much or more.

        They were looked at once, so they are held to what convicts, and to the false discovery rate of all together.
        """
        decided = [
            one
            for base, head in _list_compared_commits(self.samples)
            for one in self._judge_commits(base, head, policy)
        ]
        verdicts = control_false_discoveries([verdict for verdict, _ in decided], FALSE_DISCOVERY_RATE)
        told = [
            (replace(verdict, evidence=self.samples.collect_evidence(verdict, reached)), reached)
            for verdict, (_, reached) in zip(verdicts, decided, strict=True)
        ]
        return [
            (verdict, reached)
            for verdict, reached in told
            if verdict not in self.current_verdicts
            and build_decision_key(verdict) not in self.answered_questions
        ]

    def _judge_commits(self, base: str, head: str, policy: Policy) -> list[VerdictDecision]:
        readings = {sha: list(self.samples.processes_by_sha.get(sha, ())) for sha in (base, head)}
        pairs = find_complete_pairs(readings, base, head, self.samples.pair_commits)
        found = select_judged_sides(readings, base, head, pairs)
        return [
            self._judge_series(series, base, head, pairs, sides, policy)
            for series, sides in found.items()
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
        rule, aa = policy.rule_for(series), [one.log_ratio for one in self.aa_results.get(series, ())]
        seen = interim_analysis(
            series, base, head, *sides, rule=rule, aa_log_ratios=aa, stage=Stage.CONFIRMATION
        )
        looked = build_look_record(seen, len(pairs), None)
        return seen.verdict, build_decision_record(
            METHOD_PAIRS, rule, [looked], aa_verdicts_until=self.aa_verdicts_until
        )


def _list_compared_commits(samples: SessionSamples) -> list[tuple[str, str]]:
    """Which commits its pairs compared; half a pair compares nothing."""
    whole = (sides for sides in samples.pair_commits.values() if {Role.BASE, Role.HEAD} <= sides.keys())
    return list(dict.fromkeys((sides[Role.BASE], sides[Role.HEAD]) for sides in whole))


def save_verdicts(
    tx: Transaction, project: str, uid: str, verdict_decisions: Sequence[VerdictDecision], now: datetime
) -> None:
    """Store verdicts and how they were reached; those they replace are marked, never edited."""
    ids = add_verdicts(tx, project, uid, [verdict for verdict, _ in verdict_decisions], now)
    reached = (replace(record, rate=FALSE_DISCOVERY_RATE) for _, record in verdict_decisions)
    add_decisions(tx, dict(zip(ids, reached, strict=True)))
