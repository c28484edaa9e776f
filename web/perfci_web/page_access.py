"""Which pages a caller may have: asked before any page is made, by its rule alone, whatever its address ends in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import cast

from flask import Flask, Request, Response, current_app, g, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import SIGN_IN, AccessDenied, AccessRequirement, Actor, authorize, can_read
from perfci.config import Secrets, Settings
from perfci.store import Store
from perfci.store.projects import Project, find_project, load_projects
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.api.operation import API_PREFIX
from perfci_web.authentication import routes as login
from perfci_web.authentication.authenticator import Authenticator, AuthSettings, build_auth_settings
from perfci_web.authentication.csrf import WRITE_METHODS
from perfci_web.authentication.github_login import GitHubLogin
from perfci_web.authentication.trusted_proxies import TrustedProxies
from perfci_web.not_found import PageNotFound, Suggestion, closest_suggestions
from perfci_web.page_urls import Links

TRIAGE_ENDPOINTS = (
    "incidents.change",
    "incident.change",
    "incident.merge",
    "incident.split",
    "incident.nudge",
    "incident.undo",
)

ENDPOINT_NEEDS: Mapping[str, AccessRequirement] = MappingProxyType(
    {"login.end": AccessRequirement.PUBLIC, **dict.fromkeys(TRIAGE_ENDPOINTS, AccessRequirement.TRIAGE)}
)
"""What the pages that change something need, by endpoint; to look at a page of a project is READ."""

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked by machines that look after this one; they tell nothing of any project."""


def init_app(
    app: Flask,
    store: Store,
    settings: Settings,
    *,
    read_only: bool,
    clock: Callable[[], datetime],
    group_commit: Callable[[], GroupCommitter],
    secrets: Secrets | None = None,
) -> Authenticator:
    """Let nobody through to a page of a project he may not see."""
    rules = build_auth_settings(settings, writable=not read_only)
    known = secrets or Secrets()
    by_github = settings.access.mode == "github"
    github = (
        GitHubLogin(settings.access, known.github_client_secret.get_secret_value(), rules.public_url)
        if by_github
        else None
    )
    gate = Authenticator(store, rules, clock, group_commit, github, known.secret_key.get_secret_value())
    app.extensions["perfci_gate"] = gate
    app.wsgi_app = TrustedProxies(app.wsgi_app, rules.trusted_networks, rules.proxy_header)  # type: ignore[method-assign]
    app.jinja_env.globals |= {
        "csrf_token": lambda: gate.csrf_token(current_actor()),
        "known_as": partial(_user_label, rules),
    }

    @app.before_request
    def check_access() -> None:
        if not is_page_request(request):
            return
        actor = gate.identify(request)
        name = (request.view_args or {}).get("project")
        need = endpoint_need(request)
        if name is None:
            _require_access(actor, None, need)
            return
        with store.read() as tx:
            found = find_project(tx, name)
            if authorize(actor, found, AccessRequirement.READ).status == 404:
                raise project_not_found(tx, name)
        _require_access(actor, found, need)

    @app.after_request
    def set_privacy_headers(response: Response) -> Response:
        """What one caller was shown is no answer for another one."""
        if is_page_request(request):
            response.vary.update(("Cookie", "Authorization"))
            response.headers.setdefault("Cache-Control", "private, no-cache")
        return gate.store_token_use(response)

    @app.errorhandler(AccessDenied)
    def render_denied(error: AccessDenied) -> tuple[str, int, dict[str, str]]:
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        return (
            render_template("layout/error.html", title="Not allowed", text=str(error)),
            error.status,
            headers,
        )

    login.init_app(app, gate, github, clock)
    return gate


def endpoint_need(request: Request) -> AccessRequirement:
    """What this page asks of its caller; a page that may change something and says nothing is for admins alone."""
    if (said := ENDPOINT_NEEDS.get(request.endpoint or "")) is not None:
        return said
    if request.method in WRITE_METHODS:
        return AccessRequirement.ADMIN
    return AccessRequirement.READ if "project" in (request.view_args or {}) else AccessRequirement.PUBLIC


def current_actor() -> Actor:
    """Who asks for the page that is being made."""
    return cast(Authenticator, current_app.extensions["perfci_gate"]).identify(request)


def _user_label(rules: AuthSettings) -> str | None:
    """How the bar of a page calls who asks: a name, nothing yet where one can log in, None where nobody does."""
    if "actor" in g and g.actor.kind == "user":
        return str(g.actor.shown)
    return "" if rules.mode == "github" else None


def list_visible_projects(tx: Session) -> Sequence[Project]:
    """The projects that the caller may know of."""
    return [one for one in load_projects(tx) if can_read(current_actor(), one)]


def project_not_found(tx: Session, slug: str) -> PageNotFound:
    """Refuse a project that is not there, or not for this caller: both in the same words, with those he may see."""
    offers = [
        Suggestion(one.slug, Links(one.slug, root=request.script_root).overview)
        for one in list_visible_projects(tx)
    ]
    return PageNotFound(
        f"There is no project {slug} in this store.", closest_suggestions(slug, offers), "Projects here"
    )


def is_page_request(request: Request) -> bool:
    """Everything but the API, which asks for itself, and the files that every page is made of."""
    return request.path not in PUBLIC_PATHS and not f"{request.path}/".startswith(
        (f"{API_PREFIX}/", "/static/")
    )


def _require_access(actor: Actor, project_record: Project | None, need: AccessRequirement) -> None:
    decision = authorize(actor, project_record, need)
    if decision.allowed:
        return
    if decision.status == 404:
        raise PageNotFound(decision.reason)
    raise AccessDenied(401 if decision.status == 401 else 403, decision.reason or SIGN_IN)
