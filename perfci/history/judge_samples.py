"""Select the samples a verdict rests on and record how it was reached, live and in replays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy
import scipy

import perfci
from perfci.model import Measured, MetricClass, PerfciError, Process, Role, Series, Verdict
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.store import Store
from perfci.store.queries.verdict_derivations import (
    AAResult,
    DecisionRecord,
    LookRecord,
    load_aa_results,
    load_latest_verdict_id,
)
from perfci.verdicts.compare.noise_prior import PairNoise, pooled_noise_prior
from perfci.verdicts.compare.pairwise import Look
from perfci.verdicts.judged_series import group_judged_by_commit
from perfci.verdicts.rule import Rule

ProcessesByCommit = Mapping[str, Sequence[Measured]]
"""The processes of the compared cells, by commit."""

PairCommits = Mapping[int, Mapping[Role, str]]
"""The base and the head of each pair of a session, by the number of the pair."""

PairedProcesses = tuple[list[Process], list[Process]]
"""The processes of the base and of the head."""

DecisionKey = tuple[Series, str, str]
"""What a decision is about: a series, the base and the head."""

METHOD_PAIRS, METHOD_ROUNDS = "pairs", "rounds"
"""How the samples of a verdict were measured: in interleaved pairs, or in rounds over a range."""

SOFTWARE_VERSIONS = f"perfci {perfci.__version__}, numpy {numpy.__version__}, scipy {scipy.__version__}"
"""Stored with every decision: other versions may compute other figures from the same samples."""


@dataclass
class NoisePriors:
    """The noise known while pairs are measured: from A/A runs, and from the pairs of all compared series.

    ``aa_verdicts_until`` is the id of the newest verdict when ``aa_results`` were loaded. A replay loads
    the A/A runs up to the same id.
    """

    aa_verdicts_until: int = 0
    aa_results: Mapping[Series, Sequence[AAResult]] = field(default_factory=dict)
    spreads: dict[Hashable, PairNoise] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, project: str) -> NoisePriors:
        """Read the A/A runs of a project."""
        with store.read() as tx:
            newest = load_latest_verdict_id(tx)
            return cls(newest, load_aa_results(tx, project, newest))

    def get_aa_log_ratios(self, series: Series) -> list[float]:
        """The log ratio of every A/A run of a series."""
        return [result.log_ratio for result in self.aa_results.get(series, ())]

    def add_spread(
        self, key: Hashable, metric_class: MetricClass, series: Series, unpooled_shift: Shift | None
    ) -> None:
        """Add the spread of one question's own pairs to the pool."""
        if unpooled_shift is None:
            return
        spread = PairNoise.from_shift(metric_class, unpooled_shift, self.aa_results.get(series, ()))
        if spread is not None:
            self.spreads[key] = spread

    def get_prior(self, key: Hashable) -> NoisePrior | None:
        """The prior pooled over all spreads, for the question of ``key``."""
        return pooled_noise_prior(self.spreads, key)


def find_complete_pairs(
    readings: ProcessesByCommit, base: str, head: str, pair_commits: PairCommits
) -> list[int]:
    """The numbers of the pairs measured at both of these commits, in the order they were measured.

    A session interrupted between base and head leaves half a pair, which would pass for a head that failed.
    """
    sides = {Role.BASE: base, Role.HEAD: head}
    roles: dict[int | None, set[Role]] = {}
    for rows in readings.values():
        for _, process in rows:
            roles.setdefault(process.pair, set()).add(process.role)
    return sorted(
        number
        for number, measured_roles in roles.items()
        if number is not None and measured_roles == set(sides) and pair_commits.get(number) == sides
    )


def select_judged_sides(
    readings: ProcessesByCommit, base: str, head: str, pairs: Sequence[int]
) -> dict[Series, PairedProcesses]:
    """The judged series with the processes of these pairs on both sides."""
    numbers = set(pairs)
    selected = {
        sha: [(series, process) for series, process in rows if process.pair in numbers]
        for sha, rows in readings.items()
    }
    return {
        series: (_select_role(by_sha.get(base, ()), Role.BASE), _select_role(by_sha.get(head, ()), Role.HEAD))
        for series, by_sha in group_judged_by_commit(selected).items()
    }


def build_decision_key(verdict: Verdict) -> DecisionKey:
    """The key of the decision that a verdict rests on."""
    return verdict.series, verdict.base, verdict.head


def build_look_record(look: Look, pairs_spent: int, prior: NoisePrior | None) -> LookRecord:
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


def parse_rule(record: DecisionRecord) -> Rule:
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


def parse_prior(record: LookRecord) -> NoisePrior | None:
    """The prior of a look; None where it had none."""
    if record.prior_sd is None or record.prior_df is None:
        return None
    return NoisePrior(record.prior_sd, record.prior_df)


def _select_role(processes: Sequence[Process], role: Role) -> list[Process]:
    return [process for process in processes if process.role is role]
