"""Fetch and cache the public keys (JWKS) of a token issuer."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from perfci.model import PerfciError
from perfci.net.http_client import open_http_client

KEYS_FRESH_FOR_S = 3600.0
KEYS_VALID_FOR_S = 24 * 3600.0
"""How long keys count while nobody can be asked whether they still do."""
MIN_FETCH_INTERVAL_S = 60.0
"""How often at most the issuer is asked, whatever ids of keys strangers make up."""
MIN_FIRST_FETCH_INTERVAL_S = 5.0
"""The same as long as there are no keys at all."""

TIMEOUT_S = 5.0
MAX_BYTES = 256 * 1024
JWKS_PATH = "/.well-known/jwks"

Jwk = Mapping[str, Any]


class IssuerUnavailable(PerfciError):
    """The keys of the issuer cannot be fetched, and no cached ones are young enough."""


class IssuerKeys:
    """The keys of one issuer, for all requests of this process.

    One request at a time asks the issuer, and no other waits for it: an issuer that hangs must not occupy the
    threads of the server. ``timer`` gives seconds that no change of the clock moves.
    """

    def __init__(
        self,
        issuer: str,
        transport: httpx.BaseTransport | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._transport, self._timer = issuer, transport, timer
        self._keys: Mapping[str, Jwk] = {}
        self._fetched_s = self._attempted_s = -math.inf
        self._fetching = threading.Lock()

    def get_key(self, kid: str) -> Jwk | None:
        """Get the key of this id, None if the issuer does not publish it; raises ``IssuerUnavailable``."""
        is_being_fetched = False
        if self._may_fetch(kid):
            is_being_fetched = not self._fetching.acquire(blocking=False)
            if not is_being_fetched:
                try:
                    if self._may_fetch(kid):  # else another request has just asked
                        self._refresh()
                finally:
                    self._fetching.release()
        keys = self._keys
        is_outdated = self._timer() - self._fetched_s >= KEYS_VALID_FOR_S
        if is_outdated or (is_being_fetched and kid not in keys):
            raise IssuerUnavailable(f"{self._issuer} does not tell its keys at this moment: try again.")
        return keys.get(kid)

    def _may_fetch(self, kid: str) -> bool:
        now_s = self._timer()
        if kid in self._keys and now_s - self._fetched_s < KEYS_FRESH_FOR_S:
            return False
        return now_s - self._attempted_s >= (
            MIN_FETCH_INTERVAL_S if self._keys else MIN_FIRST_FETCH_INTERVAL_S
        )

    def _refresh(self) -> None:
        """Take over what the issuer publishes now; what is no list of keys changes nothing."""
        try:
            keys = _parse_keys(_download_keys(self._issuer, self._transport))
        finally:
            # An issuer that fails is not asked any more often; counted from its answer, which may take long.
            self._attempted_s = self._timer()
        if keys:
            self._fetched_s, self._keys = self._attempted_s, keys


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
