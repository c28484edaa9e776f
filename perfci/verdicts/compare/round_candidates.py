"""Neighbouring commits of a session measured in rounds: which of them deserve fresh pairs.

Nominating is sensitive, because a change missed here is missed for good, while a false nomination only costs the
pairs that refute it. Three things sharpen a few processes per commit: the machine's mood is told from the processes
next to each other in time and taken out, the spread is pooled over all commits, and levels persist, so up to three
commits a side speak for a move.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfci.model import Clock, Interval, Process, Series, Stage, Verdict, VerdictKind
from perfci.stats import noise_model, power
from perfci.stats.location import Floats
from perfci.stats.location_shift import Prior
from perfci.stats.machine_drift import Calm, Ladder, Move, calmed, ladder, moves, rivals
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.compare.pairwise import screen
from perfci.verdicts.process_levels import process_level, usable
from perfci.verdicts.rule import Rule

Measured = Mapping[Series, Mapping[str, Sequence[Process]]]
Line = Sequence[tuple[str, str]]
Rules = Callable[[Series], Rule]
"""The rule of each series; where none is given all have the plain one."""

NOMINATING_SIGMAS = 2.2
"""A move this many sigmas out is worth fresh pairs: an interval of about 97 % beyond no change. Simulated rounds on a
loaded machine: at 2.0 half as many false nominations again, at 2.6 a quarter more missed."""

SMALLEST_SHARE = 0.5
"""A move below half the bar would not be convicted, so it is not worth pairs."""

FRESH_PAIRS = 10
"""Pairs a nomination is convicted on (DESIGN 6)."""

NORMAL_95 = 1.96

NOTHING = Calm(np.empty(0), np.empty(0))


@dataclass(frozen=True, slots=True)
class Nomination:
    """A commit suspected against its parent; ``score`` orders the suspects, the strongest first."""

    series: Series
    base: str
    head: str
    verdict: Verdict
    score: float
    reason: str


def plainly(series: Series) -> Rule:
    return Rule()


def nominate(measured: Measured, line: Line, *, rules: Rules = plainly) -> list[Nomination]:
    """The commits worth ~10 fresh pairs with their parent, strongest suspicion first."""
    cleaned = _cleaned(measured, line)
    found: list[Nomination] = []
    for series, by_commit in measured.items():
        rule = rules(series)
        found += _plain(series, by_commit, line, rule)
        if series in cleaned:
            found += _moved(series, cleaned[series], line, rule)
    return sorted(found, key=lambda one: (-one.score, one.series.label, one.head))


def smallest_visible(
    measured: Measured, line: Line, *, rules: Rules = plainly, pairs: int = FRESH_PAIRS
) -> dict[Series, float]:
    """The smallest change (0.08 = 8 %) that so many fresh pairs would convict, per series."""
    visible = {}
    for series, prior in pair_spreads(measured, line).items():
        limits = Limits.of(rules(series))
        error = prior.sd / math.sqrt(pairs)
        visible[series] = math.expm1(power.smallest_visible(error, prior.df, limits.bar, limits.null))
    return visible


def noise_floor(measured: Measured, line: Line, *, pairs: int = FRESH_PAIRS) -> dict[Series, float]:
    """What two equal commits would show over so many pairs, 95 times in 100, per series."""
    return {
        series: math.expm1(NORMAL_95 * prior.sd / math.sqrt(pairs))
        for series, prior in pair_spreads(measured, line).items()
    }


def pair_spreads(measured: Measured, line: Line) -> dict[Series, Prior]:
    """The standard deviation of one pair's log ratio, pooled over the commits; 0 for what repeats exactly."""
    order = _order(line)
    spreads = {}
    for series, by_commit in measured.items():
        sides = [_costs(series, usable(by_commit.get(sha, ()))) for sha in order]
        pooled = noise_model.pooled_sd([side for side in sides if np.isfinite(side).all()])
        if pooled is not None:
            spreads[series] = Prior(math.sqrt(2) * pooled, float(sum(len(side) - 1 for side in sides if len(side))))
    return spreads


def _plain(series: Series, by_commit: Mapping[str, Sequence[Process]], line: Line, rule: Rule) -> list[Nomination]:
    """What needs no statistics: exact values that moved, and commits that stopped working."""
    found = []
    for base, head in line:
        processes = [by_commit.get(base, ()), by_commit.get(head, ())]
        verdict = screen(series, base, head, processes[0], processes[1], rule=rule)
        moved = verdict.kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT)
        exact = all(process.clock is Clock.EXACT for side in processes for process in side)
        if verdict.kind is VerdictKind.FAILED or (moved and exact):
            found.append(Nomination(series, base, head, verdict, math.inf, verdict.reason))
    return found


