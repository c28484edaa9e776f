"""The time of both sides by phase and aligned lines, without what other programs took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perfci.verdicts.explain.call_profile import CallProfile, SourceLine, StackTime
from perfci.verdicts.explain.source_alignment import SourceAlignment

SAMPLE_INTERVAL_S = 0.001
"""Seconds between two samples of a profile."""

WAITING_FACTOR = 2.0
"""A line waits where it takes so much longer than its CPU time, by what is usual in its process."""

MIN_WAITING_SHARE = 0.02
"""Share of a call that a line has to take to count as one that waits."""


@dataclass(frozen=True, slots=True)
class AlignedLine:
    """A line of both sides, named by its place in the base, or one of the head or of the base alone."""

    side: str
    place: SourceLine

    @property
    def is_changed(self) -> bool:
        return self.side != BOTH


BOTH, HEAD_ONLY, BASE_ONLY = "both", "head", "base"

StackKey = tuple[str, tuple[AlignedLine, ...]]
"""A phase and the open lines, the outermost first."""

Work = Mapping[tuple[str, str], float]
"""Calls of operators by name and inputs."""


@dataclass(frozen=True)
class AlignedTimes:
    """Seconds of one call by stack, for every process of both sides, and what work was done there."""

    alignment: SourceAlignment
    bases: Sequence[Mapping[StackKey, float]]
    heads: Sequence[Mapping[StackKey, float]]
    base_work: Mapping[StackKey, Work]
    head_work: Mapping[StackKey, Work]
    base_operator_s: Mapping[StackKey, Mapping[str, float]]
    head_operator_s: Mapping[StackKey, Mapping[str, float]]
    head_places: Mapping[AlignedLine, SourceLine]
    sampled_calls: tuple[int, int]
    """Calls that were sampled in all processes of the base, and of the head."""

    @cached_property
    def keys(self) -> tuple[StackKey, ...]:
        return tuple(dict.fromkeys(key for side in (*self.bases, *self.heads) for key in side))

    @cached_property
    def base_s(self) -> Mapping[StackKey, float]:
        return _mean_times(self.bases)

    @cached_property
    def head_s(self) -> Mapping[StackKey, float]:
        return _mean_times(self.heads)

    def at_even_speed(self, base_speeds: Sequence[float], head_speeds: Sequence[float]) -> AlignedTimes:
        """The times as if all processes had run as fast; the factors say how much slower each was."""
        bases, heads = (
            [
                {key: seconds / speed for key, seconds in process.items()}
                for process, speed in zip(side, speeds, strict=True)
            ]
            for side, speeds in ((self.bases, base_speeds), (self.heads, head_speeds))
        )
        return replace(self, bases=bases, heads=heads)

    def sampling_error_s(self, keys: Iterable[StackKey]) -> float:
        """Standard error of what these stacks grew by: the variance of a number of samples is that number."""
        rows = list(keys)
        base_s, head_s = (sum(side.get(key, 0.0) for key in rows) for side in (self.base_s, self.head_s))
        per_call = (base_s / self.sampled_calls[0], head_s / self.sampled_calls[1])
        return math.sqrt(SAMPLE_INTERVAL_S * sum(per_call))

    def does_same_work(self, key: StackKey) -> bool:
        """Whether unchanged lines ran the same operators on inputs of the same formats and shapes."""
        if any(line.is_changed for line in key[1]):
            return False
        return self.base_work.get(key, {}) == self.head_work.get(key, {})


def align_times(bases: Sequence[CallProfile], heads: Sequence[CallProfile]) -> AlignedTimes:
    """Bring the stacks of both sides to common lines."""
    alignment = SourceAlignment(bases[0].sources, heads[0].sources)
    head_places: dict[AlignedLine, SourceLine] = {}

    def of_base(line: SourceLine) -> AlignedLine:
        return AlignedLine(BASE_ONLY if alignment.is_gone(line) else BOTH, line)

    def of_head(line: SourceLine) -> AlignedLine:
        base_line = alignment.base_line(line)
        aligned = AlignedLine(HEAD_ONLY, line) if base_line is None else AlignedLine(BOTH, base_line)
        head_places[aligned] = line
        return aligned

    def base_key(phase: str, lines: Iterable[SourceLine]) -> StackKey:
        return phase, tuple(map(of_base, lines))

    def head_key(phase: str, lines: Iterable[SourceLine]) -> StackKey:
        return phase, tuple(map(of_head, lines))

    sampled_calls = (sum(len(p.calls_s) for p in bases), sum(len(p.calls_s) for p in heads))
    waits_at = _find_waiting_lines(bases), _find_waiting_lines(heads)
    base_times, head_times = (
        [
            _sum_times(
                (make_key(stack.phase, stack.lines), _own_seconds(stack, waits)) for stack in side.stacks
            )
            for side in sides
        ]
        for sides, make_key, waits in zip((bases, heads), (base_key, head_key), waits_at, strict=True)
    )
    work: list[Mapping[StackKey, Work]] = []
    seconds: list[Mapping[StackKey, Mapping[str, float]]] = []
    for profile, make_key in ((bases[0], base_key), (heads[0], head_key)):
        calls: dict[StackKey, Counter[tuple[str, str]]] = defaultdict(Counter)
        took: dict[StackKey, Counter[str]] = defaultdict(Counter)
        for use in profile.operator_calls:
            key = make_key(use.phase, use.lines)
            calls[key][use.name, use.inputs] += use.calls  # type: ignore[assignment]
            took[key][use.name] += use.seconds  # type: ignore[assignment]
        work.append(calls)
        seconds.append(took)
    return AlignedTimes(
        alignment,
        base_times,
        head_times,
        work[0],
        work[1],
        seconds[0],
        seconds[1],
        head_places,
        sampled_calls,
    )


def _sum_times(rows: Iterable[tuple[StackKey, float]]) -> dict[StackKey, float]:
    times: dict[StackKey, float] = defaultdict(float)
    for key, seconds in rows:
        times[key] += seconds
    return dict(times)


def _mean_times(processes: Sequence[Mapping[StackKey, float]]) -> dict[StackKey, float]:
    times: dict[StackKey, float] = defaultdict(float)
    for process in processes:
        for key, seconds in process.items():
            times[key] += seconds / len(processes)
    return dict(times)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Lines that wait by themselves, and how much longer the others take than their CPU time."""

    lines: frozenset[SourceLine]
    usual: float


