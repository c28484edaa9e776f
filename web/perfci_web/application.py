"""The application factory: builds the WSGI application of one store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from flask import Flask, Request, Response, g, render_template, request
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import BadRequest, HTTPException, NotFound, TooManyRequests

from perfci.auth.permissions import AccessDenied, Actor
from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.project_policies import load_project_policies
from perfci.store import Store
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web import (
    github_webhook,
    health_checks,
    jinja_environment,
    page_access,
    prometheus,
    request_hooks,
    url_lookups,
)
from perfci_web.api import problem_details
from perfci_web.api import routes as api
from perfci_web.api.rate_limit import RateLimiter
from perfci_web.authentication import routes as authentication
from perfci_web.authentication.authenticator import build_authenticator
from perfci_web.benchmarks import routes as benchmarks
from perfci_web.commit_impacts import routes as impact
from perfci_web.commits import routes as commits
from perfci_web.comparisons import routes as comparisons
from perfci_web.false_alarm_calibration import routes as calibration
from perfci_web.incidents import change_routes as incidents
from perfci_web.overview import routes as overview
from perfci_web.series import routes as series
from perfci_web.static_files import register_static_files
from perfci_web.url_converters import CONVERTERS
from perfci_web.url_lookups import PageNotFound
from perfci_web.web_context import EXTENSION_KEY, WebContext


def create_app(
    store: Store,
    *,
    read_only: bool = True,
    loopback_only: bool = False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    settings: Settings | None = None,
    secrets: Secrets | None = None,
    identify: Callable[[Request], Actor] | None = None,
    local_token: str = "",
) -> Flask:
    """Build the dashboard and the API of one store.

    ``loopback_only`` refuses requests that name this server anything but localhost. ``clock`` gives the
    current time, from which ages are computed. ``settings`` hold the limits of the API and the policy of
    projects that have no tables of their own. ``identify`` replaces the authenticator for calls of the API.
    ``local_token`` is what the local user shows in mode "local"; without one everybody is the local user.
    """
    settings, secrets = settings or Settings(), secrets or Secrets()
    app = Flask("perfci_web", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.url_map.strict_slashes = True
    group_commit = GroupCommitter(store)
    authenticator = build_authenticator(
        store,
        settings,
        secrets,
        writable=not read_only,
        clock=clock,
        group_commit=group_commit,
        local_token=local_token,
    )
    load_policies = partial(load_project_policies, settings)
    request_limiter = RateLimiter(settings.server.requests_per_minute)
    context = WebContext(store, clock, load_policies, authenticator, group_commit, request_limiter)
    app.extensions[EXTENSION_KEY] = context
    metrics = prometheus.register_prometheus_metrics(app, store, clock)
    request_hooks.register_request_hooks(
        app,
        context,
        metrics,
        read_only=read_only,
        loopback_only=loopback_only,
        public_url=settings.server.public_url,
    )
    jinja_environment.register_filters_and_globals(app, clock, authenticator)
    health_checks.register_health_checks(app, store, group_commit, read_only=read_only, clock=clock)
    register_static_files(app)
    app.url_map.converters |= CONVERTERS  # before the rules that use them
    app.register_blueprint(authentication.create_blueprint(with_github=authenticator.github is not None))
    for pages in (overview, benchmarks, series, comparisons, commits, calibration, incidents, impact):
        app.register_blueprint(pages.blueprint)
    api.register_api_routes(
        app,
        context,
        identify=identify or authenticator.identify_caller,
        find_administered_repository=authenticator.find_administered_repository,
        settings=settings,
    )
    github_webhook.register_github_webhook(app, group_commit, settings, secrets, clock)
    _register_error_handlers(app, store)
    return app


def _register_error_handlers(app: Flask, store: Store) -> None:
    @app.errorhandler(AccessDenied)
    def render_denied(error: AccessDenied) -> tuple[str, int, dict[str, str]]:
        headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
        title = "Not logged in" if error.status == 401 else "Not allowed"
        text = render_template("layout/error.html", title=title, text=str(error), status=error.status)
        return text, error.status, headers

    @app.errorhandler(PageNotFound)
    def render_not_found(error: PageNotFound) -> tuple[str, int]:
        """Answer 404, with the tabs of the project that the path lies in."""
        page_access.charge_for_missing_page(app.extensions[EXTENSION_KEY])
        project = url_lookups.find_visible_project_of_path(store, request.path)
        links = url_lookups.build_project_links(project) if project else None
        return render_template("layout/not_found.html", error=error, project_name=project, links=links), 404

    @app.errorhandler(NotFound)
    def handle_unknown_path(error: NotFound) -> tuple[str, int] | Response:
        if api.is_api_request(request):
            return api.build_http_error_response(error)
        if request.path.startswith("/static/"):
            return Response(f"{error.description}\n", 404, content_type="text/plain; charset=utf-8")
        return render_not_found(url_lookups.build_unknown_path_error(store, request.path))

    @app.errorhandler(PerfciError)
    def handle_perfci_error(error: PerfciError) -> tuple[str, int] | Response:
        text = store.hide_address(str(error), "behind this dashboard")
        if api.is_api_request(request):
            return problem_details.build_problem_response(
                problem_details.ProblemError("unavailable", text), g.request_id
            )
        return render_template("layout/error.html", title="The store cannot be read", text=text), 503

    @app.errorhandler(HTTPException)
    def handle_http_error(error: HTTPException) -> tuple[str, int] | Response | HTTPException:
        if error.code is None or error.code < 400:
            return error
        if api.is_api_request(request):
            return api.build_http_error_response(error)
        text = error.description or ""
        if error.code in (403, 429):
            headers = {"Retry-After": str(error.retry_after)} if isinstance(error, TooManyRequests) else {}
            return Response(f"{text}\n", error.code, headers, content_type="text/plain; charset=utf-8")
        return render_template("layout/error.html", title=error.name, text=text), error.code

    @app.errorhandler(ParseException)
    def handle_malformed_body(error: ParseException) -> tuple[str, int] | Response | HTTPException:
        """Answer a body whose chunks are none, which shows only as it is read."""
        return handle_http_error(BadRequest("The body is malformed."))
