"""What is stored, judged again by another policy: nothing is measured, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.judge_samples import METHOD_PAIRS
from perfci.history.replay_histories import ReplayedHistory, replay_histories
from perfci.history.stored_samples import SessionSamples
from perfci.model import Series, Verdict, VerdictKind
from perfci.stats.location_shift import NoisePrior
from perfci.store import Store
from perfci.store.queries.decisions import AAResult, DecisionRecord, load_aa_results, load_decisions
from perfci.store.queries.measurements import load_session_processes, load_sessions, load_verdict_records
from perfci.store.queries.records import SessionRecord, VerdictRecord
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.round_candidates import compute_pair_noise
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVE_KINDS

NUMERIC_KINDS = (*MOVE_KINDS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""The verdicts a policy has a say in; a crash or a missing side is none of them."""


@dataclass(frozen=True, slots=True)
class ReplayedVerdict:
    """A current verdict as it is stored, and as it would be now; absent where the series is not judged any more."""

    stored: Verdict
    replayed: Verdict | None

    @property
    def is_different(self) -> bool:
        return self.replayed is None or self.replayed.kind is not self.stored.kind


@dataclass(frozen=True, slots=True)
class ReplayResult:
    verdicts: Sequence[ReplayedVerdict]
    histories: Sequence[ReplayedHistory]


def replay_project(store: Store, project: str, policy: Policy) -> ReplayResult:
    """Judge every stored comparison and every history of a project again."""
    with store.read() as tx:
        return ReplayResult(
            list(_replay_verdicts(tx, project, policy)), list(replay_histories(tx, project, policy))
        )


def _replay_verdicts(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedVerdict]:
    """Session by session, the oldest first: only one has its samples in memory."""
    records = [record for record in load_verdict_records(tx, project) if record.verdict.kind in NUMERIC_KINDS]
    reached = load_decisions(tx, project)
    for session in reversed(load_sessions(tx, project)):
        mine = [record for record in reversed(records) if record.session_uid == session.uid]
        if mine:
            looks = {record.id: reached.get(record.id) or _build_legacy_decision(record) for record in mine}
            known = load_aa_results(tx, project, looks[mine[0].id].aa_verdicts_until)
            yield from _replay_session(
                session,
                mine,
                looks,
                SessionSamples.from_rows(load_session_processes(tx, session.uid)),
                policy,
                known,
            )


def _build_legacy_decision(record: VerdictRecord) -> DecisionRecord:
    """What can be said of an old verdict: that equals told before it were known."""
    return DecisionRecord(METHOD_PAIRS, {}, record.id - 1, ())


def _replay_session(
    session: SessionRecord,
    records: Sequence[VerdictRecord],
    decisions_by_id: Mapping[int, DecisionRecord],
    samples: SessionSamples,
    policy: Policy,
    aa_results: Mapping[Series, Sequence[AAResult]],
) -> list[ReplayedVerdict]:
    judged = [record for record in records if policy.is_judged(record.verdict.series)]
    if session.kind == "history":
        again = _replay_rounds([record.verdict for record in judged], samples, policy)
    else:
        again = [
            _replay_pairs(record.verdict, decisions_by_id[record.id], samples, policy, aa_results)
            for record in judged
        ]
    if session.kind == "confirm" or any(decisions_by_id[record.id].rate for record in judged):
        again = control_false_discoveries(again, FALSE_DISCOVERY_RATE)
    now = {record.id: verdict for record, verdict in zip(judged, again, strict=True)}
    return [ReplayedVerdict(record.verdict, now.get(record.id)) for record in records]


def _replay_rounds(stored: Sequence[Verdict], samples: SessionSamples, policy: Policy) -> list[Verdict]:
    """As a session in rounds screens its neighbours; what has no samples here stays as it is."""
    spreads = compute_pair_noise(
        samples.group_by_series(), [(verdict.base, verdict.head) for verdict in stored]
    )
    return [_replay_round(verdict, samples, policy, spreads.get(verdict.series)) for verdict in stored]


def _replay_round(
    verdict: Verdict, samples: SessionSamples, policy: Policy, spread: NoisePrior | None
) -> Verdict:
    if not all(samples.get_round_sides(verdict)):
        return verdict
    return (
        samples.replay_rounds(verdict, policy.rule_for(verdict.series), spread.sd if spread else None)
        or verdict
    )


def _replay_pairs(
    verdict: Verdict,
    decision: DecisionRecord,
    samples: SessionSamples,
    policy: Policy,
    aa_results: Mapping[Series, Sequence[AAResult]],
) -> Verdict:
    """As a look at all pairs that were bought, with what was known of their noise."""
    aa = [one.log_ratio for one in aa_results.get(verdict.series, ())]
    last = decision.looks[-1] if decision.looks else None
    seen = samples.replay_pairs(verdict, policy.rule_for(verdict.series), last, aa)
    return seen.verdict if seen else verdict
