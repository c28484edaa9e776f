"""Access to pages: decided before a view runs, by the rule of the request alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from flask import Flask, Request, Response, g, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import SIGN_IN, AccessDenied, AccessRequirement, Actor, authorize, can_read
from perfci.store.projects import Project, find_project, load_projects
from perfci_web.api.operation import API_PREFIX
from perfci_web.authentication.authenticator import AuthSettings
from perfci_web.authentication.csrf import READ_METHODS
from perfci_web.authentication.trusted_proxies import TrustedProxies
from perfci_web.not_found import PageNotFound, Suggestion, closest_suggestions
from perfci_web.page_urls import Links
from perfci_web.web_context import WebContext, web_context

TRIAGE_ENDPOINTS = (
    "incidents.change_selected",
    "incidents.change_incident",
    "incidents.merge_other_incidents",
    "incidents.split_incident",
    "incidents.move_incident_boundary",
    "incidents.undo_last_state_change",
)

ENDPOINT_NEEDS: Mapping[str, AccessRequirement] = MappingProxyType(
    {
        "authentication.end_login": AccessRequirement.PUBLIC,
        **dict.fromkeys(TRIAGE_ENDPOINTS, AccessRequirement.TRIAGE),
    }
)
"""The requirements of pages that change something, by endpoint; viewing a project needs READ."""

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Polled by monitoring; they name no project."""


def init_app(app: Flask, context: WebContext) -> None:
    """Check access before each page, and trust forwarded headers of the configured proxies only."""
    authenticator, store = context.authenticator, context.store
    rules = authenticator.auth_settings
    app.wsgi_app = TrustedProxies(app.wsgi_app, rules.trusted_networks, rules.proxy_header)  # type: ignore[method-assign]
    app.jinja_env.globals |= {
        "csrf_token": lambda: authenticator.csrf_token(current_actor()),
        "user_label": partial(_user_label, rules),
    }

    @app.before_request
    def check_access() -> None:
        if not is_page_request(request):
            return
        actor = authenticator.identify(request)
        slug = (request.view_args or {}).get("project")
        need = endpoint_need(request)
        if slug is None:
            _require_access(actor, None, need)
            return
        with store.read() as tx:
            project = find_project(tx, slug)
            if authorize(actor, project, AccessRequirement.READ).status == 404:
                raise project_not_found(tx, slug)
        _require_access(actor, project, need)

    @app.after_request
    def set_privacy_headers(response: Response) -> Response:
        """Keep shared caches from giving one caller's page to another."""
        if is_page_request(request):
            response.vary.update(("Cookie", "Authorization"))
            response.headers.setdefault("Cache-Control", "private, no-cache")
        return authenticator.store_token_use(response)

    @app.errorhandler(AccessDenied)
    def render_denied(error: AccessDenied) -> tuple[str, int, dict[str, str]]:
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        text = render_template("layout/error.html", title="Not allowed", text=str(error))
        return text, error.status, headers


def endpoint_need(request: Request) -> AccessRequirement:
    """Return the requirement of a page; one that changes something and is not listed is for admins."""
    listed = ENDPOINT_NEEDS.get(request.endpoint or "")
    if listed is not None:
        return listed
    if request.method not in READ_METHODS:
        return AccessRequirement.ADMIN
    return AccessRequirement.READ if "project" in (request.view_args or {}) else AccessRequirement.PUBLIC


def current_actor() -> Actor:
    """Return the caller of the current request."""
    return web_context().authenticator.identify(request)


def _user_label(rules: AuthSettings) -> str | None:
    """Return the user's name for the bar of a page, empty before a login, None where there is no login."""
    if "actor" in g and g.actor.kind == "user":
        return str(g.actor.display_name)
    return "" if rules.mode == "github" else None


def list_visible_projects(tx: Session) -> Sequence[Project]:
    """Return the projects that the caller may read."""
    return [project for project in load_projects(tx) if can_read(current_actor(), project)]


def project_not_found(tx: Session, slug: str) -> PageNotFound:
    """Build the 404 of a project that is missing or private: one text for both, with the visible projects."""
    offers = [
        Suggestion(project.slug, Links(project.slug, root=request.script_root).overview)
        for project in list_visible_projects(tx)
    ]
    return PageNotFound(
        f"There is no project {slug} in this store.", closest_suggestions(slug, offers), "Projects here"
    )


def is_page_request(request: Request) -> bool:
    """Whether a request is for a page: not for the API, which checks access itself, and not for a static
    file.
    """
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
