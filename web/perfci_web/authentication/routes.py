"""The addresses below ``/login``: begin, come back, end."""

from __future__ import annotations

import hmac
import secrets as dice
from collections.abc import Callable
from datetime import datetime, timedelta

from flask import Flask, Response, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import Denied
from perfci.auth.tokens import hash_of
from perfci.store.access import audit_log, logins, users
from perfci_web.authentication.authenticator import COOKIE, Gate
from perfci_web.authentication.github_login import STATE_LIVES_S, GitHub, Person, Unanswered

ASKING = "__Host-perfci-login"
LOGIN_LIVES = timedelta(days=7)

TRY_AGAIN = "The answer does not belong to a login that was begun in this browser, or comes too late: begin again."


def install(app: Flask, gate: Gate, github: GitHub | None, clock: Callable[[], datetime]) -> None:
    """Add the pages of the login; without GitHub there is only one that says how one is known here."""

    @app.get("/login")
    def login() -> str:
        return render_template(
            "authentication/login.html", mode=gate.rules.mode, actor=gate.identify(request), next=_next()
        )

    if github is None:
        return

    @app.get("/login/github", endpoint="login.begin")
    def begin() -> Response:
        state, verifier = dice.token_urlsafe(24), dice.token_urlsafe(48)
        answer = Response(status=302, headers={"Location": github.question(state, verifier)})
        asked = gate.seal().closed({"state": state, "verifier": verifier, "next": _next()})
        _set_cookie(answer, ASKING, asked, timedelta(seconds=STATE_LIVES_S))
        return answer

    @app.get("/login/github/callback", endpoint="login.back")
    def back() -> Response:
        asked = gate.seal().opened(request.cookies.get(ASKING, ""), STATE_LIVES_S)
        if not asked or not hmac.compare_digest(asked["state"].encode(), request.args.get("state", "").encode()):
            raise Denied(403, TRY_AGAIN)
        if "code" not in request.args:
            raise Denied(403, "GitHub was told not to let perfci know who you are; nothing was stored.")
        person = _person(github, request.args["code"], asked["verifier"])
        secret = gate.submit(lambda tx: _begin_login(tx, gate, person, clock()))
        answer = Response(status=302, headers={"Location": f"{request.script_root}{asked['next']}"})
        _set_cookie(answer, COOKIE, secret, LOGIN_LIVES)
        _set_cookie(answer, ASKING, "", timedelta(0))
        return answer

    @app.post("/login/end", endpoint="login.end")
    def end() -> Response:
        gate.end_login(request)
        answer = Response(status=302, headers={"Location": f"{request.script_root}/"})
        _set_cookie(answer, COOKIE, "", timedelta(0))
        return answer


def _person(github: GitHub, code: str, verifier: str) -> Person:
    try:
        person = github.person(code, verifier)
        belongs = github.belongs(person.grant)
    except Unanswered as error:
        raise Denied(403, f"{error} Begin again.") from None
    if not belongs:
        raise Denied(403, f"{person.name} is in none of the organisations this server is for.")
    return person


def _begin_login(tx: Session, gate: Gate, person: Person, now: datetime) -> str:
    """Remember the person and a new secret for the browser, of which only the hash is kept."""
    user = users.ensure_user(tx, "github", person.number, person.name, now)
    if user.disabled:
        raise Denied(403, "This account is closed: ask an admin of this server.")
    secret = dice.token_urlsafe(32)
    grant = gate.seal().closed(person.grant).encode()
    logins.end_expired_logins(tx, now)
    logins.add_login(tx, user.id, hash_of(secret), dice.token_urlsafe(24), now, now + LOGIN_LIVES, grant)
    audit_log.record(tx, user.actor, "login.begin", user.address, at=now, detail={"name": user.name})
    return secret


def _next() -> str:
    """The page somebody came from: only a path of ours, for a login must not send people elsewhere."""
    path = request.args.get("next", "/")
    ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if ours else "/"


def _set_cookie(answer: Response, name: str, value: str, lives: timedelta) -> None:
    answer.set_cookie(name, value, max_age=lives, secure=True, httponly=True, samesite="Lax", path="/")
