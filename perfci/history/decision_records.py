"""Decision records: how a verdict was reached, written to be stored and parsed for replays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy
import scipy

import perfci
from perfci.model import PerfciError, Series, Verdict
from perfci.stats.location_shift import NoisePrior
from perfci.store.verdict_decision_records import DecisionRecord, LookRecord
from perfci.verdicts.compare.pairwise_verdict import Look
from perfci.verdicts.comparison_rule import Rule

DecisionKey = tuple[Series, str, str]
"""What a decision is about: a series, the base and the head."""


METHOD_PAIRS, METHOD_ROUNDS, METHOD_SEPARATE_RUNS = "pairs", "rounds", "separate_runs"
"""How the samples of a verdict were measured: in interleaved pairs, in rounds over a range, or in runs of
their own, at different times."""


SOFTWARE_VERSIONS = f"perfci {perfci.__version__}, numpy {numpy.__version__}, scipy {scipy.__version__}"
"""Stored with every decision: other versions may compute other figures from the same samples."""


def build_decision_key(verdict: Verdict) -> DecisionKey:
    """The key of the decision that a verdict rests on."""
    return verdict.series, verdict.base, verdict.head


def build_interim_analysis_record(look: Look, pairs_spent: int, prior: NoisePrior | None) -> LookRecord:
    """Record a look with everything that repeating it needs."""
    return LookRecord(
        spent=pairs_spent,
        pairs=look.verdict.pairs,
        kind=look.verdict.kind.value,
        tail=look.tail,
        more=look.pairs_to_buy,
        prior_sd=prior.sd if prior else None,
        prior_df=prior.df if prior else None,
    )


def build_decision_record(
    method: str, rule: Rule, looks: Sequence[LookRecord], *, aa_verdicts_until: int = 0
) -> DecisionRecord:
    """Record how a verdict was reached: by which rule, looks, A/A runs and software versions."""
    return DecisionRecord(method, asdict(rule), aa_verdicts_until, tuple(looks), made_by=SOFTWARE_VERSIONS)


def parse_recorded_rule(record: DecisionRecord) -> Rule:
    """The rule of a decision; raise where a newer perfci wrote fields that this one does not know."""
    names = {field.name for field in fields(Rule)}
    if unknown := sorted(set(record.rule) - names):
        raise PerfciError(
            f"a verdict was decided by a rule with {', '.join(unknown)}, unknown here: update perfci"
        )
    # JSON has no tuples: a list stands for one.
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.rule.items()
    }
    return Rule(**values)


def parse_recorded_prior(record: LookRecord) -> NoisePrior | None:
    """The prior of a look; None where it had none."""
    if record.prior_sd is None or record.prior_df is None:
        return None
    return NoisePrior(record.prior_sd, record.prior_df)
