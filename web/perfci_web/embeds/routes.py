"""Routes of badges and charts that other sites show in an ``<img>``: of public projects only."""

from __future__ import annotations

from flask import Blueprint, Response
from sqlalchemy.orm import Session

from perfci.auth.permissions import ANONYMOUS, can_read
from perfci.report.charts.badge import build_project_badge, build_series_badge, render_badge
from perfci.report.charts.embedded_chart import render_embedded_chart
from perfci.report.charts.png import render_png
from perfci.store.projects import Project
from perfci.store.queries.project_counts import load_project_with_counts
from perfci_web.application_context import web_context
from perfci_web.incidents.incident_list_view_model import load_or_derive_open_incidents
from perfci_web.series.routes import load_trend
from perfci_web.url_lookups import build_project_not_found_error, require_project

blueprint = Blueprint("embeds", __name__)

PICTURE_MAX_AGE_S = 300
"""How long a site may show a picture without asking for a newer one."""


@blueprint.get("/badge/<project:project>.svg")
def project_badge(project: str) -> Response:
    context = web_context()
    with context.store.read() as tx:
        stored_project = _require_public_project(tx, project)
        record = load_project_with_counts(tx, project)
        policies = context.load_policies(stored_project)
        open_incidents = load_or_derive_open_incidents(tx, stored_project, policies).count
    badge = build_project_badge(project, open_incidents=open_incidents, series=record.series)
    return _build_picture_response(render_badge(badge))


@blueprint.get("/badge/<project:project>/s/<name:benchmark>/<name:metric>.svg")
def series_badge(project: str, benchmark: str, metric: str) -> Response:
    with web_context().store.read() as tx:
        _require_public_project(tx, project)
    return _build_picture_response(render_badge(build_series_badge(load_trend(project, benchmark, metric))))


@blueprint.get("/embed/<project:project>/s/<name:benchmark>/<name:metric>.svg")
def series_chart(project: str, benchmark: str, metric: str) -> Response:
    with web_context().store.read() as tx:
        _require_public_project(tx, project)
    return _build_picture_response(render_embedded_chart(load_trend(project, benchmark, metric)))


@blueprint.get("/embed/<project:project>/s/<name:benchmark>/<name:metric>.png")
def series_chart_png(project: str, benchmark: str, metric: str) -> Response:
    """The same picture for chats and mail, which show no SVG."""
    with web_context().store.read() as tx:
        _require_public_project(tx, project)
    picture = render_png(render_embedded_chart(load_trend(project, benchmark, metric)))
    return _build_picture_response(picture, "image/png")


def _require_public_project(tx: Session, slug: str) -> Project:
    """Return a project that everybody may see; the browser of a member would show any site a private one."""
    project = require_project(tx, slug)
    if not can_read(ANONYMOUS, project):
        raise build_project_not_found_error(tx, slug)
    return project


def _build_picture_response(
    picture: str | bytes, content_type: str = "image/svg+xml; charset=utf-8"
) -> Response:
    """Answer with a picture that any site may show and any cache may keep for a while."""
    response = Response(picture, content_type=content_type)
    response.cache_control.public = True
    response.cache_control.max_age = PICTURE_MAX_AGE_S
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response
