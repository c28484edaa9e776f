"""Deliver queued notifications: claim, send, mark; after a crash the same message is sent again."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from perfci.model import PerfciError
from perfci.net.address_check import ForbiddenAddress
from perfci.service.notify.destination_encryption import decrypt_destination
from perfci.service.notify.notification_send_time import compute_send_time
from perfci.service.notify.senders import SENDERS, DeliveryError, SenderConfig
from perfci.service.retry_backoff import compute_next_attempt_time
from perfci.store import Store
from perfci.store.incidents.incident_store import link_incident_to_issue
from perfci.store.jobs import notification_queue as stored
from perfci.store.jobs.notification_queue import CLAIMED, Delivery

log = logging.getLogger("perfci.notify")


def deliver_notifications(store: Store, config: SenderConfig, now: datetime, *, limit: int = 20) -> int:
    """Send due notifications; return how many messages were sent.

    The caller must hold the lease of deliveries: claims of an earlier call are treated as interrupted and
    are sent again under the same id.
    """
    holder = secrets.token_hex(8)
    with store.read() as tx:
        due = stored.load_due_deliveries(tx, holder, now, limit)
    sent = 0
    for batch in _group_batches(due):
        sent += _deliver_batch(store, holder, batch, config, now)
    return sent


def _group_batches(due: Sequence[Delivery]) -> list[list[Delivery]]:
    """Group deliveries into messages: one digest, or a batch that was claimed together before a crash."""

    def batch_key(delivery: Delivery) -> tuple[int, str]:
        if delivery.state == CLAIMED:
            return delivery.destination.id, delivery.batch
        return delivery.destination.id, "digest" if delivery.destination.digest else delivery.uid

    return [list(group) for _, group in groupby(sorted(due, key=batch_key), key=batch_key)]


def _deliver_batch(
    store: Store, holder: str, batch: Sequence[Delivery], config: SenderConfig, now: datetime
) -> int:
    destination, again = batch[0].destination, batch[0].state == CLAIMED
    urgent = bool(destination.routes.get("urgent"))
    if not again and (later := compute_send_time(now, destination.quiet, urgent=urgent)) > now:
        with store.begin() as tx:
            stored.postpone_deliveries(tx, batch, later)
        return 0
    uid = batch[0].batch if again else batch[0].uid
    with store.begin() as tx:
        mine = stored.claim_deliveries(
            tx, stored.load_deliveries_of_batch(tx, uid) if again else batch, holder, uid
        )
    if not mine:
        return 0
    try:
        with store.read() as tx:
            plain = decrypt_destination(tx, destination, config.secret_key)
        addressed = [replace(delivery, destination=plain) for delivery in mine]
        result = SENDERS[destination.kind](addressed, uid, config, now)
    except Exception as error:
        # Whatever a receiver answered, the messages to the others have to go on.
        is_foreseen = isinstance(error, PerfciError)
        problem = str(error) if is_foreseen else f"{type(error).__name__}: {error}"
        if not is_foreseen:
            log.exception("delivery %s to %s failed", uid, destination.name)
        with store.begin() as tx:
            stored.mark_deliveries_failed(
                tx, mine, holder, problem[:2000], _compute_next_attempt(error, mine, now)
            )
        return 0
    with store.begin() as tx:
        if result.url:
            link_incident_to_issue(tx, mine[0].incident_id, result.url)
        return stored.mark_deliveries_sent(tx, mine, holder, now)


def _compute_next_attempt(error: Exception, batch: Sequence[Delivery], now: datetime) -> datetime | None:
    """Compute the next attempt; None after a permanent refusal or the last attempt."""
    undelivered = error if isinstance(error, DeliveryError) else None
    final = isinstance(error, ForbiddenAddress) or bool(undelivered and undelivered.final)
    tries = max(delivery.attempts for delivery in batch) + 1
    return compute_next_attempt_time(
        now, tries, final=final, retry_after_s=undelivered.retry_after_s if undelivered else None
    )
