"""The addresses below ``/login``: begin, come back, end."""

from __future__ import annotations

import hmac
import secrets as dice
from collections.abc import Callable
from datetime import datetime, timedelta

from flask import Flask, Response, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessDenied
from perfci.auth.tokens import hash_token
from perfci.store.access import audit_log, logins, users
from perfci_web.authentication.authenticator import LOGIN_COOKIE, Authenticator
from perfci_web.authentication.github_login import STATE_MAX_AGE_S, GitHubLogin, GitHubLoginError, GitHubUser

LOGIN_STATE_COOKIE = "__Host-perfci-login"
LOGIN_MAX_AGE = timedelta(days=7)

TRY_AGAIN = (
    "The answer does not belong to a login that was begun in this browser, or comes too late: begin again."
)


def init_app(
    app: Flask, authenticator: Authenticator, github: GitHubLogin | None, clock: Callable[[], datetime]
) -> None:
    """Add the pages of the login; without GitHub there is only one that says how one is known here."""

    @app.get("/login")
    def login_page() -> str:
        return render_template(
            "authentication/login.html",
            mode=authenticator.auth_settings.mode,
            actor=authenticator.identify(request),
            next=_next_path(),
        )

    if github is None:
        return

    @app.get("/login/github", endpoint="login.begin")
    def begin_login() -> Response:
        state, verifier = dice.token_urlsafe(24), dice.token_urlsafe(48)
        answer = Response(status=302, headers={"Location": github.authorization_url(state, verifier)})
        asked = authenticator.encryptor().encrypt(
            {"state": state, "verifier": verifier, "next": _next_path()}
        )
        _set_cookie(answer, LOGIN_STATE_COOKIE, asked, timedelta(seconds=STATE_MAX_AGE_S))
        return answer

    @app.get("/login/github/callback", endpoint="login.back")
    def finish_login() -> Response:
        asked = authenticator.encryptor().decrypt(
            request.cookies.get(LOGIN_STATE_COOKIE, ""), STATE_MAX_AGE_S
        )
        if not asked or not hmac.compare_digest(
            asked["state"].encode(), request.args.get("state", "").encode()
        ):
            raise AccessDenied(403, TRY_AGAIN)
        if "code" not in request.args:
            raise AccessDenied(403, "GitHub was told not to let perfci know who you are; nothing was stored.")
        person = _require_allowed_user(github, request.args["code"], asked["verifier"])
        secret = authenticator.submit(lambda tx: _create_login(tx, authenticator, person, clock()))
        answer = Response(status=302, headers={"Location": f"{request.script_root}{asked['next']}"})
        _set_cookie(answer, LOGIN_COOKIE, secret, LOGIN_MAX_AGE)
        _set_cookie(answer, LOGIN_STATE_COOKIE, "", timedelta(0))
        return answer

    @app.post("/login/end", endpoint="login.end")
    def end_login() -> Response:
        authenticator.end_login(request)
        answer = Response(status=302, headers={"Location": f"{request.script_root}/"})
        _set_cookie(answer, LOGIN_COOKIE, "", timedelta(0))
        return answer


def _require_allowed_user(github: GitHubLogin, code: str, verifier: str) -> GitHubUser:
    try:
        person = github.fetch_user(code, verifier)
        belongs = github.is_allowed_user(person.access_token)
    except GitHubLoginError as error:
        raise AccessDenied(403, f"{error} Begin again.") from None
    if not belongs:
        raise AccessDenied(403, f"{person.name} is in none of the organisations this server is for.")
    return person


def _create_login(tx: Session, authenticator: Authenticator, github_user: GitHubUser, now: datetime) -> str:
    """Remember the person and a new secret for the browser, of which only the hash is kept."""
    user = users.ensure_user(tx, "github", github_user.user_id, github_user.name, now)
    if user.disabled:
        raise AccessDenied(403, "This account is closed: ask an admin of this server.")
    secret = dice.token_urlsafe(32)
    grant = authenticator.encryptor().encrypt(github_user.access_token).encode()
    logins.end_expired_logins(tx, now)
    logins.add_login(tx, user.id, hash_token(secret), dice.token_urlsafe(24), now, now + LOGIN_MAX_AGE, grant)
    audit_log.add_entry(tx, user.actor, "login.begin", user.address, at=now, detail={"name": user.name})
    return secret


def _next_path() -> str:
    """The page somebody came from: only a path of ours, for a login must not send people elsewhere."""
    path = request.args.get("next", "/")
    ours = (
        path.startswith("/")
        and not path.startswith(("//", "/\\"))
        and path.isprintable()
        and "\\" not in path
    )
    return path if ours else "/"


def _set_cookie(answer: Response, name: str, value: str, max_age: timedelta) -> None:
    answer.set_cookie(name, value, max_age=max_age, secure=True, httponly=True, samesite="Lax", path="/")
