"""Send spooled documents to their server with retries; what is not sent stays in the spool."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perfci.net.api_client import ApiClient, ApiError, ServerUnreachable
from perfci.net.api_schemas.runs import UploadReceipt
from perfci.net.upload_spool import Spool, SpooledDocument

INITIAL_BACKOFF_S, MAX_BACKOFF_S = 1.0, 60.0
"""Full jitter between nothing and the doubled wait, so that jobs that failed together do not come back
together.
"""

PERMANENT_ERROR_STATUSES = frozenset({400, 409, 413, 415, 422})
"""Answers that no later attempt changes: the document is put aside with what was said of it."""

REPORT_AFTER_DAYS = 7
"""Documents that wait for longer are reported with every flush; none is ever dropped."""

DAY_MS = 86_400_000


@dataclass
class FlushReport:
    """What became of the spooled documents; ``messages`` are sentences for the user."""

    sent: list[UploadReceipt] = field(default_factory=list)
    already_stored: list[UploadReceipt] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    waiting: int = 0
    messages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FlushRetryPolicy:
    """How long to retry, and the clock; without ``give_up_after_s`` for ever."""

    give_up_after_s: float | None = 30.0
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    random_fraction: Callable[[], float] = random.random

    def would_exceed_time_limit(self, start: float, pause: float) -> bool:
        """Whether the time would be up after one more pause."""
        return self.give_up_after_s is not None and self.monotonic() - start + pause > self.give_up_after_s


def flush_spool(spool: Spool, client: ApiClient, retry_policy: FlushRetryPolicy | None = None) -> FlushReport:
    """Send all spooled documents of this server, unless another process is sending already."""
    retry_policy = retry_policy or FlushRetryPolicy()
    flushed = FlushReport()
    with spool.lock_for_sending() as alone:
        waiting = spool.list_waiting_documents(client.server_url)
        if alone:
            waiting = _send_until_done(spool, client, waiting, retry_policy, flushed)
        else:
            flushed.messages.append("another process is sending what waits here")
    flushed.waiting = len(waiting)
    overdue_before = retry_policy.now_ms() - REPORT_AFTER_DAYS * DAY_MS
    overdue = sum(document.spooled_at_ms < overdue_before for document in waiting)
    if overdue:
        flushed.messages.append(f"{overdue} of them wait for more than {REPORT_AFTER_DAYS} days")
    return flushed


@dataclass
class _FlushPass:
    """One attempt at every document: those to ask for again, and those that another token or address may
    send.
    """

    to_retry: list[SpooledDocument] = field(default_factory=list)
    blocked: list[SpooledDocument] = field(default_factory=list)
    retry_after_s: float = 0.0
    last_problem: str = ""


def _send_until_done(
    spool: Spool,
    client: ApiClient,
    documents: list[SpooledDocument],
    retry_policy: FlushRetryPolicy,
    report: FlushReport,
) -> list[SpooledDocument]:
    """Send documents in rounds until none is left or the time is up; returns those still pending."""
    start, attempt = retry_policy.monotonic(), 0
    held: list[SpooledDocument] = []
    left = documents
    while left:
        went = _send_pass(spool, client, left, report)
        held, left = [*held, *went.blocked], went.to_retry
        if not left:
            break
        pause = max(
            went.retry_after_s,
            retry_policy.random_fraction() * min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2**attempt),
        )
        if retry_policy.would_exceed_time_limit(start, pause):
            _add_message(report, went.last_problem)
            break
        retry_policy.sleep(pause)
        # Bounded, because 2**attempt becomes too large for a float in a spool that waits for days.
        attempt = min(attempt + 1, 10)
    return [*held, *left]


def _send_pass(
    spool: Spool, client: ApiClient, documents: Sequence[SpooledDocument], report: FlushReport
) -> _FlushPass:
    went = _FlushPass()
    for place, item in enumerate(documents):
        met = _send_document(spool, client, item, report)
        if isinstance(met, ServerUnreachable):
            # Nobody answers: each document after this one would wait for the same timeout.
            went.to_retry += documents[place:]
            went.last_problem = str(met)
            break
        if isinstance(met, ApiError) and met.is_transient:
            went.to_retry.append(item)
            went.last_problem = str(met)
            went.retry_after_s = max(went.retry_after_s, met.retry_after_s or 0.0)
        elif met is not None:
            went.blocked.append(item)
            _add_message(report, str(met))
    return went


def _send_document(
    spool: Spool, client: ApiClient, document: SpooledDocument, report: FlushReport
) -> ApiError | ServerUnreachable | None:
    """Send one document; what it met is answered, unless it is settled one way or the other."""
    try:
        receipt = client.upload_run(document.compressed_body, document.key)
    except ServerUnreachable as error:
        return error
    except ApiError as error:
        if error.status not in PERMANENT_ERROR_STATUSES:
            return error
        path = spool.move_to_rejected(document, error.body)
        report.rejected.append(f"{error} The document is kept as {path}.")
        return None
    if receipt.key != document.key:
        return ApiError("The server acknowledged another key than was sent.", status=502, body=b"")
    spool.remove_document(document)
    (report.sent if receipt.stored else report.already_stored).append(receipt)
    return None


def _add_message(report: FlushReport, message: str) -> None:
    if message not in report.messages:
        report.messages.append(message)
