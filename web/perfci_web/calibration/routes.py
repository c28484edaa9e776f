"""Addresses of the calibration: what became of verdicts, and what equals showed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial

from flask import Flask, Response, jsonify, render_template

from perfci.history.calibration import calibrated
from perfci.model import Series
from perfci.policies import StandardsOf
from perfci.report.calibration_text import calibration_fields
from perfci.store import Store
from perfci.store.queries.loaders import series_by_project
from perfci.verdicts.calibration import Calibration
from perfci_web.lookups import known_project, links_of


def install(app: Flask, store: Store, clock: Callable[[], datetime], standards_of: StandardsOf) -> None:
    for rule, view in (("calibration", calibration_page), ("calibration.json", calibration_json)):
        app.add_url_rule(f"/<project:project>/{rule}", rule, partial(view, store, clock, standards_of))


def calibration_page(store: Store, clock: Callable[[], datetime], standards_of: StandardsOf, project: str) -> str:
    found, series = _calibration(store, clock, standards_of, project)
    return render_template(
        "calibration/calibration.html", project=project, found=found, links=links_of(project, series)
    )


def calibration_json(store: Store, clock: Callable[[], datetime], standards_of: StandardsOf, project: str) -> Response:
    found, _ = _calibration(store, clock, standards_of, project)
    return jsonify(calibration_fields(project, found))


def _calibration(
    store: Store, clock: Callable[[], datetime], standards_of: StandardsOf, project: str
) -> tuple[Calibration, Collection[Series]]:
    with store.read() as tx:
        known = known_project(tx, project)
        found = calibrated(tx, project, standards_of(known).policy, clock())
        return found, series_by_project(tx, project).values() if found.floors else ()
