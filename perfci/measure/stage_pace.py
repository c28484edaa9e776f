"""The pace of a stage of a measurement: how many processes are done, and how long the rest takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from perfci.number_format import format_duration


@dataclass
class StagePace:
    """Counts the processes of one stage; ``total`` is the number expected."""

    clock: Callable[[], float] = time.monotonic
    name: str = ""
    done: int = 0
    total: int = 0
    _started: float = 0.0
    _ends_at: float = field(default=math.inf)

    def start(self, name: str, total: int) -> None:
        """Begin a stage of ``total`` processes."""
        self.name, self.done, self.total = name, 0, total
        self._started, self._ends_at = self.clock(), math.inf

    def set_remaining(self, remaining: int) -> None:
        """Set how many processes of this stage are still to come."""
        self.total = self.done + remaining

    def limit_seconds(self, seconds: float) -> None:
        """End this stage in so many seconds, whatever is left of it."""
        self._ends_at = self.clock() + seconds

    @property
    def time_left_text(self) -> str:
        """``, about 4 min 10 s left``; nothing before the first process and after the last."""
        if not self.done or self.total <= self.done:
            return ""
        now = self.clock()
        needed_s = (now - self._started) / self.done * (self.total - self.done)
        seconds = max(0.0, min(needed_s, self._ends_at - now))
        return f", about {format_duration(seconds)} left"
