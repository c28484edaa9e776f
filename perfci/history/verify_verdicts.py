"""Every stored verdict reached again from the stored samples, by the rule it was reached by: bit for bit the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.judge_samples import METHOD_ROUNDS, SOFTWARE_VERSIONS, parse_rule
from perfci.history.stored_samples import SessionSamples
from perfci.model import Series, Verdict
from perfci.store import Store
from perfci.store.queries.decisions import (
    AAResult,
    DecisionRecord,
    LookRecord,
    load_aa_results,
    load_decisions,
)
from perfci.store.queries.measurements import load_session_processes, load_verdict_records
from perfci.store.queries.records import VerdictRecord
from perfci.verdicts.compare.false_discovery import control_false_discoveries
from perfci.verdicts.compare.pairwise import Look


@dataclass(frozen=True, slots=True)
class VerdictDifference:
    """Something of a verdict that does not come out as it is stored."""

    record: VerdictRecord
    description: str
    made_by: str

    @property
    def is_by_other_version(self) -> bool:
        """Whether other versions reached the verdict, which may well compute something else."""
        return self.made_by != SOFTWARE_VERSIONS


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """How many verdicts were reached again, how many could not be, and what came out differently."""

    verified_count: int
    unverifiable_count: int
    differences: Sequence[VerdictDifference]


AAResultsBySeries = Mapping[Series, Sequence[AAResult]]
RecordedDecision = tuple[VerdictRecord, DecisionRecord]


def verify_verdicts(store: Store, project: str) -> VerificationResult:
    """Reach every verdict again, superseded ones too; of those from before looks were stored nothing is known."""
    with store.read() as tx:
        reached, records = load_decisions(tx, project), load_verdict_records(tx, project, current_only=False)
        known = [(record, reached[record.id]) for record in reversed(records) if record.id in reached]
        differences = list(_find_differences(tx, project, known))
    return VerificationResult(len(known), len(records) - len(known), differences)


def _find_differences(
    tx: Transaction, project: str, recorded: Sequence[RecordedDecision]
) -> Iterator[VerdictDifference]:
    """Session by session: only one has its samples in memory."""
    equals: dict[int, AAResultsBySeries] = {}
    for uid in dict.fromkeys(record.session_uid for record, _ in recorded):
        mine = [one for one in recorded if one[0].session_uid == uid]
        for mark in {reached.aa_verdicts_until for _, reached in mine} - equals.keys():
            equals[mark] = load_aa_results(tx, project, mark)
        samples = SessionSamples.from_rows(load_session_processes(tx, uid))
        yield from _verify_session(mine, samples, equals)


def _verify_session(
    recorded: Sequence[RecordedDecision], samples: SessionSamples, aa_results: Mapping[int, AAResultsBySeries]
) -> Iterator[VerdictDifference]:
    again = []
    for record, reached in recorded:
        looks = _replay_looks(record.verdict, reached, samples, aa_results[reached.aa_verdicts_until])
        told = [
            text
            for taken, seen in zip(reached.looks, looks, strict=True)
            for text in _compare_looks(taken, seen)
        ]
        yield from (VerdictDifference(record, text, reached.made_by) for text in told)
        again.append(_rebuild_verdict(record.verdict, reached, looks[-1], samples))
    for (record, reached), now in zip(recorded, _apply_discovery_control(recorded, again), strict=True):
        yield from (
            VerdictDifference(record, text, reached.made_by)
            for text in _compare_verdicts(record.verdict, now)
        )


def _replay_looks(
    verdict: Verdict, decision: DecisionRecord, samples: SessionSamples, aa_results: AAResultsBySeries
) -> list[Look | None]:
    rule = parse_rule(decision)
    if decision.method == METHOD_ROUNDS:
        seen = samples.replay_rounds(verdict, rule, decision.looks[-1].prior_sd)
        return [Look(seen, tail=decision.looks[-1].tail) if seen else None]
    aa = [one.log_ratio for one in aa_results.get(verdict.series, ())]
    return [samples.replay_pairs(verdict, rule, taken, aa) for taken in decision.looks]


def _rebuild_verdict(
    stored: Verdict, decision: DecisionRecord, look: Look | None, samples: SessionSamples
) -> Verdict | None:
    return replace(look.verdict, evidence=samples.collect_evidence(stored, decision)) if look else None


def _apply_discovery_control(
    recorded: Sequence[RecordedDecision], replayed: Sequence[Verdict | None]
) -> list[Verdict | None]:
    """Hold back what was held back among the verdicts that were told together."""
    result = list(replayed)
    for rate in {reached.rate for _, reached in recorded} - {None}:
        places = [k for k, one in enumerate(replayed) if recorded[k][1].rate == rate and one is not None]
        held = control_false_discoveries(
            [one for k in places if (one := replayed[k]) is not None], rate or 0.0
        )
        for k, one in zip(places, held, strict=True):
            result[k] = one
    return result


def _compare_looks(stored: LookRecord, replayed: Look | None) -> Iterator[str]:
    place = f"the look at {stored.spent or stored.pairs} pairs"
    if replayed is None:
        yield f"{place} finds no samples"
        return
    now = (replayed.verdict.pairs, replayed.verdict.kind.value, replayed.tail, replayed.pairs_to_buy)
    for name, was, is_ in zip(("pairs", "kind", "tail", "more"), _get_look_values(stored), now, strict=True):
        if was != is_:
            yield f"{place} had {name} {was!r}, now {is_!r}"


def _get_look_values(stored: LookRecord) -> tuple[object, ...]:
    return stored.pairs, stored.kind, stored.tail, stored.more


def _compare_verdicts(stored: Verdict, replayed: Verdict | None) -> Iterator[str]:
    if replayed is None:
        yield "its samples are gone"
        return
    for field in fields(Verdict):
        was, is_ = getattr(stored, field.name), getattr(replayed, field.name)
        if was != is_:
            yield f"{field.name} was {_format_value(was)}, now {_format_value(is_)}"


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} processes"
    if hasattr(value, "lo") and hasattr(value, "hi"):
        return f"[{value.lo!r}, {value.hi!r}]"
    return f"{value}" if isinstance(value, str) else repr(value)
