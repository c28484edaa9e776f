"""Access to pages: decided before a view runs, by the rule of the request alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from flask import g, request
from werkzeug.exceptions import TooManyRequests

from perfci.auth.permissions import SIGN_IN, AccessDenied, AccessRequirement, Actor, decide_access
from perfci.store.projects import find_project
from perfci_web.api.problem_details import ProblemError
from perfci_web.application_context import WebContext
from perfci_web.authentication.authenticator import READ_METHODS
from perfci_web.url_lookups import PageNotFound, build_project_not_found_error

TRIAGE_ENDPOINTS = (
    "incidents.change_selected",
    "incidents.change_incident",
    "incidents.merge_other_incidents",
    "incidents.split_incident",
    "incidents.move_incident_boundary",
    "incidents.undo_last_state_change",
    "invalid_marks.change_mark",
    "chart_notes.add_note",
    "chart_notes.remove_note",
    "measurement_orders.place_ordered_pairs",
    "measurement_orders.bisect_incident",
    "measurement_orders.backfill_incident",
    "measurement_orders.cancel_one_order",
    "short_links.create_short_link",
    "unresolved_results.resolve_result",
    "settings.mute_benchmark",
    "settings.unmute_benchmark",
    "settings.archive_or_bring_back",
)

ENDPOINT_NEEDS: Mapping[str, AccessRequirement] = MappingProxyType(
    {
        "authentication.end_login": AccessRequirement.PUBLIC,
        **dict.fromkeys(TRIAGE_ENDPOINTS, AccessRequirement.TRIAGE),
        "renames.add_rename": AccessRequirement.ADMIN,
    }
)
"""The requirements of pages that change something, by endpoint; viewing a project needs READ."""

ENDPOINT_COSTS: Mapping[str, float] = MappingProxyType(
    {
        "benchmarks.benchmarks_csv": 30.0,
        **dict.fromkeys(("benchmarks.benchmarks_page", "benchmarks.benchmarks_json"), 5.0),
        **dict.fromkeys(
            (
                "comparisons.compare_page",
                "comparisons.compare_json",
                "comparisons.compare_csv",
                "comparisons.compare_markdown",
            ),
            10.0,
        ),
        **dict.fromkeys(("commits.commit_page", "commits.commit_json", "commits.commit_csv"), 10.0),
        **dict.fromkeys(
            (
                "matrix.matrix_chooser_page",
                "matrix.matrix_chooser_json",
                "matrix.matrix_chooser_csv",
                "matrix.matrix_page",
                "matrix.matrix_json",
                "matrix.matrix_csv",
                "variants.variants_page",
                "variants.variants_json",
                "variants.variants_csv",
                "variants.goals_csv",
                "disagreements.disagreements_page",
                "disagreements.disagreements_json",
                "disagreements.disagreements_csv",
                "fleet.fleet_page",
                "fleet.fleet_json",
                "fleet.fleet_csv",
                "environments.environment_page",
                "environments.environment_json",
                "environments.environment_csv",
            ),
            5.0,
        ),
        **dict.fromkeys(("changes.changes_page", "changes.changes_feed"), 5.0),
        **dict.fromkeys(("changes.changes_json", "changes.changes_csv"), 30.0),
        **dict.fromkeys(("search.search_page", "search.search_json", "search.search_csv"), 5.0),
        **dict.fromkeys(
            (
                "threshold_dry_run.dry_run_page",
                "threshold_dry_run.dry_run_json",
                "threshold_dry_run.dry_run_csv",
            ),
            30.0,
        ),
        "embeds.project_badge": 5.0,
        **dict.fromkeys(
            ("series.series_png", "graphs.graph_png", "waterfalls.waterfall_png", "embeds.series_chart_png"),
            5.0,
        ),
        "authentication.begin_login": 5.0,
        "authentication.finish_login": 10.0,
        **dict.fromkeys(("noise.noise_page", "noise.noise_json", "noise.noise_csv"), 5.0),
    }
)
"""As how many requests a page counts that reads a whole project or two whole commits, or asks GitHub; others
count once.
"""

MISSING_PAGE_COST = 4.0


def require_page_access(context: WebContext) -> None:
    """Refuse the current request unless its caller may see the page."""
    actor = _identify_within_limit(context)
    slug = (request.view_args or {}).get("project")
    project = None
    if slug is not None:
        with context.store.read() as tx:
            project = g.project = find_project(tx, slug)
            if decide_access(actor, project, AccessRequirement.READ).status == 404:
                raise build_project_not_found_error(tx, slug)
    decision = decide_access(actor, project, _endpoint_need())
    if decision.allowed:
        return
    if decision.status == 404:
        raise PageNotFound(decision.reason)
    raise AccessDenied(401 if decision.status == 401 else 403, decision.reason or SIGN_IN)


def _identify_within_limit(context: WebContext) -> Actor:
    """Identify the caller and count the page against their rate limit, which the API counts against too."""
    address = f"address:{request.remote_addr}"
    cost = ENDPOINT_COSTS.get(request.endpoint or "", 1.0)
    try:
        actor = context.authenticator.identify_caller(request)
    except AccessDenied:
        _require_allowance(context, address, cost)
        raise
    if actor.kind != "local":
        _require_allowance(context, actor.name or address, cost)
    return actor


def charge_for_missing_page(context: WebContext) -> None:
    """Count a page that does not exist as several: what its address may have meant is looked for."""
    if "limited_caller" in g:
        with suppress(ProblemError):
            context.request_limiter.require_allowance(g.limited_caller, MISSING_PAGE_COST)


def _require_allowance(context: WebContext, caller: str, cost: float) -> None:
    g.limited_caller = caller
    try:
        context.request_limiter.require_allowance(caller, cost)
    except ProblemError as error:
        raise TooManyRequests(error.detail, retry_after=int(error.headers["Retry-After"])) from None


def _endpoint_need() -> AccessRequirement:
    """Return the requirement of a page; one that changes something and is not listed is for admins."""
    listed = ENDPOINT_NEEDS.get(request.endpoint or "")
    if listed is not None:
        return listed
    if request.method not in READ_METHODS:
        return AccessRequirement.ADMIN
    return AccessRequirement.READ if "project" in (request.view_args or {}) else AccessRequirement.PUBLIC
