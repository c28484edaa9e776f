"""The public keys of a token's issuer: fetched from one address, kept for an hour, and used for a day without it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from perfci.model import PerfciError
from perfci.net.http_client import open_client

FRESH_FOR = timedelta(hours=1)
GOOD_FOR = timedelta(hours=24)
"""How long keys count while nobody can be asked whether they still do."""
ASKED_EVERY = timedelta(seconds=60)
"""How often at most the issuer is asked, whatever ids of keys strangers make up."""
ASKED_FIRST_EVERY = timedelta(seconds=5)
"""The same as long as there are no keys at all."""

TIMEOUT_S = 5.0
MOST_BYTES = 256 * 1024
PATH = "/.well-known/jwks"
NEVER = datetime.min.replace(tzinfo=UTC)

Jwk = Mapping[str, Any]


class Unanswered(PerfciError):
    """The issuer does not tell its keys, and none that are young enough are known."""


class IssuerKeys:
    """The keys of one issuer, for all requests of this process."""

    def __init__(
        self, issuer: str, clock: Callable[[], datetime], transport: httpx.BaseTransport | None = None
    ) -> None:
        self._issuer, self._clock, self._transport = issuer, clock, transport
        self._keys: Mapping[str, Jwk] = {}
        self._fetched_at = self._asked_at = NEVER
        self._lock = threading.Lock()

    def key(self, kid: str) -> Jwk | None:
        """The key of this id, if the issuer publishes it; raises ``Unanswered`` where nobody can know."""
        with self._lock:
            now = self._clock()
            if (kid not in self._keys or now - self._fetched_at >= FRESH_FOR) and self._may_ask(now):
                self._ask(now)
            if now - self._fetched_at >= GOOD_FOR:
                raise Unanswered(f"{self._issuer} does not tell its keys at this moment: try again.")
            return self._keys.get(kid)

    def _may_ask(self, now: datetime) -> bool:
        return now - self._asked_at >= (ASKED_EVERY if self._keys else ASKED_FIRST_EVERY)

    def _ask(self, now: datetime) -> None:
        """Take over what the issuer publishes now; what is no list of keys changes nothing."""
        self._asked_at = now
        found = _keys_in(_fetched(self._issuer, self._transport))
        if found:
            self._keys, self._fetched_at = found, now


def _fetched(issuer: str, transport: httpx.BaseTransport | None) -> bytes:
    """The answer of the one address there is; nothing where it fails, is elsewhere, or is longer than keys are."""
    body = b""
    try:
        with (
            open_client(issuer, timeout_s=TIMEOUT_S, transport=transport) as client,
            client.stream("GET", issuer + PATH, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status_code != 200:
                return b""
            for piece in answer.iter_raw():
                body += piece
                if len(body) > MOST_BYTES:
                    return b""
    except httpx.HTTPError:
        return b""
    return body


def _keys_in(body: bytes) -> dict[str, Jwk]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    keys = told.get("keys") if isinstance(told, dict) else None
    named = [one for one in keys if isinstance(one, dict)] if isinstance(keys, list) else []
    return {one["kid"]: one for one in named if isinstance(one.get("kid"), str)}
