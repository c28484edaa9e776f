"""Send what waits to be sent: claim, send, mark. A crash in between sends the same message again, never another one."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from types import MappingProxyType

from perfci.model import PerfciError
from perfci.net.address_check import Forbidden
from perfci.service.notify.github_issues import to_issue
from perfci.service.notify.quiet_hours import send_at
from perfci.service.notify.senders import Means, Sender, Undelivered, to_mail, to_slack, to_webhook
from perfci.service.retry import again_at
from perfci.store import Store
from perfci.store.jobs import delivery_queue as stored
from perfci.store.jobs.delivery_queue import CLAIMED, Delivery

SENDERS: Mapping[str, Sender] = MappingProxyType(
    {"slack": to_slack, "webhook": to_webhook, "email": to_mail, "github_issue": to_issue}
)


def deliver(store: Store, means: Means, now: datetime, *, limit: int = 20) -> int:
    """Send what is due, and answer how many messages left.

    Only one may be at work at a time, which the caller's lease sees to: what an earlier call had in hand when it ended
    was cut off, and is sent again under the same id.
    """
    holder = secrets.token_hex(8)
    with store.read() as tx:
        due = stored.due(tx, holder, now, limit)
    sent = 0
    for batch in _batches(due):
        sent += _deliver(store, holder, batch, means, now)
    return sent


def _batches(due: Sequence[Delivery]) -> list[list[Delivery]]:
    """What travels together: all that waits for one digest, or what was on its way together when somebody died."""

    def together(one: Delivery) -> tuple[int, str]:
        if one.state == CLAIMED:
            return one.destination.id, one.batch
        return one.destination.id, "digest" if one.destination.digest else one.uid

    return [list(group) for _, group in groupby(sorted(due, key=together), key=together)]


def _deliver(store: Store, holder: str, batch: Sequence[Delivery], means: Means, now: datetime) -> int:
    destination, again = batch[0].destination, batch[0].state == CLAIMED
    if not again and (later := send_at(now, destination.quiet, urgent=_urgent(batch))) > now:
        with store.begin() as tx:
            stored.hold(tx, batch, later)
        return 0
    uid = batch[0].batch if again else batch[0].uid
    with store.begin() as tx:
        mine = stored.claim(tx, stored.of_batch(tx, uid) if again else batch, holder, uid)
    if not mine:
        return 0
    try:
        found = SENDERS[destination.kind](mine, uid, means, now)
    except PerfciError as error:
        with store.begin() as tx:
            stored.mark_failed(tx, mine, holder, str(error), _again_at(error, mine, now))
        return 0
    with store.begin() as tx:
        if found.url:
            stored.link_issue(tx, mine[0].incident_id, found.url)
        return stored.mark_sent(tx, mine, holder, now)


def _again_at(error: PerfciError, batch: Sequence[Delivery], now: datetime) -> datetime | None:
    """When to try again; never where the receiver refused it, or was asked often enough."""
    undelivered = error if isinstance(error, Undelivered) else None
    final = isinstance(error, Forbidden) or bool(undelivered and undelivered.final)
    tries = max(one.attempts for one in batch) + 1
    return again_at(now, tries, final=final, after_s=undelivered.after_s if undelivered else None)


def _urgent(batch: Sequence[Delivery]) -> bool:
    return bool(batch[0].destination.routes.get("urgent"))
