"""Fetch and cache the public keys (JWKS) of a token issuer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from perfci.model import PerfciError
from perfci.net.http_client import open_http_client

KEYS_FRESH_FOR = timedelta(hours=1)
KEYS_VALID_FOR = timedelta(hours=24)
"""How long keys count while nobody can be asked whether they still do."""
MIN_FETCH_INTERVAL = timedelta(seconds=60)
"""How often at most the issuer is asked, whatever ids of keys strangers make up."""
MIN_FIRST_FETCH_INTERVAL = timedelta(seconds=5)
"""The same as long as there are no keys at all."""

TIMEOUT_S = 5.0
MAX_BYTES = 256 * 1024
JWKS_PATH = "/.well-known/jwks"
NEVER = datetime.min.replace(tzinfo=UTC)

Jwk = Mapping[str, Any]


class IssuerUnavailable(PerfciError):
    """The keys of the issuer cannot be fetched, and no cached ones are young enough."""


class IssuerKeys:
    """The keys of one issuer, for all requests of this process."""

    def __init__(
        self, issuer: str, clock: Callable[[], datetime], transport: httpx.BaseTransport | None = None
    ) -> None:
        self._issuer, self._clock, self._transport = issuer, clock, transport
        self._keys: Mapping[str, Jwk] = {}
        self._fetched_at = self._attempted_at = NEVER
        self._lock = threading.Lock()

    def get_key(self, kid: str) -> Jwk | None:
        """Get the key of this id, None if the issuer does not publish it; raises ``IssuerUnavailable``."""
        with self._lock:
            # Asked under the lock: of many requests with an unknown key, one asks and the others read on.
            now = self._clock()
            if (kid not in self._keys or now - self._fetched_at >= KEYS_FRESH_FOR) and self._may_fetch(now):
                self._refresh(now)
            if now - self._fetched_at >= KEYS_VALID_FOR:
                raise IssuerUnavailable(f"{self._issuer} does not tell its keys at this moment: try again.")
            return self._keys.get(kid)

    def _may_fetch(self, now: datetime) -> bool:
        return now - self._attempted_at >= (MIN_FETCH_INTERVAL if self._keys else MIN_FIRST_FETCH_INTERVAL)

    def _refresh(self, now: datetime) -> None:
        """Take over what the issuer publishes now; what is no list of keys changes nothing."""
        # Noted before the answer: an issuer that fails is not asked any more often.
        self._attempted_at = now
        keys = _parse_keys(_download_keys(self._issuer, self._transport))
        if keys:
            self._keys, self._fetched_at = keys, now


def _download_keys(issuer: str, transport: httpx.BaseTransport | None) -> bytes:
    """The answer of the one address there is; nothing where it fails, is elsewhere, or is longer than keys
    are.
    """
    body = b""
    try:
        with (
            open_http_client(issuer, timeout_s=TIMEOUT_S, transport=transport) as client,
            # Uncompressed: MAX_BYTES has to bound what is parsed as well.
            client.stream("GET", issuer + JWKS_PATH, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status_code != 200:
                return b""
            for piece in answer.iter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    return b""
    except httpx.HTTPError:
        return b""
    return body


def _parse_keys(body: bytes) -> dict[str, Jwk]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    keys = document.get("keys") if isinstance(document, dict) else None
    named = [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
    return {key["kid"]: key for key in named if isinstance(key.get("kid"), str)}
