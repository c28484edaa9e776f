"""Addresses of the ledger: the page, and its twin for programs."""

from __future__ import annotations

from functools import partial

from flask import Flask, Response, jsonify, render_template, request

from perfci.service.incidents.serialize_incidents import serialize_impact
from perfci.store import Store, projects
from perfci.store.queries.loaders import load_series_of_same_cells
from perfci_web.impact import view as pages
from perfci_web.page_urls import Links

IMPACT_PATH = "/<project:project>/ledger"


def init_app(app: Flask, store: Store) -> None:
    app.add_url_rule(IMPACT_PATH, "ledger", partial(impact_page, store))
    app.add_url_rule(f"{IMPACT_PATH}.json", "ledger.json", partial(impact_json, store))


def impact_page(store: Store, project: str) -> str:
    with store.read() as tx:
        known = projects.find_project(tx, project)
        assert known is not None  # no page of another one is reached
        page = pages.build_impact_view(tx, known, pages.parse_query(request.args))
        links = Links(project, load_series_of_same_cells(tx, project, page.series), root=request.script_root)
    return render_template("impact/impact.html", page=page, filters=pages.DIRECTION_FILTERS, links=links)


def impact_json(store: Store, project: str) -> Response:
    with store.read() as tx:
        known = projects.find_project(tx, project)
        assert known is not None
        found, following = pages.load_impact(tx, known, pages.parse_query(request.args))
    return jsonify(
        {"project": project, "lines": [serialize_impact(line) for line in found], "next": following}
    )