def _moved(series: Series, costs: Mapping[str, Calm], line: Line, rule: Rule) -> list[Nomination]:
    """Moves of the level along the line, each at its commit and where else it may well have been."""
    order = _order(line)
    steps = ladder([costs.get(sha, NOTHING) for sha in order])
    sign = _sign(series)
    found = []
    for move in moves(steps, penalty=NOMINATING_SIGMAS**2):
        smallest = SMALLEST_SHARE * math.log1p(rule.at(_level(steps, move.at - 1, sign)).bar)
        if abs(move.size) < smallest or abs(move.sigmas) < NOMINATING_SIGMAS:
            continue
        found += [_nomination(series, order, steps, place, rule) for place in (move, *rivals(steps, move))]
    pairs = set(line)
    return [one for one in found if (one.base, one.head) in pairs]


def _nomination(series: Series, order: Sequence[str], steps: Ladder, move: Move, rule: Rule) -> Nomination:
    base, head = order[move.at - 1], order[move.at]
    sign = _sign(series)
    rule = rule.at(_level(steps, move.at - 1, sign))
    low, high = sorted(math.exp(sign * (move.size + k * NORMAL_95 * move.error)) for k in (-1, 1))
    ratio = math.exp(sign * move.size)
    clear = abs(move.size) >= math.log1p(rule.bar) and abs(move.sigmas) >= NORMAL_95
    kind = VerdictKind.INCONCLUSIVE
    if clear:
        kind = VerdictKind.REGRESSION if move.size > 0 else VerdictKind.IMPROVEMENT
    reason = f"{ratio - 1:+.1%} against the commits before, {abs(move.sigmas):.1f} sigmas: worth fresh pairs."
    verdict = Verdict(
        kind,
        Stage.SCREENING,
        series,
        base,
        head,
        ratio=ratio,
        interval=Interval(low, high),
        base_level=_level(steps, move.at - 1, sign),
        head_level=_level(steps, move.at, sign),
        noise_floor=math.expm1(NORMAL_95 * move.error),
        reason=reason,
    )
    return Nomination(series, base, head, verdict, abs(move.sigmas), reason)


def _level(steps: Ladder, at: int, sign: float) -> float | None:
    level = float(steps.levels[at])
    return math.exp(sign * level) if math.isfinite(level) else None


def _cleaned(measured: Measured, line: Line) -> dict[Series, dict[str, Calm]]:
    """Log costs per series and commit without the machine's mood; exact series and such with zeros are left out."""
    order = set(_order(line))
    records = [
        _Record(series, sha, process, cost)
        for series, by_commit in measured.items()
        for sha, processes in by_commit.items()
        if sha in order
        for process, cost in _statistical(series, processes)
    ]
    if not records:
        return {}
    records.sort(key=lambda record: record.when)
    cells = _numbered((record.series, record.sha) for record in records)
    calm = calmed(np.array([record.cost for record in records]), cells, _numbered(record.series for record in records))
    cleaned: dict[Series, dict[str, Calm]] = defaultdict(dict)
    for cell in np.unique(cells):
        mine = np.flatnonzero(cells == cell)
        first = records[int(mine[0])]
        cleaned[first.series][first.sha] = Calm(calm.values[mine], calm.sds[mine])
    return cleaned


@dataclass(frozen=True, slots=True)
class _Record:
    series: Series
    sha: str
    process: Process
    cost: float

    @property
    def when(self) -> tuple[float, int, int]:
        started = self.process.started_at.timestamp() if self.process.started_at else 0.0
        return started, self.process.round or 0, self.process.order or 0


def _statistical(series: Series, processes: Sequence[Process]) -> Iterable[tuple[Process, float]]:
    good = usable(processes)
    if any(process.clock is Clock.EXACT for process in good):
        return ()
    costs = _costs(series, good)
    return zip(good, costs, strict=True) if np.isfinite(costs).all() else ()


def _costs(series: Series, processes: Sequence[Process]) -> Floats:
    """Log levels that rise when things get worse; NaN for what has no logarithm."""
    levels = np.array([process_level(process) for process in processes], dtype=float)
    sign = _sign(series)
    return np.array([sign * math.log(level) if level > 0 else math.nan for level in levels])


def _sign(series: Series) -> float:
    """Which way a level moves when things get worse."""
    return 1.0 if series.metric.direction == "lower" else -1.0


def _order(line: Line) -> list[str]:
    """All commits of the line, parents before their children, each once."""
    return list(dict.fromkeys(sha for pair in line for sha in pair))


def _numbered(keys: Iterable[object]) -> np.ndarray:
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
