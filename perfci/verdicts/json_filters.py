"""The statistics as filters: one JSON document in, one out, as `perfci judge --json` and `perfci detect --json`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from perfci.model import MetricClass, PerfciError, VerdictKind
from perfci.stats import fdr
from perfci.stats.incremental_segmentation import detect_many
from perfci.stats.location import Floats, warmup_length
from perfci.stats.location_shift import Prior, Shift, moderate
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.compare.noise_prior import Spread, lent
from perfci.verdicts.compare.pooled_verdict import PooledVerdict, members_alone, pooled
from perfci.verdicts.compare.side_costs import Sides
from perfci.verdicts.compare.stopping_rule import plan
from perfci.verdicts.rule import Rule

Document = dict[str, Any]


def judge(document: Mapping[str, Any]) -> Document:
    """Answer the operations ``compare`` and ``decide`` for every case; a bad case gets an error of its own."""
    operation = document.get("op", "compare")
    if operation not in ("compare", "decide"):
        raise PerfciError(f'expected "op" to be "compare" or "decide", found {operation!r}')
    cases = _listed(document, "cases")
    rule = Rule(bar=_share(document, "min_effect", 0.05), max_pairs=int(document.get("max_pairs", 20)))
    read = [_reading(case) for case in cases]
    if operation == "decide":
        priors = _priors(read, begun=rule.looks[0])
        return {
            "results": [one if isinstance(one, dict) else _decided(one, rule, priors[k]) for k, one in enumerate(read)]
        }
    found = _shifts(read)
    return {"results": _compared(read, found, rule), **_pools(read, found, rule)}


def detect(document: Mapping[str, Any]) -> Document:
    """Change points of every series; a bad series gets an error of its own.

    A ``min_effect`` is a ratio, which zero or less has not; where it is 0 every change counts and any number will do.
    """
    series = _listed(document, "series")
    min_effect = _share(document, "min_effect", 0.05)
    results = [_checked(one, ratios=min_effect > 0) for one in series]
    good = [k for k, result in enumerate(results) if "error" not in result]
    for k, points in zip(good, detect_many([series[k]["values"] for k in good], min_effect), strict=True):
        results[k]["change_points"] = [{"index": index, "rel": rel} for index, rel in points]
    return {"results": results}


def _compared(read: Sequence[Document | Reading], found: Mapping[int, Shift], rule: Rule) -> list[Document]:
    """Screening and conviction of every case; variance and false discoveries are shared inside a group only."""
    answers = [one if isinstance(one, dict) else _answer(one, found[k], rule) for k, one in enumerate(read)]
    for members in _groups(read).values():
        tested = [answers[k]["p_value"] for k in members]
        for k, accepted in zip(members, fdr.accepted(tested), strict=True):
            if not accepted and answers[k]["confident"]:
                answers[k] |= {"confident": False, "verdict": VerdictKind.INCONCLUSIVE.value}
    return answers


class Reading:
    """One case as numbers: its sides as log levels, its A/A history and the group it shares with others."""

    __slots__ = ("aa", "group", "id", "sides")

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.id = case.get("id")
        self.group = case.get("group")
        self.aa = [float(ratio) for ratio in case.get("aa") or ()]
        if not all(map(math.isfinite, self.aa)):
            raise ValueError('expected finite numbers in "aa"')
        self.sides = _sides(case["base"], case["head"])


def _reading(case: Mapping[str, Any]) -> Document | Reading:
    try:
        return Reading(case)
    except (KeyError, TypeError, ValueError) as wrong:
        return _error(case, wrong)


def _sides(base: Sequence[Sequence[float]], head: Sequence[Sequence[float]]) -> Sides:
    for name, side in (("base", base), ("head", head)):
        if not isinstance(side, list) or not all(isinstance(process, list) for process in side):
            raise ValueError(f'expected a list of processes, each a list of samples, in "{name}"')
        if not side or not all(side):
            raise ValueError(f'expected processes with samples in "{name}", found an empty list')
        if not all(math.isfinite(sample) and sample > 0 for process in side for sample in process):
            raise ValueError(f'expected positive finite numbers in "{name}"')
    cut = warmup_length([*base, *head])
    return Sides(_log_levels(base, cut), _log_levels(head, cut), 1.0, in_pairs=len(base) == len(head))


def _log_levels(side: Sequence[Sequence[float]], cut: int) -> Floats:
    """The median of every process as a logarithm, all at once where they have as many samples."""
    if len({len(process) for process in side}) == 1:
        levels = np.median(np.asarray(side, dtype=float)[:, cut:], axis=1)
    else:
        levels = np.array([np.median(process[cut:]) for process in side])
    return np.asarray(np.log(levels))


def _answer(one: Reading, found: Shift, rule: Rule) -> Document:
    limits = Limits.of(rule, one.aa)
    kind = limits.kind(found)
    return {
        "id": one.id,
        "regression": limits.screening().kind(found) is VerdictKind.REGRESSION,
        "confident": kind is VerdictKind.REGRESSION,
        "verdict": kind.value,
        **_shown(found),
        "p_value": limits.p_value(found),
        "pairs": one.sides.pairs,
    }


def _decided(one: Reading, rule: Rule, prior: Prior | None) -> Document:
    limits = Limits.of(rule, one.aa)
    more, tail = plan(one.sides, rule, limits, prior)
    found = one.sides.shift(prior)
    decision = "more" if more else limits.kind(found, tail).value
    return {"id": one.id, "decision": decision, **({"more_pairs": more} if more else {}), **_shown(found, tail)}


def _shown(found: Shift, tail: float = 0.025) -> Document:
    low, high = found.bounds(tail)
    known = math.isfinite(low) and math.isfinite(high)
    return {"ratio": math.exp(found.centre), "ci": [math.exp(low), math.exp(high)] if known else None}


def _pools(read: Sequence[Document | Reading], found: Mapping[int, Shift], rule: Rule) -> Document:
    """What the cases of each group have in common, every case counting once; nothing where no case has a group."""
    shifts = {name: [found[k] for k in members] for name, members in _groups(read).items()}
    pools = [_pooled(name, pooled(members_alone(among), rule.bar)) for name, among in shifts.items()]
    return {"groups": pools} if pools else {}


def _pooled(name: Any, found: PooledVerdict) -> Document:
    return {
        "group": name,
        "pooled": found.kind.value,
        "ratio": found.ratio,
        "ci": [found.interval.lo, found.interval.hi] if found.interval else None,
        "benchmarks": found.benchmarks,
        "bar": found.bar,
        "reason": found.reason,
    }


def _groups(read: Sequence[Document | Reading]) -> dict[Any, list[int]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for k, one in enumerate(read):
        if isinstance(one, Reading) and one.group is not None:
            groups[one.group].append(k)
    return groups


def _shifts(read: Sequence[Document | Reading]) -> dict[int, Shift]:
    """The shift of every case, moderated by what it may borrow."""
    bare = {k: one.sides.shift() for k, one in enumerate(read) if isinstance(one, Reading)}
    priors = _priors(read, bare)
    return {k: moderate(found, priors[k]) for k, found in bare.items()}


def _priors(
    read: Sequence[Document | Reading], bare: Mapping[int, Shift] | None = None, *, begun: int | None = None
) -> dict[int, Prior | None]:
    """What each case knows of its noise beforehand: from its group, and from its own comparisons of equals.

    Those do not say how many pairs they had, so they count as comparisons like this one: of the pairs it has, or where
    it is still growing of those it ``begun`` with. Lending is the same as between benchmarks of one session.
    """
    priors: dict[int, Prior | None] = dict.fromkeys(range(len(read)))
    alone = [[k] for k, one in enumerate(read) if isinstance(one, Reading) and one.group is None and one.aa]
    for members in (*_groups(read).values(), *alone):
        cases = {k: one for k in members if isinstance(one := read[k], Reading)}
        shifts = {k: bare[k] if bare else one.sides.shift() for k, one in cases.items()}
        priors |= _lent(cases, shifts, begun)
    return priors


def _lent(cases: Mapping[int, Reading], bare: Mapping[int, Shift], begun: int | None) -> dict[int, Prior | None]:
    """What cases lend to each other; to those without a past they all lend the same."""
    spreads: dict[Hashable, Spread] = {}
    for k, one in cases.items():
        equals = [(ratio, begun or one.sides.pairs) for ratio in one.aa]
        if spread := Spread.of(MetricClass.OTHER, bare[k], equals):
            spreads[k] = spread
    plain = next((k for k, spread in spreads.items() if spread.past is None), None)
    shared = None if plain is None else lent(spreads, plain)
    return {k: lent(spreads, k) if k in spreads and spreads[k].past else shared for k in cases}


def _checked(one: Mapping[str, Any], *, ratios: bool) -> Document:
    try:
        values = np.asarray(one["values"], dtype=float)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all() or (ratios and (values <= 0).any()):
            raise ValueError(f'expected a list of {"positive " if ratios else ""}finite numbers in "values"')
    except (KeyError, TypeError, ValueError) as wrong:
        return _error(one, wrong)
    return {"id": one.get("id")}


def _error(one: Mapping[str, Any], wrong: Exception) -> Document:
    text = f"expected a field {wrong}, found none" if isinstance(wrong, KeyError) else str(wrong)
    return {"id": one.get("id"), "error": text}


def _listed(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    found = document.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise PerfciError(f'expected a list of objects under "{key}", found {type(found).__name__}')
    return found


def _share(document: Mapping[str, Any], key: str, default: float) -> float:
    value = document.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise PerfciError(f'expected "{key}" to be a share such as 0.05, found {value!r}')
    return float(value)
