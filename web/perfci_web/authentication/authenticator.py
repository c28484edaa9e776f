"""Who asks: a bearer token, a login, a name from a trusted proxy, or the one at this machine."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeVar

from flask import Request, Response, g
from sqlalchemy.orm import Session

from perfci.auth.grants import Grant
from perfci.auth.permissions import ANONYMOUS, EVERYWHERE, LOCAL, LOOKER, Actor, Denied, Role, Scope
from perfci.auth.tokens import OF_A_JOB, checked, hash_of
from perfci.config import Settings
from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.access import api_tokens, audit_log, github_bindings, logins, users
from perfci.store.writes.group_commit import Group
from perfci_web.authentication import csrf
from perfci_web.authentication.github_login import GitHub, Seal, Unanswered
from perfci_web.authentication.trusted_proxies import PASSED_ON, Network, user_told

COOKIE = "__Host-perfci"
NOTED_EVERY = timedelta(minutes=1)
"""How often at most the last use of a token is written down, and never before its request is answered."""

CHECKED_EVERY = timedelta(minutes=10)
"""How often GitHub is asked whether somebody still belongs here."""
UNCHECKED_FOR = timedelta(hours=1)
"""How long a login stays good while GitHub does not answer."""

T = TypeVar("T")

BAD_TOKEN = "The token is not valid: it is unknown, expired or revoked."
BEHIND_A_PROXY = (
    "This server takes requests of this machine only, and this one came through a proxy: set [access] mode in "
    "perfci.toml to let others in."
)


@dataclass(frozen=True, slots=True)
class Rules:
    """How this server tells who asks. ``admins`` are people who are admins of everything, as 'github/123'."""

    mode: Literal["local", "open", "github", "proxy"] = "local"
    writable: bool = False
    proxy_header: str = "X-Forwarded-User"
    trusted: tuple[Network, ...] = ()
    public_url: str = ""
    admins: frozenset[str] = frozenset()


def rules_of(settings: Settings, *, writable: bool) -> Rules:
    """The rules of a server's settings; ``PerfciError`` where nobody could log in by them."""
    if settings.access.mode == "proxy" and not settings.server.trusted_proxies:
        raise PerfciError("A login by a proxy needs [server] trusted_proxies, whose header counts: see docs/access.md.")
    return Rules(
        mode=settings.access.mode,
        writable=writable,
        proxy_header=settings.access.proxy_header,
        trusted=tuple(ipaddress.ip_network(one) for one in settings.server.trusted_proxies),
        public_url=settings.server.public_url,
        admins=frozenset(settings.access.admins),
    )


