"""Rate limits by caller, refused with the seconds to wait. Each process counts by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

from perfci.service.token_buckets import TokenBuckets
from perfci_web.api.problem_details import ProblemError


class RateLimiter:
    """A token bucket for each caller: refilled per minute, and holding at most one minute's worth."""

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(per_minute, clock)

    def require_allowance(self, caller: str, amount: float = 1.0) -> None:
        """Take ``amount``, or refuse the request and say in how many whole seconds there will be enough."""
        if wait_s := self._buckets.take(caller, amount):
            raise ProblemError(
                "rate-limited",
                f"Too much in one minute: try again in {wait_s} s.",
                headers={"Retry-After": str(wait_s)},
            )
