"""Routes of the fleet of a project: the page, and its JSON and CSV."""

from __future__ import annotations

from datetime import timedelta

from flask import Blueprint, Response, jsonify, render_template
from sqlalchemy.orm import Session

from perfci.history.project_noise import compute_noise_floors
from perfci.net.url_segments import encode_segment
from perfci.service.missing_data.find_missing_data import find_late_reports
from perfci.service.worker.lease import JUDGE_LEASE
from perfci.store.incidents.reporting_schedules_and_run_arrivals import load_reporting_schedules
from perfci.store.jobs.measurement_orders import count_open_orders
from perfci.store.jobs.work_queue_and_leases import find_lease, load_oldest_work_time
from perfci.store.queries.machine_activity import load_machine_activity
from perfci_web.application_context import web_context
from perfci_web.fleet import view_model
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("fleet", __name__)

FLEET_PATH = "/<project:project>/fleet"


@blueprint.get(FLEET_PATH)
def fleet_page(project: str) -> str:
    return render_template(
        "fleet/fleet.html", project=project, page=_load_fleet(project), links=build_project_links(project)
    )


@blueprint.get(f"{FLEET_PATH}.json")
def fleet_json(project: str) -> Response:
    return jsonify(view_model.serialize_fleet(project, _load_fleet(project)))


@blueprint.get(f"{FLEET_PATH}.csv")
def fleet_csv(project: str) -> Response:
    """The machines, one a line."""
    machines = view_model.serialize_fleet(project, _load_fleet(project))["machines"]
    rows = [
        row | {"missing": " ".join(row["missing"]), "suites": " ".join(row["suites"])} for row in machines
    ]
    return build_csv_response(view_model.CSV_COLUMNS, rows, f"{encode_segment(project)}-fleet.csv")


def _load_fleet(project: str) -> view_model.FleetView:
    context = web_context()
    now = context.clock()
    with context.store.read() as tx:
        record = require_project(tx, project)
        schedules = [each for each in load_reporting_schedules(tx, record.id) if not each.muted]
        since = [now - timedelta(days=days) for days in view_model.RECENT_DAYS]
        policy = context.load_policies(record).policy
        return view_model.build_fleet_view(
            load_machine_activity(tx, record.id, since),
            schedules,
            find_late_reports(schedules, now),
            compute_noise_floors(tx, project, policy),
            _load_worker_state(tx),
            count_open_orders(tx, record.id),
            now,
        )


def _load_worker_state(tx: Session) -> view_model.WorkerState:
    lease, oldest = find_lease(tx, JUDGE_LEASE), load_oldest_work_time(tx)
    wait_s = None if oldest is None else max(0.0, (web_context().clock() - oldest).total_seconds())
    return view_model.WorkerState(lease is not None and lease.holder != "", wait_s)
