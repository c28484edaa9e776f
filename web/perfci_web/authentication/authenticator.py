"""Identification of the caller: bearer token, login cookie, trusted proxy, or the local user.

Browsers attach credentials to requests of foreign pages too, so a change by a browser is also checked for
the page that sent it (cross-site request forgery, CSRF).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import re
import secrets as random_secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal
from urllib.parse import urlsplit

from flask import Request, Response, after_this_request, g
from sqlalchemy.orm import Session

from perfci.auth.encryption import Encryptor
from perfci.auth.job_grants import JobGrant
from perfci.auth.permissions import (
    ANONYMOUS,
    EVERY_PROJECT_ID,
    LOCAL,
    READ_ONLY_LOCAL,
    AccessDenied,
    Actor,
    ProjectRole,
    Scope,
)
from perfci.auth.tokens import JOB_TOKEN_PREFIX, hash_token, hash_token_if_valid
from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.access import (
    api_tokens,
    audit_log,
    ci_job_tokens,
    logins_and_server_secrets,
    users_and_roles,
)
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.authentication.github_login_client import GitHubLogin, GitHubLoginError
from perfci_web.authentication.local_login import LOCAL_LOGIN_NEEDED, LocalLogin

LOGIN_COOKIE = "__Host-perfci"
TOKEN_USE_INTERVAL = timedelta(minutes=1)
"""The last use of a token is stored at most this often, after its request is answered."""

MEMBERSHIP_CHECK_INTERVAL = timedelta(minutes=10)
"""How often the membership of a logged-in user is checked at GitHub."""
MEMBERSHIP_GRACE = timedelta(hours=1)
"""How long a login stays valid while GitHub does not answer."""

QUIET_WAIT_S = 0.5
"""How long a request that only reads waits for what is stored about its caller."""

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

CSRF_FIELD = "csrf"
CSRF_HEADER = "X-CSRF-Token"
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")

FROM_PROXY = "perfci.from_proxy"
"""Environ key: set in a request that came through a trusted proxy."""

PROXY_USER_PATTERN = re.compile(r"[^\s,;\"\x00-\x1f\x7f]{1,200}")
"""A user name in a header. A comma would mean two joined headers, of which one may be forged."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BAD_TOKEN = "The token is not valid: it is unknown, expired or revoked."


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """How this server identifies callers. ``admins`` are admins of every project, as 'github/123'."""

    mode: Literal["local", "open", "github", "proxy"] = "local"
    writable: bool = False
    proxy_header: str = "X-Forwarded-User"
    trusted_networks: tuple[Network, ...] = ()
    public_url: str = ""
    admins: frozenset[str] = frozenset()


def build_authenticator(
    store: Store,
    settings: Settings,
    secrets: Secrets,
    *,
    writable: bool,
    clock: Callable[[], datetime],
    group_commit: GroupCommitter,
    local_token: str = "",
) -> Authenticator:
    """Build the authenticator of a server; ``PerfciError`` where its settings lack something for their
    mode.
    """
    if settings.access.mode == "proxy" and not settings.server.trusted_proxies:
        raise PerfciError(
            "A login by a proxy needs [server] trusted_proxies, whose header counts: see docs/access.md."
        )
    rules = AuthSettings(
        mode=settings.access.mode,
        writable=writable,
        proxy_header=settings.access.proxy_header,
        trusted_networks=tuple(ipaddress.ip_network(network) for network in settings.server.trusted_proxies),
        public_url=settings.server.public_url,
        admins=frozenset(settings.access.admins),
    )
    github = None
    if settings.access.mode == "github":
        client_secret = secrets.github_client_secret.get_secret_value()
        github = GitHubLogin(settings.access, client_secret, rules.public_url)
    secret_key = secrets.secret_key.get_secret_value()
    local_login = LocalLogin(local_token) if local_token else None
    return Authenticator(store, rules, clock, group_commit, github, secret_key, local_login)


