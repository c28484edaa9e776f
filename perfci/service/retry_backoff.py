"""Retry times of failed deliveries and events: exponential backoff with a limit on attempts."""

from __future__ import annotations

from datetime import datetime, timedelta

MAX_ATTEMPTS = 10
FIRST_WAIT, MAX_WAIT = timedelta(seconds=30), timedelta(hours=2)
"""Doubled for each attempt: ten attempts end after about five hours."""


def compute_next_attempt_time(
    now: datetime, attempts: int, *, final: bool, retry_after_s: float | None
) -> datetime | None:
    """Compute the time of the next attempt; None after a final failure or the last attempt.

    ``retry_after_s`` is the delay that the receiver asked for, in seconds.
    """
    if final or attempts >= MAX_ATTEMPTS:
        return None
    wait = min(FIRST_WAIT * (1 << attempts - 1), MAX_WAIT)
    # Bounded before it becomes a timedelta: a receiver may answer with any number of digits.
    requested_wait = timedelta(seconds=min(retry_after_s or 0, MAX_WAIT.total_seconds()))
    return now + max(wait, requested_wait)
