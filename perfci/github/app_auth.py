"""Ask as a GitHub App: its key signs for minutes, and what that buys is as small and short as GitHub makes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import jwt

from perfci.github.client import HOSTED, Client, connect
from perfci.github.errors import Refused
from perfci.github.pull_report import Author
from perfci.github.requester import Patience
from perfci.github.shapes import MintedToken
from perfci.model import PerfciError

SIGNED_FOR_S = 540
"""GitHub takes no signature for more than ten minutes."""

SKEW_S = 60
"""Clocks differ: https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app"""

FRESH_FOR_S = 300
"""A token that ends sooner is replaced: a request may wait for minutes."""

PERMISSIONS: Mapping[str, str] = {
    "actions": "read",
    "checks": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What a token for reading a run and answering on its pull request is made with."""


@dataclass(frozen=True, slots=True)
class Key:
    """Who the App is (its client id or number) and how it proves that; the key never shows."""

    issuer: str
    pem: str = field(repr=False)

    def signed(self, now: float) -> str:
        claims = {"iat": int(now) - SKEW_S, "exp": int(now) + SIGNED_FOR_S, "iss": self.issuer}
        try:
            return jwt.encode(claims, self.pem, algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError):
            raise PerfciError(
                "The private key of the GitHub App is none; expected the PEM file that GitHub gives out, "
                "beginning with -----BEGIN RSA PRIVATE KEY-----."
            ) from None


class App:
    """Clients for the installations of one App; may be used from several threads."""

    def __init__(
        self,
        key: Key,
        base_url: str = HOSTED,
        *,
        patience: Patience | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._now: Callable[[], float] = patience.now if patience else time.time
        self._connect = partial(connect, base_url=base_url, patience=patience, transport=transport)
        self._itself = self._connect(lambda: key.signed(self._now()))
        self._tokens: dict[Any, MintedToken] = {}
        self._lock = threading.Lock()

    def author(self) -> Author:
        """Under whose name comments and checks of this App appear."""
        found = self._itself.app()
        if not found.slug:
            raise PerfciError(f"GitHub tells no short name of App {found.id}, by which its comments would be known.")
        return Author(f"{found.slug}[bot]", found.id)

    def installation(self, repository: str) -> int | None:
        """The number of the installation that covers a repository; none where nobody installed this App for it."""
        try:
            return self._itself.installation(repository).id
        except Refused as error:
            if error.status != 404:
                raise
            return None

    def client(
        self, installation: int, repositories: Sequence[int], permissions: Mapping[str, str] = PERMISSIONS
    ) -> Client:
        """A client that may do these things in these repositories (by number) and nothing else."""
        if not repositories:
            raise PerfciError("A token of the GitHub App is made for named repositories; none was named.")
        return self._connect(lambda: self._token(installation, tuple(sorted(repositories)), permissions))

    def _token(self, installation: int, repositories: tuple[int, ...], permissions: Mapping[str, str]) -> str:
        wanted = (installation, repositories, tuple(sorted(permissions.items())))
        with self._lock:
            held = self._tokens.get(wanted)
            if held is None or held.expires_at.timestamp() - self._now() < FRESH_FOR_S:
                held = self._tokens[wanted] = self._itself.mint(installation, repositories, permissions)
            return held.token
