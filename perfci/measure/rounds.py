"""A range in rounds: every commit visited once per round, then every neighbour screened."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from perfci.history.judge_samples import METHOD_ROUNDS, build_decision_record, build_look_record
from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.open_session import SessionScope
from perfci.measure.progress import SessionProgress
from perfci.model import Verdict
from perfci.runner import visit_plan
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location_shift import NoisePrior
from perfci.verdicts.compare.noise_prior import PRIOR_DF
from perfci.verdicts.compare.pairwise import Look, screen
from perfci.verdicts.compare.round_candidates import compute_pair_noise, select_candidates
from perfci.verdicts.judged_series import group_judged_by_commit
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVE_KINDS

RENEW_AFTER_S = (
    30.0  # a fresh environment parent costs about 3 s: at most a tenth of the time goes into starting them
)

NeighbourPairs = Sequence[tuple[str, str]]


def measure_rounds(
    session: MeasurementSession, scope: SessionScope, rounds: int, progress: SessionProgress
) -> None:
    """Visit every commit once per round; what an interrupted session has already is not measured again."""
    there = {
        (sha, series.cell, process.round)
        for sha, rows in session.processes_by_sha.items()
        for series, process in rows
    }
    renewed, last = time.monotonic(), -1
    for visit in visit_plan.plan_rounds(list(scope.commits), scope.cells, rounds, session.seed):
        cells = [cell for cell in visit.cells if (visit.sha, cell.name, visit.round) not in there]
        if visit.round is not None and visit.round != last:
            last = visit.round
            progress.report_step(f"round {last + 1} of {rounds}")
            if time.monotonic() - renewed > RENEW_AFTER_S:
                session.workbench.restart_environments()
                renewed = time.monotonic()
        if cells:
            session.measure_visit(visit, cells)


def pair_neighbours(scope: SessionScope) -> NeighbourPairs:
    """Pair every commit of the range with the one measured before it on the first-parent line."""
    return list(itertools.pairwise(scope.commits))


def screen_neighbours(
    session: MeasurementSession, pairs: NeighbourPairs, policy: Policy
) -> tuple[list[Verdict], list[Verdict]]:
    """Every neighbour screened on its own, and the verdicts that are worth fresh pairs."""
    gated = group_judged_by_commit(session.processes_by_sha)
    measured = {series: by_sha for series, by_sha in gated.items() if policy.is_judged(series)}
    rules = {series: policy.rule_for(series) for series in measured}
    spread = {series: prior.sd for series, prior in compute_pair_noise(measured, pairs).items()}
    verdicts = [
        screen(
            series,
            base,
            head,
            by_sha.get(base, []),
            by_sha.get(head, []),
            rule=rules[series],
            prior_sd=spread.get(series),
        )
        for series, by_sha in measured.items()
        for base, head in pairs
        if base in by_sha or head in by_sha
    ]
    for one in verdicts:
        known = NoisePrior(spread[one.series], PRIOR_DF) if spread.get(one.series) else None
        taken = build_look_record(Look(one, tail=ALPHA), one.pairs, known)
        session.decisions[one.series, one.base, one.head] = build_decision_record(
            METHOD_ROUNDS, rules[one.series], [taken]
        )
    nominated = [
        nomination.verdict for nomination in select_candidates(measured, pairs, rules=rules.__getitem__)
    ]
    places = {(v.series, v.base, v.head) for v in nominated}
    flagged = [v for v in verdicts if v.kind in MOVE_KINDS and (v.series, v.base, v.head) not in places]
    return verdicts, nominated + flagged
