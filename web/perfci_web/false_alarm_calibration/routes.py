"""Routes of the calibration: false alarms of A/A runs and the noise floors of series."""

from __future__ import annotations

from collections.abc import Collection

from flask import Blueprint, Response, jsonify, render_template

from perfci.history.false_alarm_calibration import compute_calibration
from perfci.model import Series
from perfci.report.serializers import serialize_calibration
from perfci.report.series_places import SeriesPlaces
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.verdicts.false_alarm_calibration import Calibration
from perfci_web.application_context import web_context
from perfci_web.url_lookups import build_project_links, require_project

blueprint = Blueprint("calibration", __name__)

CALIBRATION_PATH = "/<project:project>/calibration"


@blueprint.get(CALIBRATION_PATH)
def calibration_page(project: str) -> str:
    calibration, series = _load_calibration(project)
    links = build_project_links(project, series)
    return render_template(
        "calibration/calibration.html",
        project=project,
        page=calibration,
        links=links,
        places=SeriesPlaces(floor.series for floor in calibration.floors),
    )


@blueprint.get(f"{CALIBRATION_PATH}.json")
def calibration_json(project: str) -> Response:
    calibration, _ = _load_calibration(project)
    return jsonify(serialize_calibration(project, calibration))


def _load_calibration(project: str) -> tuple[Calibration, Collection[Series]]:
    """Compute the calibration; the series are needed for links only where there are noise floors."""
    context = web_context()
    with context.store.read() as tx:
        policy = context.load_policies(require_project(tx, project)).policy
        calibration = compute_calibration(tx, project, policy, context.clock())
        series = load_project_series(tx, project).values() if calibration.floors else ()
        return calibration, series
