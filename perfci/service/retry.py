"""When to try again what somebody else did not take: soon at first, then ever later, and at last no more."""

from __future__ import annotations

from datetime import datetime, timedelta

MAX_ATTEMPTS = 10
FIRST_WAIT, MAX_WAIT = timedelta(seconds=30), timedelta(hours=2)
"""Doubled from try to try: ten tries are over after five hours, by when a person has to look anyway."""


def compute_next_attempt(
    now: datetime, attempts: int, *, final: bool, retry_after_s: float | None
) -> datetime | None:
    """After so many tries; never where the last answer was final. ``after_s`` is what the other side asked for."""
    if final or attempts >= MAX_ATTEMPTS:
        return None
    wait = min(FIRST_WAIT * (1 << attempts - 1), MAX_WAIT)
    return now + max(wait, min(timedelta(seconds=retry_after_s or 0), MAX_WAIT))
