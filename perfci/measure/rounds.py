"""A range in rounds: every commit visited once per round, then every neighbour screened."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from perfci.history.judge_samples import ROUNDS, decision, look_record
from perfci.measure.measurement_session import Session
from perfci.measure.open_session import Subject
from perfci.measure.progress import Watcher
from perfci.model import Verdict
from perfci.runner import visit_plan
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location_shift import Prior
from perfci.verdicts.compare.noise_prior import PRIOR_DF
from perfci.verdicts.compare.pairwise import Look, screen
from perfci.verdicts.compare.round_candidates import nominate, pair_spreads
from perfci.verdicts.judged_series import gated_by_commit
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVES

RENEW_AFTER_S = 30.0  # a fresh environment parent costs about 3 s: at most a tenth of the time goes into starting them

Line = Sequence[tuple[str, str]]


def measure_rounds(session: Session, subject: Subject, rounds: int, watcher: Watcher) -> None:
    """Visit every commit once per round; what an interrupted session has already is not measured again."""
    there = {
        (sha, series.cell, process.round)
        for sha, rows in session.measured.items()
        for series, process in rows
    }  # fmt: skip
    renewed, last = time.monotonic(), -1
    for visit in visit_plan.rounds(list(subject.commits), subject.cells, rounds, session.seed):
        cells = [cell for cell in visit.cells if (visit.sha, cell.name, visit.round) not in there]
        if visit.round is not None and visit.round != last:
            last = visit.round
            watcher.step(f"round {last + 1} of {rounds}")
            if time.monotonic() - renewed > RENEW_AFTER_S:
                session.workbench.renew()
                renewed = time.monotonic()
        if cells:
            session.visit(visit, cells)


def neighbours(subject: Subject) -> Line:
    """Pair every commit of the range with the one measured before it on the first-parent line."""
    return list(itertools.pairwise(subject.commits))


def screened(session: Session, line: Line, policy: Policy) -> tuple[list[Verdict], list[Verdict]]:
    """Every neighbour screened on its own, and the verdicts that are worth fresh pairs."""
    gated = gated_by_commit(session.measured)
    measured = {series: by_sha for series, by_sha in gated.items() if policy.judges(series)}
    rules = {series: policy.rule_for(series) for series in measured}
    spread = {series: prior.sd for series, prior in pair_spreads(measured, line).items()}
    verdicts = [
        screen(
            series, base, head, by_sha.get(base, []), by_sha.get(head, []),
            rule=rules[series], prior_sd=spread.get(series),
        )
        for series, by_sha in measured.items()
        for base, head in line
        if base in by_sha or head in by_sha
    ]  # fmt: skip
    for one in verdicts:
        known = Prior(spread[one.series], PRIOR_DF) if spread.get(one.series) else None
        taken = look_record(Look(one, tail=ALPHA), one.pairs, known)
        session.decisions[one.series, one.base, one.head] = decision(ROUNDS, rules[one.series], [taken])
    nominated = [nomination.verdict for nomination in nominate(measured, line, rules=rules.__getitem__)]
    places = {(v.series, v.base, v.head) for v in nominated}
    flagged = [v for v in verdicts if v.kind in MOVES and (v.series, v.base, v.head) not in places]
    return verdicts, nominated + flagged
