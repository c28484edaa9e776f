"""From the samples of a session to what the judge is asked, in the one way that live sessions and replays share."""

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
from perfci.store.queries.decisions import (
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
"""What a question's cells gave, by commit."""

PairCommits = Mapping[int, Mapping[Role, str]]
"""Which commit was the base and which the head of each pair of a session."""

PairedProcesses = tuple[list[Process], list[Process]]

DecisionKey = tuple[Series, str, str]
"""What a decision is about: a series, the base and the head."""

METHOD_PAIRS, METHOD_ROUNDS = "pairs", "rounds"

SOFTWARE_VERSIONS = f"perfci {perfci.__version__}, numpy {numpy.__version__}, scipy {scipy.__version__}"


@dataclass
class NoisePriors:
    """What is known of it while pairs are bought: by comparisons of equals, and by the pairs of all that are measured.

    ``known_until`` is the verdict up to which equals were known.
    """

    aa_verdicts_until: int = 0
    aa_results: Mapping[Series, Sequence[AAResult]] = field(default_factory=dict)
    spreads: dict[Hashable, PairNoise] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, project: str) -> NoisePriors:
        with store.read() as tx:
            newest = load_latest_verdict_id(tx)
            return cls(newest, load_aa_results(tx, project, newest))

    def get_aa_log_ratios(self, series: Series) -> list[float]:
        return [one.log_ratio for one in self.aa_results.get(series, ())]

    def add_spread(
        self, key: Hashable, metric_class: MetricClass, series: Series, unpooled_shift: Shift | None
    ) -> None:
        """Remember what the pairs of one question say by themselves, for it and the others to borrow."""
        spread = (
            PairNoise.from_shift(metric_class, unpooled_shift, self.aa_results.get(series, ()))
            if unpooled_shift
            else None
        )
        if spread is not None:
            self.spreads[key] = spread

    def get_prior(self, key: Hashable) -> NoisePrior | None:
        return pooled_noise_prior(self.spreads, key)


def find_complete_pairs(
    readings: ProcessesByCommit, base: str, head: str, pair_commits: PairCommits
) -> list[int]:
    """The pairs that compared these two commits, in the order they were measured; half of one is none.

    Where a session was interrupted between base and head, the base alone would pass for a head that was never there.
    """
    sides = {Role.BASE: base, Role.HEAD: head}
    roles: dict[int | None, set[Role]] = {}
    for rows in readings.values():
        for _, process in rows:
            roles.setdefault(process.pair, set()).add(process.role)
    return sorted(
        number
        for number, seen in roles.items()
        if number is not None and seen == set(sides) and pair_commits.get(number) == sides
    )


def select_judged_sides(
    readings: ProcessesByCommit, base: str, head: str, pairs: Sequence[int]
) -> dict[Series, PairedProcesses]:
    """The judged series with the processes that these pairs gave on both sides."""
    chosen = set(pairs)
    mine = {sha: [one for one in rows if one[1].pair in chosen] for sha, rows in readings.items()}
    return {
        series: (_select_role(by_sha.get(base, ()), Role.BASE), _select_role(by_sha.get(head, ()), Role.HEAD))
        for series, by_sha in group_judged_by_commit(mine).items()
    }


def build_decision_key(verdict: Verdict) -> DecisionKey:
    """The key of the decision that a verdict rests on."""
    return verdict.series, verdict.base, verdict.head


def build_look_record(look: Look, pairs_spent: int, prior: NoisePrior | None) -> LookRecord:
    """What has to be known to look again and see the same."""
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
    return DecisionRecord(method, asdict(rule), aa_verdicts_until, tuple(looks), made_by=SOFTWARE_VERSIONS)


def parse_rule(record: DecisionRecord) -> Rule:
    """The rule as it was; one that a newer perfci wrote may have fields that this one does not know."""
    known = {one.name for one in fields(Rule)}
    if unknown := sorted(set(record.rule) - known):
        raise PerfciError(
            f"a verdict was decided by a rule with {', '.join(unknown)}, unknown here: update perfci"
        )
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.rule.items()
    }
    return Rule(**given)


def parse_prior(record: LookRecord) -> NoisePrior | None:
    return (
        None
        if record.prior_sd is None or record.prior_df is None
        else NoisePrior(record.prior_sd, record.prior_df)
    )


def _select_role(processes: Sequence[Process], role: Role) -> list[Process]:
    return [process for process in processes if process.role is role]
