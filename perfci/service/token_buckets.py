"""Token buckets: how much each caller may use in a minute. Each process counts by itself."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_CALLERS = 10_000
"""Callers kept in memory; the least recent is dropped first."""


class TokenBuckets:
    """A bucket for each caller: refilled per minute, and holding at most one minute's worth."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity, self._rate, self._clock = per_minute, per_minute / 60, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str, amount: float = 1.0) -> int:
        """Take ``amount`` and return 0, or return in how many whole seconds there will be enough.

        An amount larger than the bucket passes when the bucket is full: it could never pass otherwise.
        """
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(caller, (self._capacity, now))
            left = min(self._capacity, left + (now - since) * self._rate)
            needed = min(amount, self._capacity)
            enough = left >= needed
            self._left[caller] = (left - amount if enough else left, now)
            if len(self._left) > MAX_CALLERS:
                self._left.popitem(last=False)
        return 0 if enough else max(1, math.ceil((needed - left) / self._rate))
