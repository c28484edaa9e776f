"""Pairs that were measured elsewhere and uploaded: judged from the stored samples, as a replay would judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history.judge_samples import PAIRS, Sides, decision, judged_sides, look_record, pairs_of
from perfci.history.stored_samples import Samples
from perfci.model import Role, Series, Stage, Verdict
from perfci.store.queries.decisions import DecisionRecord, Equal, add_decisions, equals_until, newest_verdict
from perfci.store.queries.measurements import session_processes, verdict_records
from perfci.store.queries.run_lookup import began_later
from perfci.store.writes.ingest import add_verdicts
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control
from perfci.verdicts.compare.pairwise import look
from perfci.verdicts.policy import Policy

Decided = tuple[Verdict, DecisionRecord]


@dataclass(frozen=True, slots=True)
class UploadedPairs:
    """What has to be read of one session before its pairs are judged.

    ``settled`` are the questions that a session which began later has answered: fresh pairs speak after those that
    raised the suspicion, in whichever order they arrive.
    """

    project: str
    uid: str
    samples: Samples
    equals: Mapping[Series, Sequence[Equal]]
    known_until: int
    standing: frozenset[Verdict]
    settled: frozenset[tuple[Series, str, str]]

    @classmethod
    def of(cls, tx: Transaction, project: str, uid: str) -> UploadedPairs:
        """What was known of noise when the session was first judged is what counts whenever that is done again."""
        samples = Samples.of(session_processes(tx, uid))
        told = [
            record
            for base, head in _questions(samples)
            for record in verdict_records(tx, project, base=base, head=head, current_only=False)
        ]
        records = [record for record in told if record.session_uid == uid]
        until = min((record.id - 1 for record in records), default=newest_verdict(tx))
        current = [record for record in told if record.superseded_by is None]
        standing = frozenset(record.verdict for record in current if record.session_uid == uid)
        later = began_later(tx, uid, {record.session_uid for record in current})
        settled = frozenset(_question(record.verdict) for record in current if record.session_uid in later)
        return cls(project, uid, samples, equals_until(tx, project, until), until, standing, settled)

    def judged(self, policy: Policy) -> list[Decided]:
        """One verdict for each judged series of each comparison, where none that stands already says as much or more.

        They were looked at once, so they are held to what convicts, and to the false discovery rate of all together.
        """
        decided = [one for base, head in _questions(self.samples) for one in self._of_commits(base, head, policy)]
        verdicts = control([verdict for verdict, _ in decided], FALSE_DISCOVERY_RATE)
        told = [
            (replace(verdict, evidence=self.samples.evidence(verdict, reached)), reached)
            for verdict, (_, reached) in zip(verdicts, decided, strict=True)
        ]
        return [
            (verdict, reached)
            for verdict, reached in told
            if verdict not in self.standing and _question(verdict) not in self.settled
        ]

    def _of_commits(self, base: str, head: str, policy: Policy) -> list[Decided]:
        readings = {sha: list(self.samples.measured.get(sha, ())) for sha in (base, head)}
        pairs = pairs_of(readings, base, head, self.samples.compared)
        found = judged_sides(readings, base, head, pairs)
        return [
            self._of_series(series, base, head, pairs, sides, policy)
            for series, sides in found.items()
            if policy.judges(series)
        ]

    def _of_series(
        self,
        series: Series,
        base: str,
        head: str,
        pairs: Sequence[int],
        sides: Sides,
        policy: Policy,
    ) -> Decided:
        rule, aa = policy.rule_for(series), [one.log_ratio for one in self.equals.get(series, ())]
        seen = look(series, base, head, *sides, rule=rule, aa=aa, stage=Stage.CONVICTION)
        looked = look_record(seen, len(pairs), None)
        return seen.verdict, decision(PAIRS, rule, [looked], known_until=self.known_until)


def _questions(samples: Samples) -> list[tuple[str, str]]:
    """Which commits its pairs compared; half a pair compares nothing."""
    whole = (sides for sides in samples.compared.values() if {Role.BASE, Role.HEAD} <= sides.keys())
    return list(dict.fromkeys((sides[Role.BASE], sides[Role.HEAD]) for sides in whole))


def _question(verdict: Verdict) -> tuple[Series, str, str]:
    return verdict.series, verdict.base, verdict.head


def write(tx: Transaction, project: str, uid: str, decided: Sequence[Decided], now: datetime) -> None:
    """Store verdicts and how they were reached; those they replace are marked, never edited."""
    ids = add_verdicts(tx, project, uid, [verdict for verdict, _ in decided], now)
    reached = (replace(record, rate=FALSE_DISCOVERY_RATE) for _, record in decided)
    add_decisions(tx, dict(zip(ids, reached, strict=True)))