def _find_waiting_lines(profiles: Sequence[CallProfile]) -> _Waiting:
    """Lines whose time is not CPU time: they sleep, or wait for a device, a disk or a worker.

    What another program takes from a process lengthens all lines alike, and is left out of all of them.
    """
    cpu: Counter[SourceLine] = Counter()
    wall: Counter[SourceLine] = Counter()
    for stack in (stack for profile in profiles for stack in profile.stacks if stack.lines):
        cpu[stack.lines[-1]] += stack.cpu_s  # type: ignore[assignment]
        wall[stack.lines[-1]] += stack.wall_s  # type: ignore[assignment]
    usual = max(1.0, weighted_median([(wall[line] / cpu[line], cpu[line]) for line in cpu if cpu[line] > 0]))
    least_s = MIN_WAITING_SHARE * sum(wall.values())
    waiting = {line for line in wall if wall[line] > max(least_s, WAITING_FACTOR * usual * cpu[line])}
    return _Waiting(frozenset(waiting), usual)


def _own_seconds(stack: StackTime, waiting: _Waiting) -> float:
    if stack.lines and stack.lines[-1] in waiting.lines:
        return stack.cpu_s + max(0.0, stack.wall_s - waiting.usual * stack.cpu_s)
    return stack.cpu_s


def weighted_median(rows: Sequence[tuple[float, float]]) -> float:
    """The value with half of the weight on each side; 1 without any."""
    whole, passed = sum(weight for _, weight in rows), 0.0
    for value, weight in sorted(rows):
        passed += weight
        if 2 * passed >= whole:
            return value
    return 1.0
