"""Two recorded runs, of one commit or of two: the judgement of a comparison, where nothing can be measured again.

What was recorded is looked at once, so it is held to the rule that convicts, and to the false discovery rate of all of
it together. Processes are pairs only where both runs are of one session and say which belong together: equal numbers
from two sessions mean nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.model import Boundaries, Process, Result, Run, Series, Stage, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise import convict
from perfci.verdicts.judged_series import gated
from perfci.verdicts.policy import Policy

Key = tuple[str, object, str, object]


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that one side recorded of one series."""

    series: Series
    processes: tuple[Process, ...]
    boundaries: Boundaries
    summarised: bool


def recorded(runs: Iterable[Run], *, by_variant: bool = True) -> dict[Key, Recorded]:
    """What the runs of one commit hold, series by series; the same series in two runs is one.

    Where each side has one environment somebody chose, that may be what is compared: then it sets nothing apart.
    """
    found: dict[Key, list[Result]] = {}
    for run in runs:
        for result in run.results:
            found.setdefault(_key(result.series, by_variant=by_variant), []).append(result)
    return {key: _joined(results) for key, results in found.items()}


def judged(
    base: Mapping[Key, Recorded], head: Mapping[Key, Recorded], shas: tuple[str, str], policy: Policy, *,
    one_session: bool,
) -> list[Verdict]:  # fmt: skip
    """One verdict for each series that either side has; those of the head first, in its order."""
    keys = list(dict.fromkeys([*head, *base]))
    sides = {key: _sides(base.get(key), head.get(key), one_session=one_session) for key in keys}
    named = {key: (head.get(key) or base[key]).series for key in keys}
    wanted = set(gated({named[key]: [*before, *after] for key, (before, after) in sides.items()}))
    return [
        _verdict(named[key], base.get(key), head.get(key), sides[key], shas, policy)
        for key in keys
        if named[key] in wanted and policy.judges(named[key])
    ]


def _key(series: Series, *, by_variant: bool) -> Key:
    """All of a series but what makes two of them incomparable, which is told and not passed over."""
    variant = series.variant if by_variant else None
    return series.benchmark.name, series.parameters, series.metric.name, variant


def _joined(results: Sequence[Result]) -> Recorded:
    processes = tuple(process for result in results for process in result.processes)
    kinds = {result.boundaries for result in results if result.processes}
    boundaries = Boundaries.UNKNOWN if len(kinds) > 1 else next(iter(kinds), Boundaries.PROCESS)
    summarised = not processes and any(result.summary for result in results)
    return Recorded(results[0].series, processes, boundaries, summarised)


def _sides(base: Recorded | None, head: Recorded | None, *, one_session: bool) -> tuple[list[Process], list[Process]]:
    sides = [list(side.processes) if side else [] for side in (base, head)]
    if not one_session or any(_twice(side) for side in sides):
        sides = [[replace(process, pair=None, round=None) for process in side] for side in sides]
    return sides[0], sides[1]


def _twice(side: Sequence[Process]) -> bool:
    """Whether a number stands for two processes, so that it does not say which belongs to which."""
    numbers = Counter(process.pair if process.pair is not None else process.round for process in side)
    return any(count > 1 for number, count in numbers.items() if number is not None)


def _verdict(
    series: Series, base: Recorded | None, head: Recorded | None, sides: tuple[list[Process], list[Process]],
    shas: tuple[str, str], policy: Policy,
) -> Verdict:  # fmt: skip
    if base and head and (why := _incomparable(base, head)):
        return Verdict(VerdictKind.NOT_COMPARABLE, Stage.CONVICTION, series, *shas, reason=why)
    poured = [side.boundaries for side in (base, head) if side and side.boundaries is not Boundaries.PROCESS]
    boundaries = poured[0] if poured and base and head else Boundaries.PROCESS
    return convict(series, *shas, *sides, rule=policy.rule_for(series), boundaries=boundaries)


def _incomparable(base: Recorded, head: Recorded) -> str:
    """Why the numbers of two sides say nothing about each other; empty where they may."""
    before, after = base.series, head.series
    if before.machine != after.machine:
        return f"Measured on two machines: the base on {before.machine.label}, the head on {after.machine.label}."
    if before.benchmark.version != after.benchmark.version:
        return "The benchmark itself differs: its version is not the same on both sides."
    if before.harness != after.harness:
        return (
            f"Measured in two ways: the base by {before.harness or 'no'}, the head by {after.harness or 'no'} harness."
        )
    if before.metric != after.metric:
        return f"The units differ: {before.metric.unit or 'none'} and {after.metric.unit or 'none'}."
    if base.summarised or head.summarised:
        return "Only a summary was recorded, so its processes cannot be compared."
    return ""
