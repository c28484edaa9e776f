"""The application factory: builds the WSGI application of one store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from flask import Flask, Request

from perfci.auth.permissions import Actor
from perfci.config import Secrets, Settings
from perfci.project_policies import build_project_policies
from perfci.store import Store
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web import (
    error_responses,
    github_webhook,
    health_checks,
    jinja_environment,
    prometheus,
    request_hooks,
)
from perfci_web.api import routes as api
from perfci_web.api.rate_limit import RateLimiter
from perfci_web.application_context import EXTENSION_KEY, WebContext
from perfci_web.authentication import routes as authentication
from perfci_web.authentication.authenticator import build_authenticator
from perfci_web.benchmarks import routes as benchmarks
from perfci_web.changes import routes as changes
from perfci_web.chart_notes import routes as chart_notes
from perfci_web.commits import routes as commits
from perfci_web.comparisons import routes as comparisons
from perfci_web.disagreements import routes as disagreements
from perfci_web.embeds import routes as embeds
from perfci_web.environments import routes as environments
from perfci_web.fleet import routes as fleet
from perfci_web.graphs import routes as graphs
from perfci_web.incidents import change_routes as incidents
from perfci_web.invalid_marks import routes as invalid_marks
from perfci_web.matrix import routes as matrix
from perfci_web.measurement_orders import routes as measurement_orders
from perfci_web.noise import routes as noise
from perfci_web.overview import routes as overview
from perfci_web.points import routes as points
from perfci_web.pull_requests import routes as pull_requests
from perfci_web.renames import routes as renames
from perfci_web.runs import routes as runs
from perfci_web.search import routes as search
from perfci_web.series import routes as series
from perfci_web.settings import routes as settings_pages
from perfci_web.settings import threshold_dry_run
from perfci_web.short_links import routes as short_links
from perfci_web.static_files import register_static_files
from perfci_web.unresolved_results import routes as unresolved_results
from perfci_web.url_converters import CONVERTERS
from perfci_web.variants import routes as variants
from perfci_web.waterfalls import routes as waterfalls
from perfci_web.weeks import routes as weeks

PAGE_MODULES = (
    overview,
    benchmarks,
    series,
    points,
    graphs,
    waterfalls,
    comparisons,
    pull_requests,
    commits,
    runs,
    noise,
    incidents,
    changes,
    weeks,
    search,
    unresolved_results,
    matrix,
    variants,
    disagreements,
    fleet,
    environments,
    settings_pages,
    threshold_dry_run,
    measurement_orders,
    renames,
    invalid_marks,
    chart_notes,
    embeds,
    short_links,
)
"""The modules with the routes of pages."""


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
    load_policies = partial(build_project_policies, settings)
    request_limiter = RateLimiter(settings.server.requests_per_minute)
    context = WebContext(store, clock, load_policies, authenticator, group_commit, request_limiter, settings)
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
    for pages in PAGE_MODULES:
        app.register_blueprint(pages.blueprint)
    api.register_api_routes(
        app,
        context,
        identify=identify or authenticator.identify_caller,
        find_administered_repository=authenticator.find_administered_repository,
        settings=settings,
    )
    github_webhook.register_github_webhook(app, group_commit, settings, secrets, clock)
    error_responses.register_error_handlers(app, store)
    return app
