"""Verify that every stored verdict follows, bit for bit, from the stored samples by its own rule."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.judge_pull_request_uploads import replay_separate_runs
from perfci.history.decision_records import (
    METHOD_ROUNDS,
    METHOD_SEPARATE_RUNS,
    SOFTWARE_VERSIONS,
    parse_recorded_rule,
)
from perfci.history.reason_figures import state_same_figures
from perfci.history.session_replay import SessionSamples
from perfci.model import Series, TailVerdict, Verdict
from perfci.store import Store
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.query_records import VerdictRecord
from perfci.store.verdict_decision_records import (
    AAResult,
    DecisionRecord,
    LookRecord,
    load_aa_results_by_series,
    load_verdict_decision_records,
)
from perfci.store.verdicts_and_change_points import (
    load_ids_of_verdicts_stored_before_tails,
    load_verdict_records,
)
from perfci.verdicts.compare.false_discovery import control_false_discoveries
from perfci.verdicts.compare.pairwise_verdict import Look

TAIL_SENTENCE = re.compile(r" The tail [a-z ,]+: p[19]0 \S+(?: %)?, interval \S+(?: %)? to \S+?(?: ?%)\.")
"""What a reason says of the tail, after another sentence."""


@dataclass(frozen=True, slots=True)
class VerdictDifference:
    """One way in which a verdict differs when recomputed."""

    record: VerdictRecord
    description: str
    made_by: str

    @property
    def is_by_other_version(self) -> bool:
        """Whether other software versions reached the verdict, which may compute other figures."""
        return self.made_by != SOFTWARE_VERSIONS


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """How many verdicts were recomputed, how many could not be, and every difference."""

    verified_count: int
    unverifiable_count: int
    differences: Sequence[VerdictDifference]


AAResultsBySeries = Mapping[Series, Sequence[AAResult]]
"""The A/A runs of each series."""

RecordedDecision = tuple[VerdictRecord, DecisionRecord]
"""A stored verdict and how it was reached."""

SeparateRunsReplay = Callable[[Verdict, DecisionRecord], Verdict | None]
"""Judges the runs that a verdict compared once more; None where their results are gone."""


def verify_stored_verdicts(store: Store, project: str) -> VerificationResult:
    """Recompute every verdict, superseded ones too, except those from before looks were stored."""
    with store.read() as tx:
        decisions = load_verdict_decision_records(tx, project)
        records = load_verdict_records(tx, project, current_only=False, with_pull_requests=True)
        recorded = [(record, decisions[record.id]) for record in reversed(records) if record.id in decisions]
        before_tails = load_ids_of_verdicts_stored_before_tails(tx, project)
        differences = list(_find_differences(tx, project, recorded, before_tails))
    return VerificationResult(len(recorded), len(records) - len(recorded), differences)


def _find_differences(
    tx: Transaction, project: str, recorded: Sequence[RecordedDecision], before_tails: Container[int]
) -> Iterator[VerdictDifference]:
    """Recompute session by session, with the samples of one in memory.

    What verdicts of the ids ``before_tails`` say of the tail is not compared: they say nothing.
    """
    aa_results: dict[int, AAResultsBySeries] = {}

    def replay_runs(verdict: Verdict, decision: DecisionRecord) -> Verdict | None:
        return replay_separate_runs(tx, verdict, decision, parse_recorded_rule(decision))

    for uid in dict.fromkeys(record.session_uid for record, _ in recorded):
        own = [(record, decision) for record, decision in recorded if record.session_uid == uid]
        for verdict_id in {decision.aa_verdicts_until for _, decision in own} - aa_results.keys():
            aa_results[verdict_id] = load_aa_results_by_series(tx, project, verdict_id)
        samples = SessionSamples.from_rows(load_session_processes(tx, uid))
        yield from find_session_differences(own, samples, aa_results, before_tails, replay_runs)


def find_session_differences(
    recorded: Sequence[RecordedDecision],
    samples: SessionSamples,
    aa_results: Mapping[int, AAResultsBySeries],
    before_tails: Container[int],
    replay_runs: SeparateRunsReplay,
) -> Iterator[VerdictDifference]:
    """Recompute the verdicts of one session; ``aa_results`` are by the verdict up to which they were known.

    All verdicts among which false discoveries were controlled together have to be given.
    """
    verdicts: list[Verdict | None] = []
    for record, decision in recorded:
        if decision.method == METHOD_SEPARATE_RUNS:
            verdicts.append(replay_runs(record.verdict, decision))
            continue
        looks = _replay_looks(record.verdict, decision, samples, aa_results[decision.aa_verdicts_until])
        for stored, replayed in zip(decision.looks, looks, strict=True):
            for text in _compare_looks(stored, replayed):
                yield VerdictDifference(record, text, decision.made_by)
        last, verdict = looks[-1], None
        if last is not None:
            evidence = samples.list_evidence_process_ids(record.verdict, decision)
            verdict = replace(last.verdict, evidence=evidence)
        verdicts.append(verdict)
    controlled = _apply_discovery_control(recorded, verdicts)
    for (record, decision), verdict in zip(recorded, controlled, strict=True):
        sides = record.verdict, verdict
        if record.id in before_tails:
            sides = _without_tail(record.verdict), verdict and _without_tail(verdict)
        for text in _compare_verdicts(*sides):
            yield VerdictDifference(record, text, decision.made_by)


def _replay_looks(
    verdict: Verdict, decision: DecisionRecord, samples: SessionSamples, aa_results: AAResultsBySeries
) -> list[Look | None]:
    rule = parse_recorded_rule(decision)
    if decision.method == METHOD_ROUNDS:
        screening = samples.replay_screening(verdict, rule, decision.looks[-1].prior_sd)
        return [Look(screening, tail=decision.looks[-1].tail) if screening else None]
    aa_runs = aa_results.get(verdict.series, ())
    return [samples.replay_interim_analysis(verdict, rule, record, aa_runs) for record in decision.looks]


def _apply_discovery_control(
    recorded: Sequence[RecordedDecision], replayed: Sequence[Verdict | None]
) -> list[Verdict | None]:
    """Control the false discoveries among the verdicts that were controlled together: those of one rate, of
    separate runs those that were given at one moment.
    """
    result = list(replayed)
    groups: dict[tuple[float, object], dict[int, Verdict]] = defaultdict(dict)
    for index, (record, decision) in enumerate(recorded):
        verdict = replayed[index]
        given_at = record.created_at if decision.method == METHOD_SEPARATE_RUNS else None
        if decision.rate is not None and verdict is not None:
            groups[decision.rate, given_at][index] = verdict
    for (rate, _), group in groups.items():
        for index, verdict in zip(group, control_false_discoveries(list(group.values()), rate), strict=True):
            result[index] = verdict
    return result


def _compare_looks(stored: LookRecord, replayed: Look | None) -> Iterator[str]:
    place = f"the look at {stored.spent or stored.pairs} pairs"
    if replayed is None:
        yield f"{place} finds no samples"
        return
    compared: list[tuple[str, object, object]] = [
        ("pairs", stored.pairs, replayed.verdict.pairs),
        ("kind", stored.kind, replayed.verdict.kind.value),
        ("tail", stored.tail, replayed.tail),
        ("more", stored.more, replayed.pairs_to_buy),
    ]
    for name, before, after in compared:
        if before != after:
            yield f"{place} had {name} {before!r}, now {after!r}"


def remove_tail_sentence(reason: str) -> str:
    """The reason as it was written before verdicts on the tail."""
    return TAIL_SENTENCE.sub("", reason)


def _without_tail(verdict: Verdict) -> Verdict:
    return replace(verdict, tail=None, reason=remove_tail_sentence(verdict.reason))


def _compare_verdicts(stored: Verdict, replayed: Verdict | None) -> Iterator[str]:
    if replayed is None:
        yield "its samples are gone"
        return
    for field in fields(Verdict):
        before, after = getattr(stored, field.name), getattr(replayed, field.name)
        if before != after and not _differs_by_version_only(field.name, before, after):
            yield f"{field.name} was {_format_value(before)}, now {_format_value(after)}"


def _differs_by_version_only(field: str, stored: object, recomputed: object) -> bool:
    """Whether two unequal values of a field mean the same to the versions of perfci that wrote them."""
    if field == "reason":
        return state_same_figures(str(stored), str(recomputed))
    # older versions gave a half width where there was no noise floor
    return field == "noise_floor" and recomputed is None


def _format_value(value: object) -> str:
    if isinstance(value, TailVerdict):
        return f"{value.kind} {value.ratio!r} {_format_value(value.interval)}"
    if isinstance(value, tuple):
        return f"{len(value)} processes"
    if hasattr(value, "lo") and hasattr(value, "hi"):
        return f"[{value.lo!r}, {value.hi!r}]"
    return f"{value}" if isinstance(value, str) else repr(value)
