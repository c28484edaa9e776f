"""Routes of the search box: the one page that a few words mean, else a list of those they may mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import Commit
from perfci.net.url_segments import encode_segment
from perfci.report.change_id import CHANGE_ID, format_change_id
from perfci.store.incidents.incident_store import find_incident
from perfci.store.incidents.recorded_changes import load_change_keys
from perfci.store.projects import Project
from perfci.store.queries.project_search import (
    find_benchmark_names,
    find_commits,
    find_incident_headlines,
)
from perfci.store.queries.series_commits_machines import load_series_by_ids, load_series_of_same_cells
from perfci_web.application_context import web_context
from perfci_web.page_urls import ProjectLinks
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("search", __name__)

SEARCH_PATH = "/<project:project>/search"
CSV_COLUMNS = ("kind", "name", "text", "address")

MAX_RESULTS, MAX_LENGTH = 50, 200
"""Results of one kind, and characters of a search."""


@dataclass(frozen=True, slots=True)
class NamedChange:
    """The change of a name, with its page."""

    id: str
    label: str
    address: str


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What some words may mean; ``incidents`` as number and headline."""

    benchmarks: tuple[str, ...] = ()
    commits: tuple[Commit, ...] = ()
    incidents: tuple[tuple[int, str], ...] = ()
    change: NamedChange | None = None

    @property
    def count(self) -> int:
        return len(self.benchmarks) + len(self.commits) + len(self.incidents) + (self.change is not None)


@blueprint.get(SEARCH_PATH)
def search_page(project: str) -> str | BaseResponse:
    links = build_project_links(project)
    text, results = _search(project)
    address = find_only_address(results, text, links)
    if address:
        return redirect(address)
    return render_template(
        "search/search.html",
        project=project,
        searched=text,
        results=results,
        max_results=MAX_RESULTS,
        links=links,
    )


@blueprint.get(f"{SEARCH_PATH}.json")
def search_json(project: str) -> Response:
    """What some words may mean, each with the address of its page."""
    text, results = _search(project)
    items = _serialize_results(results, build_project_links(project))
    return jsonify({"project": project, "query": text, "results": items})


@blueprint.get(f"{SEARCH_PATH}.csv")
def search_csv(project: str) -> Response:
    _, results = _search(project)
    rows = _serialize_results(results, build_project_links(project))
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-search.csv")


def _search(project: str) -> tuple[str, SearchResults]:
    """The words of the address, and what they may mean."""
    text = request.args.get("q", "").replace("\x00", "").strip()[:MAX_LENGTH]
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        return text, search_project(tx, record, text) if text else SearchResults()


def _serialize_results(results: SearchResults, links: ProjectLinks) -> list[dict[str, str]]:
    change = results.change
    return [
        *([_serialize_result("change", change.id, change.label, change.address)] if change else []),
        *(_serialize_result("benchmark", name, "", links.benchmark(name)) for name in results.benchmarks),
        *(
            _serialize_result("commit", commit.sha, commit.subject, links.commit(commit.sha))
            for commit in results.commits
        ),
        *(
            _serialize_result("incident", f"#{number}", headline, links.incident(number))
            for number, headline in results.incidents
        ),
    ]


def _serialize_result(kind: str, name: str, text: str, address: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "text": text, "address": address}


def search_project(tx: Session, project: Project, text: str) -> SearchResults:
    """Find what some words may mean; ``#12`` is an incident and nothing else, ``C7f3a9c21`` a change."""
    if re.fullmatch(r"#\d{1,9}", text):
        incident = find_incident(tx, project.id, int(text[1:]))
        return SearchResults(incidents=((incident.number, incident.headline),) if incident else ())
    if CHANGE_ID.fullmatch(text):
        change = _find_change(tx, project, f"C{text[1:]}")
        if change is not None:
            return SearchResults(change=change)
    return SearchResults(
        tuple(find_benchmark_names(tx, project.id, text, limit=MAX_RESULTS)),
        tuple(find_commits(tx, project.id, text, limit=MAX_RESULTS)),
        tuple(find_incident_headlines(tx, project.id, text, limit=MAX_RESULTS)),
    )


def _find_change(tx: Session, project: Project, name: str) -> NamedChange | None:
    """Find the recorded change of a name; its page is that of its series, with its commit pinned."""
    for series_id, identity, commit in load_change_keys(tx, project.id):
        if format_change_id(identity, commit) == name:
            series = load_series_by_ids(tx, [series_id])[series_id]
            links = build_project_links(project.slug, load_series_of_same_cells(tx, project.slug, [series]))
            return NamedChange(
                name, f"{series.label} at {commit[:10]}", links.series(series, pin=commit[:10])
            )
    return None


def find_only_address(results: SearchResults, text: str, links: ProjectLinks) -> str:
    """Return the page that a search means: that of its only result or of the benchmark of this very name."""
    if text in results.benchmarks:
        return links.benchmark(text)
    if results.count != 1:
        return ""
    if results.change is not None:
        return results.change.address
    if results.benchmarks:
        return links.benchmark(results.benchmarks[0])
    if results.commits:
        return links.commit(results.commits[0].sha)
    return links.incident(results.incidents[0][0])
