"""Routes of the noise of a project: false alarms of A/A runs and the noise floors of series."""

from __future__ import annotations

from collections.abc import Collection

from flask import Blueprint, Response, jsonify, redirect, render_template
from werkzeug.wrappers import Response as BaseResponse

from perfci.history.project_noise import compute_project_noise
from perfci.model import Series
from perfci.net.url_segments import encode_segment
from perfci.report.serializers import serialize_noise_floor, serialize_project_noise
from perfci.report.series_places import SeriesPlaces
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.verdicts.project_noise import ProjectNoise
from perfci_web.application_context import web_context
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, build_series_cells

blueprint = Blueprint("noise", __name__)

NOISE_PATH = "/<project:project>/noise"

CSV_COLUMNS = (*SERIES_COLUMNS, "noise_floor", "comparisons", "bar", "raised")


@blueprint.get(NOISE_PATH)
def noise_page(project: str) -> str:
    noise, series = _load_project_noise(project)
    links = build_project_links(project, series)
    return render_template(
        "noise/noise.html",
        project=project,
        page=noise,
        links=links,
        places=SeriesPlaces(floor.series for floor in noise.floors),
    )


@blueprint.get(f"{NOISE_PATH}.json")
def noise_json(project: str) -> Response:
    noise, _ = _load_project_noise(project)
    return jsonify(serialize_project_noise(project, noise))


@blueprint.get(f"{NOISE_PATH}.csv")
def noise_csv(project: str) -> Response:
    """The noise floors, one series a line."""
    noise, _ = _load_project_noise(project)
    rows = [serialize_noise_floor(floor) | build_series_cells(floor.series) for floor in noise.floors]
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-noise.csv")


@blueprint.get("/<project:project>/calibration")
def old_noise_page(project: str) -> BaseResponse:
    """Redirect the address that this page had."""
    return redirect(build_project_links(project).noise(), 301)


@blueprint.get("/<project:project>/calibration.json")
def old_noise_json(project: str) -> BaseResponse:
    return redirect(build_project_links(project).noise("json"), 301)


def _load_project_noise(project: str) -> tuple[ProjectNoise, Collection[Series]]:
    """Compute the noise; the series are needed for links only where there are noise floors."""
    context = web_context()
    with context.store.read() as tx:
        policy = context.load_policies(require_project(tx, project)).policy
        noise = compute_project_noise(tx, project, policy, context.clock())
        series = load_project_series(tx, project).values() if noise.floors else ()
        return noise, series
