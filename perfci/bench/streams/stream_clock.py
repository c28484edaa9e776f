"""Clocks of a stream: when each of its chunks became visible, by the wall and in CPU seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from time import perf_counter, process_time

ClockReadings = tuple[float, float]
"""Wall and CPU seconds, read at one moment."""

CPU_CLOCK_INTERVAL_S = 0.001
"""The CPU clock of a process is a system call: read at every token, it made one of 0.2 ms 2 % slower."""


class StreamClock:
    """Reads the wall clock each time it is asked, and the CPU clock at most once a millisecond.

    Both are read at the first two moments (a request is sent, its first chunk is there) and at the last.
    Between two readings of the CPU clock its seconds are shared out by ``share_cpu_seconds``.
    """

    def __init__(self) -> None:
        self._wall: list[float] = []
        self._cpu: list[tuple[int, float]] = []  # with the number of the moment it was read at
        self._next_cpu_reading_at = 0.0

    def record_moment(self) -> None:
        """Note this moment."""
        wall = perf_counter()
        if len(self._wall) < 2 or wall >= self._next_cpu_reading_at:
            self._read_cpu_clock(len(self._wall))
            self._next_cpu_reading_at = wall + CPU_CLOCK_INTERVAL_S
        self._wall.append(wall)

    def finish_and_get_moments(self) -> list[ClockReadings]:
        """Note this moment, and give all of them."""
        self._wall.append(perf_counter())
        self._read_cpu_clock(len(self._wall) - 1)
        moments = [(self._wall[0], self._cpu[0][1])]
        for before, after in pairwise(self._cpu):
            moments += self._share_out(before, after)
        return moments

    def _read_cpu_clock(self, moment: int) -> None:
        self._cpu.append((moment, process_time()))

    def _share_out(self, before: tuple[int, float], after: tuple[int, float]) -> list[ClockReadings]:
        """The moments after one reading of the CPU clock, up to the next."""
        (first, first_cpu), (last, last_cpu) = before, after
        wall = self._wall[first : last + 1]
        gaps = [later - earlier for earlier, later in pairwise(wall)]
        # Rounding must not put a moment behind the reading that follows.
        shared = [
            min(last_cpu, first_cpu + used)
            for used in accumulate(share_cpu_seconds(gaps, last_cpu - first_cpu))
        ]
        return list(zip(wall[1:], [*shared[:-1], last_cpu], strict=True))


def share_cpu_seconds(gaps: Sequence[float], cpu_s: float) -> list[float]:
    """Share CPU seconds out between gaps of wall time, in seconds.

    Another process interrupts few gaps and makes those long. So each gap was computing throughout, but for
    the longest: they are cut to one length, such that the sum is right. Where several threads computed, all
    gaps have more in proportion.
    """
    elapsed = sum(gaps)
    if not 0 < cpu_s < elapsed:
        return [gap * cpu_s / elapsed if elapsed else 0.0 for gap in gaps]
    remaining, longest = cpu_s, 0.0
    for index, gap in enumerate(sorted(gaps)):
        longest = remaining / (len(gaps) - index)
        if gap >= longest:
            break
        remaining -= gap
    return [min(gap, longest) for gap in gaps]
