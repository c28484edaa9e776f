"""Send what waits in the spool, as patiently as the moment allows; what is not sent stays."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perfci.net.api_client import Client, Refused, Unreachable
from perfci.net.shapes.runs import Receipt
from perfci.net.upload_spool import Spool, Spooled

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Full jitter between nothing and the doubled wait, so that jobs that failed together do not come back together."""

NEVER = frozenset({400, 409, 413, 415, 422})
"""Answers that no later attempt changes: the document is put aside with what was said of it."""

DAY_MS = 86_400_000


@dataclass
class Flushed:
    """What became of the documents that waited; ``told`` are sentences for whoever sent them."""

    sent: list[Receipt] = field(default_factory=list)
    known: list[Receipt] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: int = 0
    told: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on, and what time is: ``give_up_after_s`` none goes on for ever."""

    give_up_after_s: float | None = 30.0
    keep_days: float = 7.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    dice: Callable[[], float] = random.random

    def is_over(self, start: float, pause: float) -> bool:
        """Whether the time would be up after one more pause."""
        return self.give_up_after_s is not None and self.monotonic() - start + pause > self.give_up_after_s


def flush(spool: Spool, client: Client, patience: Patience | None = None) -> Flushed:
    """Send everything that waits for this server; another process that is at it already is left to it."""
    patience = patience or Patience()
    flushed = Flushed()
    with spool.locked() as alone:
        waiting = spool.waiting(client.server)
        if alone:
            waiting = _sent(spool, client, waiting, patience, flushed)
        else:
            flushed.told.append("another process is sending what waits here")
    flushed.waiting = len(waiting)
    flushed.told += _old(waiting, patience)
    return flushed


@dataclass
class _Round:
    """One attempt at every document: those to ask for again, and those that another token or address may send."""

    left: list[Spooled] = field(default_factory=list)
    held: list[Spooled] = field(default_factory=list)
    asked_for_s: float = 0.0
    met: str = ""


def _sent(spool: Spool, client: Client, waiting: list[Spooled], patience: Patience, flushed: Flushed) -> list[Spooled]:
    """Go through the documents again and again until none is left, or the time is up; answer those that stay."""
    start, attempt = patience.monotonic(), 0
    held: list[Spooled] = []
    left = waiting
    while left:
        went = _round(spool, client, left, flushed)
        held, left = [*held, *went.held], went.left
        if not left:
            break
        pause = max(went.asked_for_s, patience.dice() * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt))
        if patience.is_over(start, pause):
            _tell(flushed, went.met)
            break
        patience.sleep(pause)
        attempt = min(attempt + 1, 10)
    return [*held, *left]


def _round(spool: Spool, client: Client, waiting: Sequence[Spooled], flushed: Flushed) -> _Round:
    went = _Round()
    for place, item in enumerate(waiting):
        met = _attempt(spool, client, item, flushed)
        if isinstance(met, Unreachable):
            went.left += waiting[place:]
            went.met = str(met)
            break
        if isinstance(met, Refused) and met.passing:
            went.left.append(item)
            went.met, went.asked_for_s = str(met), max(went.asked_for_s, met.retry_after_s or 0.0)
        elif met is not None:
            went.held.append(item)
            _tell(flushed, str(met))
    return went


def _attempt(spool: Spool, client: Client, item: Spooled, flushed: Flushed) -> Refused | Unreachable | None:
    """Send one document; what it met is answered, unless it is settled one way or the other."""
    try:
        receipt = client.upload(item.packed, item.key)
    except Unreachable as error:
        return error
    except Refused as error:
        if error.status not in NEVER:
            return error
        path = spool.refuse(item, error.body)
        flushed.refused.append(f"{error} The document is kept as {path}.")
        return None
    if receipt.key != item.key:
        return Refused("The server acknowledged another key than was sent.", status=502, body=b"")
    spool.done(item)
    (flushed.sent if receipt.stored else flushed.known).append(receipt)
    return None


def _old(waiting: list[Spooled], patience: Patience) -> list[str]:
    """Documents that wait for longer than a user should be silent about."""
    limit = patience.now_ms() - patience.keep_days * DAY_MS
    count = sum(item.put_at_ms < limit for item in waiting)
    return [f"{count} of them wait for more than {patience.keep_days:g} days"] if count else []


def _tell(flushed: Flushed, sentence: str) -> None:
    if sentence not in flushed.told:
        flushed.told.append(sentence)
