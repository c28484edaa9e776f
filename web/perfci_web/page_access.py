"""Which pages a caller may have: asked before any page is made, by its rule alone, whatever its address ends in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import cast

from flask import Flask, Request, Response, current_app, g, render_template, request
from sqlalchemy.orm import Session

from perfci.auth.permissions import SIGN_IN, Actor, Denied, Need, decide, may_see
from perfci.config import Secrets, Settings
from perfci.store import Store
from perfci.store.projects import Project, project, projects
from perfci.store.writes.group_commit import Group
from perfci_web.api.operation import PREFIX
from perfci_web.authentication import routes as login
from perfci_web.authentication.authenticator import Gate, Rules, rules_of
from perfci_web.authentication.csrf import CHANGING
from perfci_web.authentication.github_login import GitHub
from perfci_web.authentication.trusted_proxies import TrustedProxies
from perfci_web.not_found import Missing, Offer, nearest
from perfci_web.page_urls import Links

TRIAGE = ("incidents.change", "incident.change", "incident.merge", "incident.split", "incident.nudge", "incident.undo")

NEEDS: Mapping[str, Need] = MappingProxyType({"login.end": Need.PUBLIC, **dict.fromkeys(TRIAGE, Need.TRIAGE)})
"""What the pages that change something need, by endpoint; to look at a page of a project is READ."""

OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked by machines that look after this one; they tell nothing of any project."""


def install(
    app: Flask,
    store: Store,
    settings: Settings,
    *,
    read_only: bool,
    clock: Callable[[], datetime],
    group: Callable[[], Group],
    secrets: Secrets | None = None,
) -> Gate:
    """Let nobody through to a page of a project he may not see."""
    rules = rules_of(settings, writable=not read_only)
    known = secrets or Secrets()
    by_github = settings.access.mode == "github"
    github = (
        GitHub(settings.access, known.github_client_secret.get_secret_value(), rules.public_url) if by_github else None
    )
    gate = Gate(store, rules, clock, group, github, known.secret_key.get_secret_value())
    app.extensions["perfci_gate"] = gate
    app.wsgi_app = TrustedProxies(app.wsgi_app, rules.trusted, rules.proxy_header)  # type: ignore[method-assign]
    app.jinja_env.globals |= {"csrf_token": lambda: gate.csrf_token(caller()), "known_as": partial(_known_as, rules)}

    @app.before_request
    def admit() -> None:
        if not _is_page(request):
            return
        actor = gate.identify(request)
        name = (request.view_args or {}).get("project")
        need = need_of(request)
        if name is None:
            _require(actor, None, need)
            return
        with store.read() as tx:
            found = project(tx, name)
            if decide(actor, found, Need.READ).status == 404:
                raise no_such_project(tx, name)
        _require(actor, found, need)

    @app.after_request
    def keep_apart(response: Response) -> Response:
        """What one caller was shown is no answer for another one."""
        if _is_page(request):
            response.vary.update(("Cookie", "Authorization"))
            response.headers.setdefault("Cache-Control", "private, no-cache")
        return gate.write_down(response)

    @app.errorhandler(Denied)
    def denied(error: Denied) -> tuple[str, int, dict[str, str]]:
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        return render_template("layout/error.html", title="Not allowed", text=str(error)), error.status, headers

    login.install(app, gate, github, clock)
    return gate


def need_of(request: Request) -> Need:
    """What this page asks of its caller; a page that may change something and says nothing is for admins alone."""
    if (said := NEEDS.get(request.endpoint or "")) is not None:
        return said
    if request.method in CHANGING:
        return Need.ADMIN
    return Need.READ if "project" in (request.view_args or {}) else Need.PUBLIC


def caller() -> Actor:
    """Who asks for the page that is being made."""
    return cast(Gate, current_app.extensions["perfci_gate"]).identify(request)


def _known_as(rules: Rules) -> str | None:
    """How the bar of a page calls who asks: a name, nothing yet where one can log in, None where nobody does."""
    if "actor" in g and g.actor.kind == "user":
        return str(g.actor.shown)
    return "" if rules.mode == "github" else None


def seen_projects(tx: Session) -> Sequence[Project]:
    """The projects that the caller may know of."""
    return [one for one in projects(tx) if may_see(caller(), one)]


def no_such_project(tx: Session, name: str) -> Missing:
    """Refuse a project that is not there, or not for this caller: both in the same words, with those he may see."""
    offers = [Offer(one.slug, Links(one.slug, root=request.script_root).overview) for one in seen_projects(tx)]
    return Missing(f"There is no project {name} in this store.", nearest(name, offers), "Projects here")


def _is_page(request: Request) -> bool:
    """Everything but the API, which asks for itself, and the files that every page is made of."""
    return request.path not in OPEN and not f"{request.path}/".startswith((f"{PREFIX}/", "/static/"))


def _require(actor: Actor, found: Project | None, need: Need) -> None:
    decision = decide(actor, found, need)
    if decision.allowed:
        return
    if decision.status == 404:
        raise Missing(decision.reason)
    raise Denied(401 if decision.status == 401 else 403, decision.reason or SIGN_IN)