class Gate:
    """Tells who asks, once for each request."""

    def __init__(
        self,
        store: Store,
        rules: Rules,
        clock: Callable[[], datetime],
        group: Callable[[], Group],
        github: GitHub | None = None,
        secret_key: str = "",
    ) -> None:
        self.rules = rules
        self._store, self._clock, self._group = store, clock, group
        self._github, self._secret_key = github, secret_key
        self._noted: dict[int, datetime] = {}

    def identify(self, request: Request) -> Actor:
        """Who asks; raises ``Denied`` for what proves nothing, and for a change that a foreign page sent."""
        if "actor" not in g:
            g.actor = self._identified(request)
        found: Actor = g.actor
        return found

    def _identified(self, request: Request) -> Actor:
        """A bearer token counts alone: nothing that a browser sends by itself is looked at beside it."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._of_token(text.strip())
        actor = self._of_browser(request)
        if actor.kind != "anonymous" and request.method in csrf.CHANGING:
            csrf.require_own_page(request, self.rules.public_url)
            if actor.kind == "user":
                csrf.require_token(request, self.csrf_token(actor))
        return actor

    def _of_token(self, text: str) -> Actor:
        wanted = checked(text)
        if wanted is None:
            raise Denied(401, BAD_TOKEN)
        now = self._clock()
        if text.startswith(OF_A_JOB):
            return self._of_job(wanted, now)
        with self._store.read() as tx:
            found = api_tokens.token_of_hash(tx, wanted)
        if found is None or not hmac.compare_digest(found.secret_hash, wanted) or not found.is_valid(now):
            raise Denied(401, BAD_TOKEN)
        self._note(found, now)
        scopes = frozenset(Scope(one) for one in found.scopes)
        return Actor("token", f"token:{found.uid}", {found.project_id: Role.ADMIN}, scopes, shown=found.name)

    def _of_job(self, wanted: str, now: datetime) -> Actor:
        """The token of one job writes what that job measured, and reads nothing."""
        with self._store.read() as tx:
            found = github_bindings.run_token_of_hash(tx, wanted)
        if found is None or not hmac.compare_digest(found.secret_hash, wanted) or now >= found.expires_at:
            raise Denied(401, BAD_TOKEN)
        grant = Grant(found.run_id, found.attempt, found.sha, found.pull_request, found.baseline, found.event)
        held = {found.project_id: Role.ADMIN}
        return Actor("token", f"token:{found.uid}", held, frozenset({Scope.WRITE}), f"run {found.run_id}", grant)

    def _of_browser(self, request: Request) -> Actor:
        if self.rules.mode == "local":
            if request.environ.get(PASSED_ON):
                raise Denied(403, BEHIND_A_PROXY)
            return LOCAL if self.rules.writable else LOOKER
        if self.rules.mode == "proxy":
            name = user_told(request, self.rules.proxy_header)
            return self._of_proxy_user(name) if name else ANONYMOUS
        if self.rules.mode == "github":
            return self._of_login(request.cookies.get(COOKIE, ""))
        return ANONYMOUS

    def _of_proxy_user(self, name: str) -> Actor:
        with self._store.read() as tx:
            user = users.find_user(tx, "proxy", name)
            roles = users.roles_of(tx, user.id) if user else {}
        if user is None:
            user = users.User(0, "proxy", name, name, disabled=False)
        return self._person(user, roles)

    def _of_login(self, secret: str) -> Actor:
        """A cookie that is not known, or not any more, is no cookie: one sees what everybody sees, and may log in."""
        if not secret:
            return ANONYMOUS
        with self._store.read() as tx:
            login = logins.login_of_hash(tx, hash_of(secret))
            roles = users.roles_of(tx, login.user.id) if login else {}
        if login is None or login.expires_at <= self._clock() or login.user.disabled or not self._still_known(login):
            return ANONYMOUS
        g.login = login
        return self._person(login.user, roles)

    def _still_known(self, login: logins.Login) -> bool:
        """Ask GitHub again now and then: who left an organisation is out within minutes, even where GitHub is down."""
        now = self._clock()
        if self._github is None or now - login.checked_at < CHECKED_EVERY:
            return True
        try:
            belongs = self._github.belongs(str(self.seal().opened(login.grant) or ""))
        except Unanswered:
            return now - login.checked_at < UNCHECKED_FOR
        if belongs:
            self._submitted(partial(logins.login_was_checked, login_id=login.id, at=now))
        else:
            self._submitted(partial(logins.end_login, login_id=login.id))
        return belongs

    def _person(self, user: users.User, roles: dict[int, str]) -> Actor:
        if user.disabled:
            raise Denied(403, "This account is closed: ask an admin of this server.")
        held = {place: Role(role) for place, role in roles.items()}
        if user.address in self.rules.admins:
            held[EVERYWHERE] = Role.ADMIN
        actor = Actor("user", user.actor, held, shown=user.name)
        return actor if self.rules.writable else replace(actor, scopes=frozenset({Scope.READ}))

    def csrf_token(self, actor: Actor) -> str:
        """The secret of a person's forms: of his login, or where a proxy logs in, of his name and a key of ours."""
        if "login" in g:
            return str(g.login.csrf)
        if actor.kind != "user":
            return ""
        return hmac.new(self._key("csrf"), actor.name.encode(), hashlib.sha256).hexdigest()

    def seal(self) -> Seal:
        return Seal(self._secret_key.encode() or self._key("seal"))

    def submit(self, job: Callable[[Session], T]) -> T:
        """Store something now, through the one writer of this process."""
        return self._group().submit(job)

    def end_login(self, request: Request) -> None:
        """Forget the login of this browser; its cookie is worth nothing afterwards."""
        actor = self.identify(request)
        if "login" in g:
            login: logins.Login = g.login
            self.submit(lambda tx: _end(tx, login, actor, self._clock()))

    def _key(self, name: str) -> bytes:
        """A key that all processes of this server share; whoever needs it first makes it."""
        with self._store.read() as tx:
            known = logins.secret(tx, name)
        now = self._clock()
        return known or self.submit(lambda tx: logins.ensure_secret(tx, name, lambda: secrets.token_bytes(32), now))

    def _note(self, token: api_tokens.Token, now: datetime) -> None:
        """Remember to write down that a token was used; nobody waits for it, and it may be lost."""
        last = max(filter(None, (token.last_used_at, self._noted.get(token.id))), default=None)
        if self.rules.writable and (last is None or now - last >= NOTED_EVERY):
            self._noted[token.id] = now
            g.used = partial(api_tokens.token_was_used, token_id=token.id, at=now)

    def write_down(self, response: Response) -> Response:
        """Store what this request leaves behind, once its answer is sent."""
        if (used := g.pop("used", None)) is not None:
            response.call_on_close(lambda: self._submitted(used))
        return response

    def _submitted(self, job: Callable[[Session], None]) -> None:
        with contextlib.suppress(PerfciError):
            self._group().submit(job)


def _end(tx: Session, login: logins.Login, actor: Actor, now: datetime) -> None:
    logins.end_login(tx, login.id)
    audit_log.record(tx, actor.name, "login.end", login.user.address, at=now)
