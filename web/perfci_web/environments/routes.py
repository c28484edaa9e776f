"""Routes of the environment of a project: the timeline as page, JSON and CSV."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, render_template

from perfci.net.url_segments import encode_segment
from perfci.store.queries.machine_activity import load_environment_records, load_environment_switches
from perfci_web.application_context import web_context
from perfci_web.environments import view_model
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("environments", __name__)

ENVIRONMENT_PATH = "/<project:project>/env"

CSV_COLUMNS = ("machine", "changed_at", "base", "head", "name", "before", "after")

MAX_SWITCHES = 2_000
"""Switches of environments that are read, the newest of them."""

MAX_EVENTS = 200
"""Events that the page shows."""


@blueprint.get(ENVIRONMENT_PATH)
def environment_page(project: str) -> str:
    machines, timeline = _load_timeline(project)
    return render_template(
        "environments/environments.html",
        project=project,
        machines=machines,
        timeline=timeline,
        events=timeline.events[:MAX_EVENTS],
        links=build_project_links(project),
    )


@blueprint.get(f"{ENVIRONMENT_PATH}.json")
def environment_json(project: str) -> Response:
    return jsonify(view_model.serialize_timeline(project, *_load_timeline(project)))


@blueprint.get(f"{ENVIRONMENT_PATH}.csv")
def environment_csv(project: str) -> Response:
    """What changed, one value a line."""
    fields = view_model.serialize_timeline(project, *_load_timeline(project))
    rows = [event | change for event in fields["changes"] for change in event["changes"]]
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-environment.csv")


def _load_timeline(
    project: str,
) -> tuple[list[view_model.MachineEnvironment], view_model.EnvironmentTimeline]:
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        switches = load_environment_switches(tx, record.id, MAX_SWITCHES)
        records = load_environment_records(tx, record.id)
    runs = {each.machine: each.runs for each in records}
    timeline = view_model.build_environment_timeline(switches, runs)
    return view_model.list_machines(records, timeline), timeline
