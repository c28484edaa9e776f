"""The pages of the login: choose, begin, come back from GitHub, end."""

from __future__ import annotations

import hmac
import secrets as random_secrets
from datetime import datetime, timedelta

from flask import Blueprint, Response, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessDenied
from perfci.auth.tokens import hash_token
from perfci.store.access import audit_log, logins_and_server_secrets, users_and_roles
from perfci_web.application_context import web_context
from perfci_web.authentication.authenticator import LOGIN_COOKIE, Authenticator
from perfci_web.authentication.github_login_client import (
    STATE_MAX_AGE_S,
    GitHubLogin,
    GitHubLoginError,
    GitHubUser,
)

LOGIN_STATE_COOKIE = "__Host-perfci-login"
LOGIN_MAX_AGE = timedelta(days=7)

TRY_AGAIN = (
    "The answer does not belong to a login that was begun in this browser, or comes too late: begin again."
)


def create_blueprint(*, with_github: bool) -> Blueprint:
    """Build the pages below ``/login``; without GitHub, only the one that explains the access mode."""
    blueprint = Blueprint("authentication", __name__)
    blueprint.add_url_rule("/login", view_func=login_page)
    if with_github:
        blueprint.add_url_rule("/login/github", view_func=begin_login)
        blueprint.add_url_rule("/login/github/callback", view_func=finish_login)
        blueprint.add_url_rule("/login/end", view_func=end_login, methods=["POST"])
    return blueprint


def login_page() -> str:
    authenticator = web_context().authenticator
    return render_template(
        "authentication/login.html",
        mode=authenticator.auth_settings.mode,
        actor=authenticator.identify_caller(request),
        next_path=_next_path(),
    )


def begin_login() -> Response:
    """Send the browser to GitHub; state and PKCE verifier wait in an encrypted cookie."""
    authenticator = web_context().authenticator
    state, verifier = random_secrets.token_urlsafe(24), random_secrets.token_urlsafe(48)
    location = _require_github(authenticator).authorization_url(state, verifier)
    response = Response(status=302, headers={"Location": location})
    cookie = {"state": state, "verifier": verifier, "next": _next_path()}
    encrypted = authenticator.build_encryptor().encrypt(cookie)
    _set_cookie(response, LOGIN_STATE_COOKIE, encrypted, timedelta(seconds=STATE_MAX_AGE_S))
    return response


def finish_login() -> Response:
    """Check the answer of GitHub, store the login and give the browser its cookie."""
    authenticator, now = web_context().authenticator, web_context().clock()
    github = _require_github(authenticator)
    encrypted = request.cookies.get(LOGIN_STATE_COOKIE, "")
    cookie = authenticator.build_encryptor().decrypt(encrypted, STATE_MAX_AGE_S)
    state = request.args.get("state", "")
    if not cookie or not hmac.compare_digest(cookie["state"].encode(), state.encode()):
        raise AccessDenied(403, TRY_AGAIN)
    if "code" not in request.args:
        raise AccessDenied(403, "Access was denied at GitHub; nothing was stored.")
    github_user = _require_allowed_user(github, request.args["code"], cookie["verifier"])
    secret = web_context().group_commit.submit(lambda tx: _create_login(tx, authenticator, github_user, now))
    response = Response(status=302, headers={"Location": f"{request.script_root}{cookie['next']}"})
    _set_cookie(response, LOGIN_COOKIE, secret, LOGIN_MAX_AGE)
    _set_cookie(response, LOGIN_STATE_COOKIE, "", timedelta(0))
    return response


def end_login() -> Response:
    web_context().authenticator.end_login(request)
    response = Response(status=302, headers={"Location": f"{request.script_root}/"})
    _set_cookie(response, LOGIN_COOKIE, "", timedelta(0))
    return response


def _require_github(authenticator: Authenticator) -> GitHubLogin:
    assert authenticator.github is not None  # these rules exist only with a login by GitHub
    return authenticator.github


def _require_allowed_user(github: GitHubLogin, code: str, verifier: str) -> GitHubUser:
    try:
        github_user = github.fetch_user(code, verifier)
        is_allowed = github.is_allowed_user(github_user.access_token)
    except GitHubLoginError as error:
        raise AccessDenied(403, f"{error} Begin again.") from None
    if not is_allowed:
        raise AccessDenied(403, f"{github_user.name} is in none of the organisations this server is for.")
    return github_user


def _create_login(tx: Session, authenticator: Authenticator, github_user: GitHubUser, now: datetime) -> str:
    """Store the user and the hash of a new login secret; return the secret, which goes into the cookie."""
    user = users_and_roles.ensure_user(tx, "github", github_user.user_id, github_user.name, now)
    if user.disabled:
        raise AccessDenied(403, "This account is closed: ask an admin of this server.")
    secret = random_secrets.token_urlsafe(32)
    grant = authenticator.build_encryptor().encrypt(github_user.access_token).encode()
    logins_and_server_secrets.delete_expired_logins(tx, now)
    logins_and_server_secrets.add_login(
        tx, user.id, hash_token(secret), random_secrets.token_urlsafe(24), now, now + LOGIN_MAX_AGE, grant
    )
    audit_log.add_entry(
        tx, user.audit_name, "login.begin", user.external_identity, at=now, detail={"name": user.name}
    )
    return secret


def _next_path() -> str:
    """Return the path to go to after the login; anything but a local path would be an open redirect."""
    path = request.args.get("next", "/")
    is_local = path.startswith("/") and not path.startswith("//") and path.isprintable() and "\\" not in path
    return path if is_local else "/"


def _set_cookie(answer: Response, name: str, value: str, max_age: timedelta) -> None:
    answer.set_cookie(name, value, max_age=max_age, secure=True, httponly=True, samesite="Lax", path="/")
