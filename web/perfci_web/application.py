"""The application factory: a store goes in, a WSGI application comes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from flask import Flask, Request, Response, render_template, request
from werkzeug.exceptions import HTTPException, NotFound

from perfci.auth.permissions import Actor
from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.policies import load_project_policies
from perfci.store import Store
from perfci_web import (
    github_webhook,
    health_checks,
    lookups,
    page_access,
    prometheus,
    request_id,
    request_log,
    template_helpers,
    url_converters,
)
from perfci_web.api import routes as api
from perfci_web.benchmarks import routes as benchmark_routes
from perfci_web.calibration import routes as calibration_routes
from perfci_web.comparisons import routes as comparison_routes
from perfci_web.impact import routes as ledger_routes
from perfci_web.incidents import routes as incident_routes
from perfci_web.middleware import register_middleware
from perfci_web.not_found import PageNotFound
from perfci_web.overview import routes as overview_routes
from perfci_web.series import routes as series_routes
from perfci_web.static_files import register_assets


def create_app(
    store: Store,
    *,
    read_only: bool = True,
    loopback_only: bool = False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    settings: Settings | None = None,
    secrets: Secrets | None = None,
    identify: Callable[[Request], Actor] | None = None,
) -> Flask:
    """Build the dashboard and the API of one store.

    ``loopback_only`` refuses requests that name this server anything but localhost; ``clock`` tells how old data is.
    ``settings`` hold the limits of the API, and by what projects are judged that have no tables of their own;
    ``identify`` tells who asks, where it is not simply whoever sits at this machine.
    """
    settings = settings or Settings()
    app = Flask("perfci_web", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.url_map.strict_slashes = True
    request_id.init_app(app)
    request_log.init_app(app)
    prometheus.init_app(app, store, clock)
    template_helpers.init_app(app, clock)
    register_middleware(
        app,
        read_only=read_only,
        loopback_only=loopback_only,
        public_url=settings.server.public_url,
    )
    gate = page_access.init_app(
        app,
        store,
        settings,
        read_only=read_only,
        clock=clock,
        group_commit=lambda: app.extensions["perfci_api"].group(),
        secrets=secrets,
    )
    health_checks.init_app(app, store, read_only=read_only, clock=clock)
    register_assets(app)
    _register_pages(app, store, clock, settings)
    api.init_app(
        app,
        store,
        identify=identify or gate.identify,
        clock=clock,
        settings=settings,
    )
    github_webhook.init_app(
        app, lambda: app.extensions["perfci_api"].group(), settings, secrets or Secrets(), clock
    )
    _register_error_handlers(app, store)
    return app


def _register_pages(app: Flask, store: Store, clock: Callable[[], datetime], settings: Settings) -> None:
    by = partial(load_project_policies, settings)
    url_converters.init_app(app)
    overview_routes.init_app(app, store, by)
    benchmark_routes.init_app(app, store, clock)
    series_routes.init_app(app, store, clock)
    comparison_routes.init_app(app, store, by)
    calibration_routes.init_app(app, store, clock, by)
    incident_routes.init_app(app, store, clock, by)
    ledger_routes.init_app(app, store)


def _register_error_handlers(app: Flask, store: Store) -> None:
    @app.errorhandler(PageNotFound)
    def render_not_found(error: PageNotFound) -> tuple[str, int]:
        """Whoever lost his way in a project keeps its tabs."""
        around = lookups.visible_project_of_path(store, request.path)
        links = lookups.project_links(around) if around else None
        return render_template("layout/not_found.html", error=error, project_name=around, links=links), 404

    @app.errorhandler(NotFound)
    def handle_unknown_path(error: NotFound) -> tuple[str, int] | Response:
        if api.is_api_request(request):
            return api.http_error_response(error)
        if request.path.startswith("/static/"):
            return Response(f"{error.description}\n", 404, content_type="text/plain; charset=utf-8")
        return render_not_found(lookups.page_not_found(store, request.path))

    @app.errorhandler(PerfciError)
    def handle_perfci_error(error: PerfciError) -> tuple[str, int] | Response:
        """A database's address may hold a password, and is no reader's business anyway."""
        text = str(error).replace(store.url, "behind this dashboard")
        if api.is_api_request(request):
            return api.error_response("unavailable", text)
        return render_template("layout/error.html", title="The store cannot be read", text=text), 503

    @app.errorhandler(HTTPException)
    def handle_http_error(error: HTTPException) -> tuple[str, int] | Response | HTTPException:
        if error.code is None or error.code < 400:
            return error
        if api.is_api_request(request):
            return api.http_error_response(error)
        if error.code == 403:
            return Response(f"{error.description}\n", error.code, content_type="text/plain; charset=utf-8")
        return render_template(
            "layout/error.html", title=error.name, text=error.description or ""
        ), error.code
