"""What is stored, judged again by another policy: nothing is measured, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.judge_samples import PAIRS
from perfci.history.replay_histories import ReplayedHistory, replayed_histories
from perfci.history.stored_samples import Samples
from perfci.model import Series, Verdict, VerdictKind
from perfci.stats.location_shift import Prior
from perfci.store import Store
from perfci.store.queries.decisions import DecisionRecord, Equal, decisions, equals_until
from perfci.store.queries.measurements import session_processes, sessions, verdict_records
from perfci.store.queries.records import SessionRecord, VerdictRecord
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control
from perfci.verdicts.compare.round_candidates import pair_spreads
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVES

BY_NUMBERS = (*MOVES, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""The verdicts a policy has a say in; a crash or a missing side is none of them."""


@dataclass(frozen=True, slots=True)
class ReplayedVerdict:
    """A current verdict as it is stored, and as it would be now; absent where the series is not judged any more."""

    stored: Verdict
    now: Verdict | None

    @property
    def differs(self) -> bool:
        return self.now is None or self.now.kind is not self.stored.kind


@dataclass(frozen=True, slots=True)
class Replay:
    verdicts: Sequence[ReplayedVerdict]
    histories: Sequence[ReplayedHistory]


def replay(store: Store, project: str, policy: Policy) -> Replay:
    """Judge every stored comparison and every history of a project again."""
    with store.read() as tx:
        return Replay(list(_replayed_verdicts(tx, project, policy)), list(replayed_histories(tx, project, policy)))


def _replayed_verdicts(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedVerdict]:
    """Session by session, the oldest first: only one has its samples in memory."""
    records = [record for record in verdict_records(tx, project) if record.verdict.kind in BY_NUMBERS]
    reached = decisions(tx, project)
    for session in reversed(sessions(tx, project)):
        mine = [record for record in reversed(records) if record.session_uid == session.uid]
        if mine:
            looks = {record.id: reached.get(record.id) or _before_looks_were_stored(record) for record in mine}
            known = equals_until(tx, project, looks[mine[0].id].known_until)
            yield from _of_session(session, mine, looks, Samples.of(session_processes(tx, session.uid)), policy, known)


def _before_looks_were_stored(record: VerdictRecord) -> DecisionRecord:
    """What can be said of an old verdict: that equals told before it were known."""
    return DecisionRecord(PAIRS, {}, record.id - 1, ())


def _of_session(
    session: SessionRecord, mine: Sequence[VerdictRecord], reached: Mapping[int, DecisionRecord], samples: Samples,
    policy: Policy, equals: Mapping[Series, Sequence[Equal]],
) -> list[ReplayedVerdict]:  # fmt: skip
    judged = [record for record in mine if policy.judges(record.verdict.series)]
    if session.kind == "history":
        again = _screened([record.verdict for record in judged], samples, policy)
    else:
        again = [_decided(record.verdict, reached[record.id], samples, policy, equals) for record in judged]
    if session.kind == "confirm" or any(reached[record.id].rate for record in judged):
        again = control(again, FALSE_DISCOVERY_RATE)
    now = {record.id: verdict for record, verdict in zip(judged, again, strict=True)}
    return [ReplayedVerdict(record.verdict, now.get(record.id)) for record in mine]


def _screened(stored: Sequence[Verdict], samples: Samples, policy: Policy) -> list[Verdict]:
    """As a session in rounds screens its neighbours; what has no samples here stays as it is."""
    spreads = pair_spreads(samples.in_rounds(), [(verdict.base, verdict.head) for verdict in stored])
    return [_screened_one(verdict, samples, policy, spreads.get(verdict.series)) for verdict in stored]


def _screened_one(verdict: Verdict, samples: Samples, policy: Policy, spread: Prior | None) -> Verdict:
    if not all(samples.sides_of_rounds(verdict)):
        return verdict
    return samples.by_rounds(verdict, policy.rule_for(verdict.series), spread.sd if spread else None) or verdict


def _decided(
    verdict: Verdict, reached: DecisionRecord, samples: Samples, policy: Policy,
    equals: Mapping[Series, Sequence[Equal]],
) -> Verdict:  # fmt: skip
    """As a look at all pairs that were bought, with what was known of their noise."""
    aa = [one.log_ratio for one in equals.get(verdict.series, ())]
    last = reached.looks[-1] if reached.looks else None
    seen = samples.by_pairs(verdict, policy.rule_for(verdict.series), last, aa)
    return seen.verdict if seen else verdict
