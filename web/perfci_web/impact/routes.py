"""Addresses of the ledger: the page, and its twin for programs."""

from __future__ import annotations

from functools import partial

from flask import Flask, Response, jsonify, render_template, request

from perfci.service.incidents.serialize_incidents import ledger_fields
from perfci.store import Store, projects
from perfci.store.incidents.incident_members import namesakes
from perfci_web.impact import view as pages
from perfci_web.page_urls import Links

LEDGER = "/<project:project>/ledger"


def install(app: Flask, store: Store) -> None:
    app.add_url_rule(LEDGER, "ledger", partial(ledger_page, store))
    app.add_url_rule(f"{LEDGER}.json", "ledger.json", partial(ledger_json, store))


def ledger_page(store: Store, project: str) -> str:
    with store.read() as tx:
        known = projects.project(tx, project)
        assert known is not None  # no page of another one is reached
        page = pages.ledger_page(tx, known, pages.asked_of(request.args))
        links = Links(project, namesakes(tx, project, page.series), root=request.script_root)
    return render_template("impact/impact.html", page=page, filters=pages.FILTERS, links=links)


def ledger_json(store: Store, project: str) -> Response:
    with store.read() as tx:
        known = projects.project(tx, project)
        assert known is not None
        found, following = pages.lines(tx, known, pages.asked_of(request.args))
    return jsonify({"project": project, "lines": [ledger_fields(line) for line in found], "next": following})
