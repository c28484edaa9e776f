"""Act upon what GitHub told, one message after the other; what fails is tried again, or kept for a person to see."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from perfci.github.errors import Refused
from perfci.model import PerfciError
from perfci.service.retry import again_at
from perfci.store import Store
from perfci.store.jobs import run_events
from perfci.store.jobs.run_events import RunEvent

KEPT_FOR = timedelta(days=30)
"""For so long what was done is known by its delivery: GitHub offers to deliver again for three days."""

log = logging.getLogger("perfci.github")

Follow = Callable[[RunEvent, datetime], str]


@dataclass(frozen=True, slots=True)
class Reporting:
    """Only one may be at work at a time, which the caller's lease sees to; who dies leaves the message as it was."""

    store: Store
    follow: Follow

    def __call__(self, now: datetime) -> int:
        """Do what waits longest; answers whether there was any."""
        with self.store.read() as tx:
            due = run_events.due(tx, now, 1)
        for event in due:
            self._act(event, now)
        return len(due)

    def _act(self, event: RunEvent, now: datetime) -> None:
        try:
            nothing = self.follow(event, now)
        except Exception as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise  # of the database: no fault of the message
            self._put_off(event, error, now)
            return
        if nothing:
            log.info("%s: %s", _named(event), nothing)
        with self.store.begin() as tx:
            run_events.end(tx, event, nothing)
            run_events.forget(tx, now - KEPT_FOR)

    def _put_off(self, event: RunEvent, error: Exception, now: datetime) -> None:
        later, foreseen = _again_at(event, error, now), isinstance(error, PerfciError)
        problem = str(error) if foreseen else f"{type(error).__name__}: {error}"
        fate = f"tried again at {later:%Y-%m-%d %H:%M:%S} UTC" if later else "given up"
        told = f"{_named(event)} is {fate}: {problem}"
        log.log(logging.WARNING if later else logging.ERROR, "%s", told, exc_info=not foreseen)
        with self.store.begin() as tx:
            run_events.put_off(tx, event, problem[:2000], later)


def _named(event: RunEvent) -> str:
    return f"{event.told.number} ({event.told.action}) of {event.told.repository}"


def _again_at(event: RunEvent, error: Exception, now: datetime) -> datetime | None:
    """Never where GitHub would say the same again."""
    refused = error if isinstance(error, Refused) else None
    final = refused is not None and not refused.passing
    return again_at(now, event.attempts + 1, final=final, after_s=refused.after_s if refused else None)
