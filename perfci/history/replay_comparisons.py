"""Judge the stored comparisons of a project again by another policy; nothing is measured or written."""

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
from perfci.store.queries.measurements import load_session_processes, load_sessions, load_verdict_records
from perfci.store.queries.records import SessionRecord, VerdictRecord
from perfci.store.queries.verdict_derivations import AAResult, DecisionRecord, load_aa_results, load_decisions
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.round_candidates import compute_pair_noise
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVE_KINDS

NUMERIC_KINDS = (*MOVE_KINDS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""The kinds of verdict that depend on the policy; a crash or a missing side does not."""


@dataclass(frozen=True, slots=True)
class ReplayedVerdict:
    """A stored current verdict and its replay; None where the series is no longer judged."""

    stored: Verdict
    replayed: Verdict | None

    @property
    def is_different(self) -> bool:
        """Whether the kind of the verdict changes."""
        return self.replayed is None or self.replayed.kind is not self.stored.kind


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Every replayed verdict and history of a project."""

    verdicts: Sequence[ReplayedVerdict]
    histories: Sequence[ReplayedHistory]


def replay_project(store: Store, project: str, policy: Policy) -> ReplayResult:
    """Judge every stored comparison and every history of a project again."""
    with store.read() as tx:
        verdicts = list(_replay_verdicts(tx, project, policy))
        return ReplayResult(verdicts, list(replay_histories(tx, project, policy)))


def _replay_verdicts(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedVerdict]:
    """Replay session by session, the oldest first, with the samples of one in memory."""
    records = [record for record in load_verdict_records(tx, project) if record.verdict.kind in NUMERIC_KINDS]
    decisions = load_decisions(tx, project)
    for session in reversed(load_sessions(tx, project)):
        own = [record for record in reversed(records) if record.session_uid == session.uid]
        if not own:
            continue
        own_decisions = {
            record.id: decisions.get(record.id) or _build_legacy_decision(record) for record in own
        }
        aa_results = load_aa_results(tx, project, own_decisions[own[0].id].aa_verdicts_until)
        samples = SessionSamples.from_rows(load_session_processes(tx, session.uid))
        yield from _replay_session(session, own, own_decisions, samples, policy, aa_results)


def _build_legacy_decision(record: VerdictRecord) -> DecisionRecord:
    """The decision of a verdict from before decisions were stored: it used the A/A runs before it."""
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
        replayed = _replay_rounds([record.verdict for record in judged], samples, policy)
    else:
        replayed = [
            _replay_pairs(record.verdict, decisions_by_id[record.id], samples, policy, aa_results)
            for record in judged
        ]
    if session.kind == "confirm" or any(decisions_by_id[record.id].rate for record in judged):
        replayed = control_false_discoveries(replayed, FALSE_DISCOVERY_RATE)
    verdicts_by_id = {record.id: verdict for record, verdict in zip(judged, replayed, strict=True)}
    return [ReplayedVerdict(record.verdict, verdicts_by_id.get(record.id)) for record in records]


def _replay_rounds(stored: Sequence[Verdict], samples: SessionSamples, policy: Policy) -> list[Verdict]:
    """Screen the neighbours as a session in rounds does; a verdict without samples stays as it is."""
    priors = compute_pair_noise(
        samples.group_by_series(), [(verdict.base, verdict.head) for verdict in stored]
    )
    return [_replay_round(verdict, samples, policy, priors.get(verdict.series)) for verdict in stored]


def _replay_round(
    verdict: Verdict, samples: SessionSamples, policy: Policy, prior: NoisePrior | None
) -> Verdict:
    if not all(samples.get_round_sides(verdict)):
        return verdict
    rule = policy.rule_for(verdict.series)
    return samples.replay_rounds(verdict, rule, prior.sd if prior else None) or verdict


def _replay_pairs(
    verdict: Verdict,
    decision: DecisionRecord,
    samples: SessionSamples,
    policy: Policy,
    aa_results: Mapping[Series, Sequence[AAResult]],
) -> Verdict:
    """Repeat the last look, at all pairs, with the noise known then."""
    aa_log_ratios = [result.log_ratio for result in aa_results.get(verdict.series, ())]
    last = decision.looks[-1] if decision.looks else None
    look = samples.replay_pairs(verdict, policy.rule_for(verdict.series), last, aa_log_ratios)
    return look.verdict if look else verdict
