"""Requests to GitHub of a login: OAuth with state and PKCE, and the smallest scope that works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from perfci.config import AccessTable
from perfci.model import PerfciError
from perfci.net.http_client import load_trusted_authorities

if TYPE_CHECKING:
    from authlib.integrations.httpx_client import OAuth2Client

TIMEOUT_S = 10.0
STATE_MAX_AGE_S = 600
"""How long a user may take to confirm at GitHub."""

RETRY_AFTER_FAILURE_S = 60.0
"""Seconds in which GitHub is not asked again about members after it did not answer."""


class GitHubLoginError(PerfciError):
    """GitHub did not answer, or not as its documentation says."""


MAX_LOGINS_AT_ONCE = 2
"""Users of whom a process asks GitHub at once: each occupies a thread."""


@dataclass(frozen=True, slots=True)
class GitHubUser:
    """A user of GitHub; the access token allows checking the membership again later."""

    user_id: str
    name: str
    access_token: str = field(repr=False)


class GitHubLogin:
    """The requests to GitHub about a user who logs in."""

    def __init__(self, access: AccessTable, client_secret: str, public_url: str) -> None:
        missing = [
            name
            for name, value in (
                ("[access] github_client_id", access.github_client_id),
                ("PERFCI_GITHUB_CLIENT_SECRET", client_secret),
                ("[server] public_url", public_url),
            )
            if not value
        ]
        if missing:
            raise PerfciError(f"A login by GitHub needs {' and '.join(missing)}: see docs/access.md.")
        self._host = access.github_host
        self._api = "https://api.github.com" if self._host == "https://github.com" else f"{self._host}/api/v3"
        self._orgs = access.github_orgs
        self._client_id, self._client_secret = access.github_client_id, client_secret
        self._callback = f"{public_url}/login/github/callback"
        self._membership_check = threading.Lock()
        self._logins = threading.BoundedSemaphore(MAX_LOGINS_AT_ONCE)
        self._retry_at = 0.0

    def authorization_url(self, state: str, verifier: str) -> str:
        """Return the address at GitHub that the browser is sent to."""
        with self._client() as client:
            address, _ = client.create_authorization_url(
                f"{self._host}/login/oauth/authorize", state=state, code_verifier=verifier
            )
        return str(address)

    def fetch_user(self, code: str, verifier: str) -> GitHubUser:
        """Exchange the code of a finished authorization for the user; of few at once, as GitHub may hang."""
        if not self._logins.acquire(blocking=False):
            raise GitHubLoginError("Others are logging in, and GitHub takes long to answer.")
        try:
            return self._fetch_user(code, verifier)
        finally:
            self._logins.release()

    def _fetch_user(self, code: str, verifier: str) -> GitHubUser:
        with self._client() as client:
            token = self._call_github(
                lambda: client.fetch_token(
                    f"{self._host}/login/oauth/access_token", code=code, code_verifier=verifier
                )
            )
            access_token = str(token.get("access_token", ""))
            user = self._fetch_json(client, "/user")
        user_id, name = user.get("id"), user.get("login")
        if not isinstance(user_id, int) or not isinstance(name, str):
            raise GitHubLoginError("GitHub returned no user.")
        return GitHubUser(str(user_id), name, access_token)

    def is_allowed_user(self, access_token: str, *, wait: bool = True) -> bool:
        """Whether the user still exists, and is in one of the configured organisations if there are any.

        One thread asks at a time, and nobody for a minute after a failure: else a GitHub that hangs would
        occupy every thread of the server. Without ``wait``, a check while another one runs fails at once.
        """
        if not self._membership_check.acquire(blocking=wait):
            raise GitHubLoginError("Another check of a member is running.")
        try:
            if time.monotonic() < self._retry_at:
                raise GitHubLoginError("GitHub did not answer a moment ago.")
            with self._client(token={"access_token": access_token, "token_type": "bearer"}) as client:
                if not self._orgs:
                    return bool(self._fetch_json(client, "/user"))
                return any(self._is_active_member(client, org) for org in self._orgs)
        except GitHubLoginError:
            self._retry_at = max(self._retry_at, time.monotonic() + RETRY_AFTER_FAILURE_S)
            raise
        finally:
            self._membership_check.release()

    def _is_active_member(self, client: OAuth2Client, org: str) -> bool:
        path = f"/user/memberships/orgs/{quote(org, safe='')}"
        return self._fetch_json(client, path).get("state") == "active"

    def find_administered_repository(self, access_token: str, slug: str) -> tuple[int, int] | None:
        """Find the numbers of a repository and its owner if the user administers it and may be seen to.

        https://docs.github.com/rest/repos/repos#get-a-repository; without a scope, private ones are unseen.
        """
        path = "/repos/" + "/".join(quote(part, safe="") for part in slug.split("/"))
        with self._client(token={"access_token": access_token, "token_type": "bearer"}) as client:
            repository = self._fetch_json(client, path)
        permissions, owner = repository.get("permissions"), repository.get("owner")
        if not isinstance(permissions, dict) or permissions.get("admin") is not True:
            return None
        repository_id, owner_id = repository.get("id"), owner.get("id") if isinstance(owner, dict) else None
        if not isinstance(repository_id, int) or not isinstance(owner_id, int):
            return None
        return repository_id, owner_id

    def _client(self, **options: Any) -> OAuth2Client:
        from authlib.integrations.httpx_client import OAuth2Client  # with the extra "login" only

        return OAuth2Client(
            client_id=self._client_id,
            client_secret=self._client_secret,
            scope="read:org" if self._orgs else "",
            redirect_uri=self._callback,
            code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_post",
            timeout=TIMEOUT_S,
            verify=load_trusted_authorities(),
            **options,
        )

    def _fetch_json(self, client: OAuth2Client, path: str) -> dict[str, Any]:
        """Fetch a JSON object; empty where GitHub denies it. Raise where GitHub has a problem."""
        headers = {"Accept": "application/json"}
        response = self._call_github(lambda: client.get(f"{self._api}{path}", headers=headers))
        if response.status_code >= 500 or response.status_code == 429:
            raise GitHubLoginError(f"GitHub answered {response.status_code}.")
        document = self._call_github(response.json) if response.status_code == 200 else {}
        return document if isinstance(document, dict) else {}

    def _call_github(self, send: Callable[[], Any]) -> Any:
        """Convert every failure of a request to one error, without what was sent."""
        try:
            return send()
        except Exception as error:
            # Of Authlib, or of the HTTP client below it, which Authlib chooses among those installed.
            raise GitHubLoginError(f"GitHub refused or did not answer ({type(error).__name__}).") from None
