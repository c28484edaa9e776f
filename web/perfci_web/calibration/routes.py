"""Addresses of the calibration: what became of verdicts, and what equals showed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial

from flask import Flask, Response, jsonify, render_template

from perfci.history.calibration import compute_calibration
from perfci.model import Series
from perfci.policies import LoadPolicies
from perfci.report.calibration_text import serialize_calibration
from perfci.store import Store
from perfci.store.queries.loaders import load_project_series
from perfci.verdicts.calibration import Calibration
from perfci_web.lookups import project_links, require_project


def init_app(app: Flask, store: Store, clock: Callable[[], datetime], load_policies: LoadPolicies) -> None:
    for rule, view in (("calibration", calibration_page), ("calibration.json", calibration_json)):
        app.add_url_rule(f"/<project:project>/{rule}", rule, partial(view, store, clock, load_policies))


def calibration_page(
    store: Store, clock: Callable[[], datetime], load_policies: LoadPolicies, project: str
) -> str:
    found, series = _load_calibration(store, clock, load_policies, project)
    return render_template(
        "calibration/calibration.html", project=project, found=found, links=project_links(project, series)
    )


def calibration_json(
    store: Store, clock: Callable[[], datetime], load_policies: LoadPolicies, project: str
) -> Response:
    found, _ = _load_calibration(store, clock, load_policies, project)
    return jsonify(serialize_calibration(project, found))


def _load_calibration(
    store: Store, clock: Callable[[], datetime], load_policies: LoadPolicies, project: str
) -> tuple[Calibration, Collection[Series]]:
    with store.read() as tx:
        known = require_project(tx, project)
        found = compute_calibration(tx, project, load_policies(known).policy, clock())
        return found, load_project_series(tx, project).values() if found.floors else ()
