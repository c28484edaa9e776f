"""Every stored verdict reached again from the stored samples, by the rule it was reached by: bit for bit the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.judge_samples import MADE_BY, ROUNDS, rule_of
from perfci.history.stored_samples import Samples
from perfci.model import Series, Verdict
from perfci.store import Store
from perfci.store.queries.decisions import DecisionRecord, Equal, LookRecord, decisions, equals_until
from perfci.store.queries.measurements import session_processes, verdict_records
from perfci.store.queries.records import VerdictRecord
from perfci.verdicts.compare.false_discovery import control
from perfci.verdicts.compare.pairwise import Look


@dataclass(frozen=True, slots=True)
class Difference:
    """Something of a verdict that does not come out as it is stored."""

    record: VerdictRecord
    what: str
    made_by: str

    @property
    def by_others(self) -> bool:
        """Whether other versions reached the verdict, which may well compute something else."""
        return self.made_by != MADE_BY


@dataclass(frozen=True, slots=True)
class Repetition:
    """How many verdicts were reached again, how many could not be, and what came out differently."""

    repeated: int
    untold: int
    differences: Sequence[Difference]


Equals = Mapping[Series, Sequence[Equal]]
Reached = tuple[VerdictRecord, DecisionRecord]


def repeat(store: Store, project: str) -> Repetition:
    """Reach every verdict again, superseded ones too; of those from before looks were stored nothing is known."""
    with store.read() as tx:
        reached, records = decisions(tx, project), verdict_records(tx, project, current_only=False)
        known = [(record, reached[record.id]) for record in reversed(records) if record.id in reached]
        differences = list(_differences(tx, project, known))
    return Repetition(len(known), len(records) - len(known), differences)


def _differences(tx: Transaction, project: str, known: Sequence[Reached]) -> Iterator[Difference]:
    """Session by session: only one has its samples in memory."""
    equals: dict[int, Equals] = {}
    for uid in dict.fromkeys(record.session_uid for record, _ in known):
        mine = [one for one in known if one[0].session_uid == uid]
        for mark in {reached.known_until for _, reached in mine} - equals.keys():
            equals[mark] = equals_until(tx, project, mark)
        samples = Samples.of(session_processes(tx, uid))
        yield from _of_session(mine, samples, equals)


def _of_session(mine: Sequence[Reached], samples: Samples, equals: Mapping[int, Equals]) -> Iterator[Difference]:
    again = []
    for record, reached in mine:
        looks = _looks(record.verdict, reached, samples, equals[reached.known_until])
        told = [text for taken, seen in zip(reached.looks, looks, strict=True) for text in _look_differs(taken, seen)]
        yield from (Difference(record, text, reached.made_by) for text in told)
        again.append(_verdict(record.verdict, reached, looks[-1], samples))
    for (record, reached), now in zip(mine, _controlled(mine, again), strict=True):
        yield from (Difference(record, text, reached.made_by) for text in _verdict_differs(record.verdict, now))


def _looks(verdict: Verdict, reached: DecisionRecord, samples: Samples, equals: Equals) -> list[Look | None]:
    rule = rule_of(reached)
    if reached.method == ROUNDS:
        seen = samples.by_rounds(verdict, rule, reached.looks[-1].prior_sd)
        return [Look(seen, tail=reached.looks[-1].tail) if seen else None]
    aa = [one.log_ratio for one in equals.get(verdict.series, ())]
    return [samples.by_pairs(verdict, rule, taken, aa) for taken in reached.looks]


def _verdict(stored: Verdict, reached: DecisionRecord, seen: Look | None, samples: Samples) -> Verdict | None:
    return replace(seen.verdict, evidence=samples.evidence(stored, reached)) if seen else None


def _controlled(mine: Sequence[Reached], again: Sequence[Verdict | None]) -> list[Verdict | None]:
    """Hold back what was held back among the verdicts that were told together."""
    result = list(again)
    for rate in {reached.rate for _, reached in mine} - {None}:
        places = [k for k, one in enumerate(again) if mine[k][1].rate == rate and one is not None]
        held = control([one for k in places if (one := again[k]) is not None], rate or 0.0)
        for k, one in zip(places, held, strict=True):
            result[k] = one
    return result


def _look_differs(taken: LookRecord, seen: Look | None) -> Iterator[str]:
    place = f"the look at {taken.spent or taken.pairs} pairs"
    if seen is None:
        yield f"{place} finds no samples"
        return
    now = (seen.verdict.pairs, seen.verdict.kind.value, seen.tail, seen.more)
    for name, was, is_ in zip(("pairs", "kind", "tail", "more"), _told_of(taken), now, strict=True):
        if was != is_:
            yield f"{place} had {name} {was!r}, now {is_!r}"


def _told_of(taken: LookRecord) -> tuple[object, ...]:
    return taken.pairs, taken.kind, taken.tail, taken.more


def _verdict_differs(stored: Verdict, now: Verdict | None) -> Iterator[str]:
    if now is None:
        yield "its samples are gone"
        return
    for field in fields(Verdict):
        was, is_ = getattr(stored, field.name), getattr(now, field.name)
        if was != is_:
            yield f"{field.name} was {_shown(was)}, now {_shown(is_)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} processes"
    if hasattr(value, "lo") and hasattr(value, "hi"):
        return f"[{value.lo!r}, {value.hi!r}]"
    return f"{value}" if isinstance(value, str) else repr(value)
