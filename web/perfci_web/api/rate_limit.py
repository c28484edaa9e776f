"""How much one caller may ask of one process in a minute. Several processes each count for themselves."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_CALLERS = 10_000
"""Callers that are remembered; the one that was quiet longest is forgotten first."""


class RateLimiter:
    """So much in a minute for each name, spent as it comes: after a quiet minute a whole minute's worth at once."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._rate, self._clock = per_minute, per_minute / 60, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take_or_wait_s(self, caller: str, amount: float = 1.0) -> int:
        """Take ``amount``, or answer in how many whole seconds there will be enough.

        What is larger than a whole minute's worth is let through when nothing else was taken: it could never be.
        """
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(caller, (self._most, now))
            left = min(self._most, left + (now - since) * self._rate)
            needed = min(amount, self._most)
            enough = left >= needed
            self._left[caller] = (left - amount if enough else left, now)
            if len(self._left) > MAX_CALLERS:
                self._left.popitem(last=False)
        return 0 if enough else max(1, math.ceil((needed - left) / self._rate))