class Authenticator:
    """Identifies the caller of a request: by bearer token, login cookie, trusted proxy, or as the local
    user.
    """

    def __init__(
        self,
        store: Store,
        auth_settings: AuthSettings,
        clock: Callable[[], datetime],
        group_commit: GroupCommitter,
        github: GitHubLogin | None = None,
        secret_key: str = "",
        local_login: LocalLogin | None = None,
    ) -> None:
        self.auth_settings = auth_settings
        self._store, self._clock, self._group = store, clock, group_commit
        self.github, self.secret_key = github, secret_key
        self.local_login = local_login
        self._local_actor = LOCAL if auth_settings.writable else READ_ONLY_LOCAL
        self._last_recorded: dict[int, datetime] = {}

    def identify_caller(self, request: Request) -> Actor:
        """Return the caller, once per request; ``AccessDenied`` for invalid credentials or a cross-site
        change.
        """
        actor: Actor
        if "actor" in g:
            actor = g.actor
            return actor
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # A token is used alone: cookies and proxy headers beside it are ignored.
            actor = self._authenticate_token(text.strip())
        else:
            actor = self._authenticate_browser(request)
            if actor.kind != "anonymous" and request.method not in READ_METHODS:
                self._require_own_page(request, actor)
        g.actor = actor
        return actor

    def _authenticate_token(self, text: str) -> Actor:
        if self.auth_settings.mode == "local" and self.local_login and self.local_login.matches_token(text):
            return self._local_actor
        token_hash = hash_token_if_valid(text)
        if token_hash is None:
            raise AccessDenied(401, BAD_TOKEN)
        now = self._clock()
        if text.startswith(JOB_TOKEN_PREFIX):
            return self._authenticate_job_token(token_hash, now)
        with self._store.read() as tx:
            token = api_tokens.find_token_by_hash(tx, token_hash)
        # Compared again in constant time: a database may compare byte by byte.
        if token is None or not hmac.compare_digest(token.secret_hash, token_hash) or not token.is_valid(now):
            raise AccessDenied(401, BAD_TOKEN)
        self._note_token_use(token, now)
        roles = {token.project_id: ProjectRole.ADMIN}
        scopes = frozenset(map(Scope, token.scopes))
        return Actor("token", f"token:{token.uid}", roles, scopes, display_name=token.name)

    def _authenticate_job_token(self, token_hash: str, now: datetime) -> Actor:
        """The token of a CI job may write the results of that job, and read nothing."""
        with self._store.read() as tx:
            token = ci_job_tokens.find_job_token(tx, token_hash)
        if token is None or not hmac.compare_digest(token.secret_hash, token_hash) or now >= token.expires_at:
            raise AccessDenied(401, BAD_TOKEN)
        grant = JobGrant(
            token.run_id, token.attempt, token.sha, token.pull_request, token.baseline, token.event
        )
        roles = {token.project_id: ProjectRole.ADMIN}
        scopes = frozenset({Scope.WRITE})
        return Actor("token", f"token:{token.uid}", roles, scopes, f"run {token.run_id}", grant)

    def _authenticate_browser(self, request: Request) -> Actor:
        if self.auth_settings.mode == "local":
            # Without a secret, as in tests, everybody is the local user.
            if self.local_login and not self.local_login.is_local_user(request):
                raise AccessDenied(401, LOCAL_LOGIN_NEEDED)
            return self._local_actor
        if self.auth_settings.mode == "proxy":
            return self._authenticate_proxy_user(request)
        if self.auth_settings.mode == "github":
            return self._authenticate_login(request.cookies.get(LOGIN_COOKIE, ""))
        return ANONYMOUS

    def _require_own_page(self, request: Request, actor: Actor) -> None:
        """Refuse a change sent by a page of another origin, or by a user without the CSRF token.

        Clients other than browsers send no origin.
        """
        own_origins = {f"{request.scheme}://{request.host}"}
        if self.auth_settings.public_url:
            parts = urlsplit(self.auth_settings.public_url)
            own_origins.add(f"{parts.scheme}://{parts.netloc}".lower())
        site = request.headers.get("Sec-Fetch-Site", "none")
        origin = request.headers.get("Origin")
        if site not in ("same-origin", "none") or (origin is not None and origin not in own_origins):
            raise AccessDenied(
                403, "This change was sent by a page of another origin; only our own pages may."
            )
        if actor.kind != "user":
            return
        token = request.headers.get(CSRF_HEADER, "")
        if not token and request.mimetype in FORM_TYPES:
            token = request.form.get(CSRF_FIELD, "")
        expected = self.csrf_token(actor)
        if not expected or not hmac.compare_digest(token.encode(), expected.encode()):
            raise AccessDenied(
                403, f"The form is too old, or not ours: load the page again (or send {CSRF_HEADER})."
            )

    def _authenticate_proxy_user(self, request: Request) -> Actor:
        """Authenticate by the header of a trusted proxy; without one, the caller is anonymous."""
        header = self.auth_settings.proxy_header
        name = request.headers.get(header, "") if request.environ.get(FROM_PROXY) else ""
        if not name:
            return ANONYMOUS
        if not PROXY_USER_PATTERN.fullmatch(name):
            raise AccessDenied(401, f"The header {header} was expected to hold one name, once.")
        with self._store.read() as tx:
            user = users_and_roles.find_user(tx, "proxy", name)
            roles = users_and_roles.load_roles_by_project(tx, user.id) if user else {}
        if user is None:
            user = users_and_roles.User(0, "proxy", name, name, disabled=False)
        return self._build_user_actor(user, roles)

    def _authenticate_login(self, secret: str) -> Actor:
        """Authenticate by login cookie; an unknown or expired one counts as none."""
        if not secret:
            return ANONYMOUS
        with self._store.read() as tx:
            login = logins_and_server_secrets.find_login(tx, hash_token(secret))
            roles = users_and_roles.load_roles_by_project(tx, login.user.id) if login else {}
        if (
            login is None
            or login.expires_at <= self._clock()
            or login.user.disabled
            or not self._is_still_member(login)
        ):
            return ANONYMOUS
        g.login = login
        return self._build_user_actor(login.user, roles)

    def _is_still_member(self, login: logins_and_server_secrets.Login) -> bool:
        """Check the membership at GitHub again after a while; its answer ends or renews the login."""
        now = self._clock()
        if self.github is None or now - login.checked_at < MEMBERSHIP_CHECK_INTERVAL:
            return True
        is_in_grace = now - login.checked_at < MEMBERSHIP_GRACE
        access_token = str(self.build_encryptor().decrypt(login.grant) or "")
        try:
            is_allowed = self.github.is_allowed_user(access_token, wait=not is_in_grace)
        except GitHubLoginError:
            return is_in_grace
        if is_allowed:
            self._submit_quietly(
                partial(logins_and_server_secrets.record_provider_confirmation, login_id=login.id, at=now)
            )
        else:
            self._submit_quietly(partial(logins_and_server_secrets.end_login, login_id=login.id))
        return is_allowed

    def _build_user_actor(self, user: users_and_roles.User, roles: dict[int, str]) -> Actor:
        if user.disabled:
            raise AccessDenied(403, "This account is closed: ask an admin of this server.")
        project_roles = {project_id: ProjectRole(role) for project_id, role in roles.items()}
        if user.external_identity in self.auth_settings.admins:
            project_roles[EVERY_PROJECT_ID] = ProjectRole.ADMIN
        actor = Actor("user", user.audit_name, project_roles, display_name=user.name)
        return actor if self.auth_settings.writable else replace(actor, scopes=frozenset({Scope.READ}))

    def find_administered_repository(self, slug: str) -> tuple[int, int] | None:
        """Find the numbers of a repository and its owner if the login of this request administers it."""
        if self.github is None or "login" not in g:
            return None
        access_token = str(self.build_encryptor().decrypt(g.login.grant) or "")
        return self.github.find_administered_repository(access_token, slug)

    def csrf_token(self, actor: Actor) -> str:
        """Return the CSRF token of a user: stored with a login, or derived from the name a proxy gave."""
        if "login" in g:
            return str(g.login.csrf)
        if actor.kind != "user":
            return ""
        return hmac.new(self._shared_key("csrf"), actor.name.encode(), hashlib.sha256).hexdigest()

    def build_encryptor(self) -> Encryptor:
        return Encryptor(self.secret_key.encode() or self._shared_key("seal"))

    def end_login(self, request: Request) -> None:
        """Delete the login of this browser."""
        actor = self.identify_caller(request)
        if "login" not in g:
            return
        login: logins_and_server_secrets.Login = g.login
        now = self._clock()

        def delete(tx: Session) -> None:
            logins_and_server_secrets.end_login(tx, login.id)
            audit_log.add_entry(tx, actor.name, "login.end", login.user.external_identity, at=now)

        self._group.submit(delete)

    def _shared_key(self, name: str) -> bytes:
        """Return a key that all processes of this server share; the first use creates it."""
        with self._store.read() as tx:
            key = logins_and_server_secrets.find_server_secret(tx, name)
        now = self._clock()
        return key or self._group.submit(
            lambda tx: logins_and_server_secrets.ensure_server_secret(
                tx, name, lambda: random_secrets.token_bytes(32), now
            )
        )

    def _note_token_use(self, token: api_tokens.Token, now: datetime) -> None:
        """Record the use of a token once the answer is sent, at most once per ``TOKEN_USE_INTERVAL``."""
        last = max(filter(None, (token.last_used_at, self._last_recorded.get(token.id))), default=None)
        if not self.auth_settings.writable or (last is not None and now - last < TOKEN_USE_INTERVAL):
            return
        self._last_recorded[token.id] = now
        record_use = partial(api_tokens.record_token_use, token_id=token.id, at=now)

        @after_this_request
        def record_when_sent(response: Response) -> Response:
            response.call_on_close(lambda: self._submit_quietly(record_use))
            return response

    def _submit_quietly(self, job: Callable[[Session], None]) -> None:
        """Store what a reader causes, unless the database is locked: reading has to go on."""
        with contextlib.suppress(PerfciError):
            self._group.submit(job, max_wait_s=QUIET_WAIT_S)
