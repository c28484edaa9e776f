"""From the samples of a session to what the judge is asked, in the one way that live sessions and replays share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy
import scipy

import perfci
from perfci.model import Measured, MetricClass, PerfciError, Process, Role, Series
from perfci.stats.location_shift import Prior, Shift
from perfci.store import Store
from perfci.store.queries.decisions import DecisionRecord, Equal, LookRecord, equals_until, newest_verdict
from perfci.verdicts.compare.noise_prior import Spread, lent
from perfci.verdicts.compare.pairwise import Look
from perfci.verdicts.judged_series import gated_by_commit
from perfci.verdicts.rule import Rule

Readings = Mapping[str, Sequence[Measured]]
"""What a question's cells gave, by commit."""

Compared = Mapping[int, Mapping[Role, str]]
"""Which commit was the base and which the head of each pair of a session."""

Sides = tuple[list[Process], list[Process]]

PAIRS, ROUNDS = "pairs", "rounds"

MADE_BY = f"perfci {perfci.__version__}, numpy {numpy.__version__}, scipy {scipy.__version__}"


@dataclass
class Noise:
    """What is known of it while pairs are bought: by comparisons of equals, and by the pairs of all that are measured.

    ``known_until`` is the verdict up to which equals were known.
    """

    known_until: int = 0
    equals: Mapping[Series, Sequence[Equal]] = field(default_factory=dict)
    spreads: dict[Hashable, Spread] = field(default_factory=dict)

    @classmethod
    def known(cls, store: Store, project: str) -> Noise:
        with store.read() as tx:
            newest = newest_verdict(tx)
            return cls(newest, equals_until(tx, project, newest))

    def of_equals(self, series: Series) -> list[float]:
        return [one.log_ratio for one in self.equals.get(series, ())]

    def note(self, key: Hashable, kind: MetricClass, series: Series, bare: Shift | None) -> None:
        """Remember what the pairs of one question say by themselves, for it and the others to borrow."""
        spread = Spread.of(kind, bare, self.equals.get(series, ())) if bare else None
        if spread is not None:
            self.spreads[key] = spread

    def prior(self, key: Hashable) -> Prior | None:
        return lent(self.spreads, key)


def pairs_of(readings: Readings, base: str, head: str, compared: Compared) -> list[int]:
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
        if number is not None and seen == set(sides) and compared.get(number) == sides
    )


def judged_sides(readings: Readings, base: str, head: str, pairs: Sequence[int]) -> dict[Series, Sides]:
    """The judged series with the processes that these pairs gave on both sides."""
    chosen = set(pairs)
    mine = {sha: [one for one in rows if one[1].pair in chosen] for sha, rows in readings.items()}
    return {
        series: (_of_role(by_sha.get(base, ()), Role.BASE), _of_role(by_sha.get(head, ()), Role.HEAD))
        for series, by_sha in gated_by_commit(mine).items()
    }


def look_record(seen: Look, spent: int, prior: Prior | None) -> LookRecord:
    """What has to be known to look again and see the same."""
    return LookRecord(
        spent=spent,
        pairs=seen.verdict.pairs,
        kind=seen.verdict.kind.value,
        tail=seen.tail,
        more=seen.more,
        prior_sd=prior.sd if prior else None,
        prior_df=prior.df if prior else None,
    )


def decision(method: str, rule: Rule, looks: Sequence[LookRecord], *, known_until: int = 0) -> DecisionRecord:
    return DecisionRecord(method, asdict(rule), known_until, tuple(looks), made_by=MADE_BY)


def rule_of(record: DecisionRecord) -> Rule:
    """The rule as it was; one that a newer perfci wrote may have fields that this one does not know."""
    known = {one.name for one in fields(Rule)}
    if unknown := sorted(set(record.rule) - known):
        raise PerfciError(f"a verdict was decided by a rule with {', '.join(unknown)}, unknown here: update perfci")
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.rule.items()
    }
    return Rule(**given)


def prior_of(look: LookRecord) -> Prior | None:
    return None if look.prior_sd is None or look.prior_df is None else Prior(look.prior_sd, look.prior_df)


def _of_role(processes: Sequence[Process], role: Role) -> list[Process]:
    return [process for process in processes if process.role is role]
