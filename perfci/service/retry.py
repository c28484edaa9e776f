"""When to try again what somebody else did not take: soon at first, then ever later, and at last no more."""

from __future__ import annotations

from datetime import datetime, timedelta

MOST_TRIES = 10
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=2)
"""Doubled from try to try: ten tries are over after five hours, by when a person has to look anyway."""


def again_at(now: datetime, tries: int, *, final: bool, after_s: float | None) -> datetime | None:
    """After so many tries; never where the last answer was final. ``after_s`` is what the other side asked for."""
    if final or tries >= MOST_TRIES:
        return None
    wait = min(FIRST_WAIT * (1 << tries - 1), LONGEST_WAIT)
    return now + max(wait, min(timedelta(seconds=after_s or 0), LONGEST_WAIT))
