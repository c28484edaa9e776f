"""Parts of a whole, the largest first: what every table of a profile is made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class TimeShare:
    """Seconds of a kernel, operator, phase or line in one call, and their share of the total.

    ``calls`` says how often it ran in one call; a line is sampled and not counted.
    """

    name: str
    seconds: float
    share: float
    calls: float = 0.0


def sum_shares(parts: Iterable[tuple[str, float]], total_s: float, calls: int) -> tuple[TimeShare, ...]:
    """Sum the seconds of parts of one name over so many calls; what took no time has no share."""
    seconds: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for name, part_s in parts:
        seconds[name] += part_s
        counts[name] += 1
    largest = sorted(((took, name) for name, took in seconds.items() if took > 0), reverse=True)[:MAX_ROWS]
    return tuple(
        TimeShare(name, took / calls, took / total_s, counts[name] / calls) for took, name in largest
    )
