"""Authenticate as a GitHub App: sign JWTs, and open clients with short-lived installation tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import httpx
import jwt
from jwt.algorithms import RSAAlgorithm

from perfci.github.client import GITHUB_API_URL, GitHubClient, open_github_client
from perfci.github.errors import GitHubError
from perfci.github.payloads import MintedToken
from perfci.github.pull_report import CommentAuthor
from perfci.github.requester import GitHubRetryPolicy
from perfci.model import PerfciError

JWT_LIFETIME_S = 540
"""GitHub takes no signature for more than ten minutes."""

CLOCK_SKEW_S = 60
"""Clocks differ: https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app"""

MIN_TOKEN_LIFETIME_S = 300
"""A token that ends sooner is replaced: a request may wait for minutes."""

PERMISSIONS: Mapping[str, str] = {
    "actions": "read",
    "checks": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What a token for reading a run and answering on its pull request is made with."""

DISPATCH_PERMISSIONS: Mapping[str, str] = {"actions": "write", "metadata": "read"}
"""What a token is made with that starts or cancels a run of the workflow, and is used for nothing else."""

MERGE_BASE_PERMISSIONS: Mapping[str, str] = {"contents": "read", "metadata": "read"}
"""What a token is made with that asks for the merge base of an order."""


@dataclass(frozen=True, slots=True)
class AppKey:
    """The id and private key of the App; ``repr`` does not show the key."""

    issuer: str
    pem: str = field(repr=False)

    def sign_jwt(self, now: float) -> str:
        claims = {"iat": int(now) - CLOCK_SKEW_S, "exp": int(now) + JWT_LIFETIME_S, "iss": self.issuer}
        try:
            return jwt.encode(claims, _read_private_key(self.pem), algorithm="RS256")
        except (jwt.PyJWTError, ValueError, TypeError):
            raise PerfciError(
                "The private key of the GitHub App is none; expected the PEM file that GitHub gives out, "
                "beginning with -----BEGIN RSA PRIVATE KEY-----."
            ) from None


@lru_cache(maxsize=4)
def _read_private_key(pem: str) -> Any:
    """The key of a PEM text, which OpenSSL checks for 15 ms before a first signature that takes one."""
    return RSAAlgorithm(RSAAlgorithm.SHA256).prepare_key(pem)


class GitHubApp:
    """Clients for the installations of one App; may be used from several threads."""

    def __init__(
        self,
        key: AppKey,
        base_url: str = GITHUB_API_URL,
        *,
        retry_policy: GitHubRetryPolicy | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._now: Callable[[], float] = retry_policy.now if retry_policy else time.time
        self._connect = partial(
            open_github_client, base_url=base_url, retry_policy=retry_policy, transport=transport
        )
        self._app_client = self._connect(lambda: key.sign_jwt(self._now()))
        self._tokens: dict[Any, MintedToken] = {}
        self._lock = threading.Lock()

    def fetch_app_comment_author(self) -> CommentAuthor:
        """The author that comments and checks of this App appear under."""
        app = self._app_client.get_app()
        if not app.slug:
            raise PerfciError(
                f"GitHub tells no short name of App {app.id}, by which its comments would be known."
            )
        return CommentAuthor(f"{app.slug}[bot]", app.id)

    def find_installation(self, repository: str) -> int | None:
        """The id of the installation that covers a repository; None if the App is not installed for it."""
        try:
            return self._app_client.get_installation(repository).id
        except GitHubError as error:
            if error.status != 404:
                raise
            return None

    def open_installation_client(
        self, installation: int, repositories: Sequence[int], permissions: Mapping[str, str] = PERMISSIONS
    ) -> GitHubClient:
        """Open a client with exactly these permissions in these repositories (by id)."""
        if not repositories:
            raise PerfciError("A token of the GitHub App is made for named repositories; none was named.")
        return self._connect(
            lambda: self._installation_token(installation, tuple(sorted(repositories)), permissions)
        )

    def _installation_token(
        self, installation: int, repositories: tuple[int, ...], permissions: Mapping[str, str]
    ) -> str:
        wanted = (installation, repositories, tuple(sorted(permissions.items())))
        with self._lock:
            # Made under the lock: threads that start together share one token.
            held = self._tokens.get(wanted)
            if held is None or held.expires_at.timestamp() - self._now() < MIN_TOKEN_LIFETIME_S:
                held = self._tokens[wanted] = self._app_client.create_installation_token(
                    installation, repositories, permissions
                )
            return held.token
