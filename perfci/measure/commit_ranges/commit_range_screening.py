"""Screen every pair of neighbouring commits of a range that was measured in rounds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.history.decision_records import (
    METHOD_ROUNDS,
    DecisionKey,
    build_decision_key,
    build_decision_record,
    build_interim_analysis_record,
)
from perfci.history.judged_processes import group_judged_processes
from perfci.measure.measure_and_store_session import SessionReadings, SessionScope
from perfci.model import Verdict, VerdictKind
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location_shift import NoisePrior
from perfci.store.verdict_decision_records import DecisionRecord
from perfci.verdicts.compare.confirmation_candidates import compute_pair_noise_by_series, select_candidates
from perfci.verdicts.compare.noise_prior import PRIOR_DF
from perfci.verdicts.compare.pairwise_verdict import Look, screening_verdict
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.related_metrics import leave_out_timed_parts

CANDIDATE_KINDS = (*MOVE_KINDS, VerdictKind.FAILED)
"""Verdicts that fresh pairs have to confirm."""

NeighbourPairs = Sequence[tuple[str, str]]
"""Base and head of each pair of neighbouring commits."""


@dataclass(frozen=True, slots=True)
class ScreeningResult:
    """The verdict on every pair of neighbours, how each was reached, and the candidates to confirm."""

    verdicts: Sequence[Verdict]
    candidates: Sequence[Verdict]
    decisions: dict[DecisionKey, DecisionRecord]


def pair_neighbouring_commits(scope: SessionScope) -> NeighbourPairs:
    """Pair every commit of the range with the one measured before it on the first-parent line."""
    return list(itertools.pairwise(scope.commits))


def screen_neighbouring_commits(
    readings: SessionReadings, pairs: NeighbourPairs, policy: Policy
) -> ScreeningResult:
    """Screen every pair of neighbours on its own, and select the candidates for fresh pairs.

    A phase of a step is no candidate where the step is measured: only the whole buys pairs.
    """
    judged = group_judged_processes(readings.processes_by_sha)
    measured = {series: by_sha for series, by_sha in judged.items() if policy.is_judged(series)}
    rules = {series: policy.rule_for(series) for series in measured}
    noise_sds = {series: prior.sd for series, prior in compute_pair_noise_by_series(measured, pairs).items()}
    verdicts: list[Verdict] = []
    decisions: dict[DecisionKey, DecisionRecord] = {}
    for series, by_sha in measured.items():
        rule, noise_sd = rules[series], noise_sds.get(series)
        for base, head in pairs:
            if base not in by_sha and head not in by_sha:
                continue
            sides = by_sha.get(base, []), by_sha.get(head, [])
            verdict = screening_verdict(series, base, head, *sides, rule=rule, prior_sd=noise_sd)
            decisions[build_decision_key(verdict)] = _build_decision(verdict, rule, noise_sd)
            row_ids = (
                *readings.get_process_row_ids(base, series),
                *readings.get_process_row_ids(head, series),
            )
            verdicts.append(replace(verdict, evidence=row_ids))
    selected = select_candidates(measured, pairs, rules=rules.__getitem__)
    # Selection sees steps of the whole range, a verdict only two neighbours: either makes a candidate.
    keys = {build_decision_key(verdict) for verdict in selected}
    moved = [v for v in verdicts if v.kind in CANDIDATE_KINDS and build_decision_key(v) not in keys]
    candidates = leave_out_timed_parts([*selected, *moved], measured)
    return ScreeningResult(verdicts, candidates, decisions)


def _build_decision(verdict: Verdict, rule: Rule, noise_sd: float | None) -> DecisionRecord:
    prior = NoisePrior(noise_sd, PRIOR_DF) if noise_sd else None
    look_record = build_interim_analysis_record(Look(verdict, tail=ALPHA), verdict.pairs, prior)
    return build_decision_record(METHOD_ROUNDS, rule, [look_record])
