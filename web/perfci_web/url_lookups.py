"""Resolve what the address of a page names (a project, a commit), or raise a 404 that suggests pages."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flask import request
from sqlalchemy.orm import Session
from werkzeug.routing import RequestRedirect

from perfci.auth.permissions import can_read
from perfci.config import RESERVED_PROJECTS
from perfci.model import Commit, PerfciError, Series
from perfci.net.url_segments import decode_segment
from perfci.store import Store
from perfci.store.projects import Project, load_projects
from perfci.store.queries import series_commits_machines
from perfci.store.queries.history_conditions import series_only_in_pulls_condition
from perfci.store.queries.renamed_series import load_renamed_series
from perfci_web.application_context import current_actor
from perfci_web.page_urls import ProjectLinks, series_matches_url_query

MIN_SIMILARITY = 0.4
MAX_SUGGESTIONS = 8
MAX_COMPARED_NAMES = 64
MAX_COMPARED_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A link to an existing page."""

    label: str
    address: str


class PageNotFound(Exception):
    """Answered with 404 and a page of suggestions."""

    def __init__(
        self, text: str, suggestions: Iterable[Suggestion] = (), suggestions_title: str = ""
    ) -> None:
        super().__init__(text)
        self.text = text
        self.suggestions = tuple(suggestions)
        self.suggestions_title = suggestions_title


def build_unknown_path_error(store: Store, path: str) -> PageNotFound:
    """Build the 404 of a path without a page, with pages of its project as suggestions."""
    first_segment = path.split("/")[1]
    text = f"There is no page at {path}."
    if first_segment in RESERVED_PROJECTS:
        return PageNotFound(text)
    try:
        project = decode_segment(first_segment, RESERVED_PROJECTS)
        with store.read() as tx:
            require_project(tx, project)
    except ValueError:
        return PageNotFound(text)
    except PageNotFound as error:
        return error
    links = build_project_links(project)
    suggestions = [Suggestion("Overview", links.overview), Suggestion("Benchmarks", links.benchmarks())]
    return PageNotFound(text, suggestions, "This project has")


def find_visible_project_of_path(store: Store, path: str) -> str:
    """Return the slug of the project that a path lies in, empty where the caller sees none."""
    try:
        slug = decode_segment(path.split("/")[1], RESERVED_PROJECTS)
    except ValueError:
        return ""
    with store.read() as tx:
        return next((project.slug for project in list_visible_projects(tx) if project.slug == slug), "")


def list_visible_projects(tx: Session) -> Sequence[Project]:
    """Return the projects that the caller may read."""
    return [project for project in load_projects(tx) if can_read(current_actor(), project)]


def build_project_links(project: str, series: Iterable[Series] = ()) -> ProjectLinks:
    return ProjectLinks(project, series, root=request.script_root)


def require_project(tx: Session, slug: str) -> Project:
    """Return a project; raise ``PageNotFound`` where there is none or the caller may not see it."""
    for project in list_visible_projects(tx):
        if project.slug == slug:
            return project
    raise build_project_not_found_error(tx, slug)


def build_project_not_found_error(tx: Session, slug: str) -> PageNotFound:
    """Build the 404 of a project that is missing or private: one text for both, with the visible projects."""
    visible = [project.slug for project in list_visible_projects(tx)]
    suggestions = [
        Suggestion(name, ProjectLinks(name, root=request.script_root).overview)
        for name in find_closest_names(slug, visible)
    ]
    return PageNotFound(f"There is no project {slug} in this store.", suggestions, "Projects here")


def find_closest_names(requested_name: str, names: Iterable[str]) -> list[str]:
    """Find the most similar names, or the first ones if none is similar.

    Only those that share most pairs of letters are compared in full: for all of a project that takes long.
    """
    requested_name = requested_name[:MAX_COMPARED_LENGTH]
    pairs = _letter_pairs(requested_name)

    def shared_part(name: str) -> float:
        own_pairs = _letter_pairs(name)
        return len(pairs & own_pairs) / (len(pairs) + len(own_pairs) + 1)

    likely = heapq.nlargest(MAX_COMPARED_NAMES, names, key=shared_part)
    close = difflib.get_close_matches(requested_name, likely, n=MAX_SUGGESTIONS, cutoff=MIN_SIMILARITY)
    return close or likely[:MAX_SUGGESTIONS]


def _letter_pairs(name: str) -> set[str]:
    return {name[start : start + 2] for start in range(len(name) - 1)}


def require_commit(tx: Session, project: str, sha: str) -> Commit:
    require_project(tx, project)
    try:
        commit = series_commits_machines.find_commit(tx, project, sha)
    except PerfciError as error:
        raise PageNotFound(str(error)) from error
    if commit is None:
        links = build_project_links(project)
        suggestions = [
            Suggestion(f"{newest.short_sha} {newest.subject}".strip(), links.commit(newest.sha))
            for newest in series_commits_machines.load_commits_newest_first(tx, project, limit=8)
        ]
        text = f"The project {project} knows no commit that starts with {sha}."
        raise PageNotFound(text, suggestions, "Its newest commits")
    return commit


class MovedPage(RequestRedirect):
    """Answered with the address under which a page goes on."""

    code = 301


def raise_if_renamed(tx: Session, project: str, benchmark: str, metric: str = "") -> None:
    """Lead an address with the old name of a benchmark or machine to the series that it goes on as."""
    for old, new in load_renamed_series(tx, project):
        if old.benchmark.name != benchmark or metric not in ("", old.metric.name):
            continue
        extension = request.url_rule.rule.rpartition(">")[2].lstrip(".") if request.url_rule else ""
        if not metric:
            links = build_project_links(project)
            raise MovedPage(links.benchmark(new.benchmark.name, extension, **request.args))
        if series_matches_url_query(old, request.args):
            links = build_project_links(
                project, series_commits_machines.load_series_of_same_cells(tx, project, [new])
            )
            raise MovedPage(links.series(new, extension))


def build_benchmark_not_found_error(tx: Session, project: str, requested_name: str) -> PageNotFound:
    """Build the 404 of a benchmark or metric that a project does not have, with the nearest names."""
    all_series = series_commits_machines.load_project_series(
        tx, project, ~series_only_in_pulls_condition()
    ).values()
    by_label = {series.label: series for series in all_series}
    links = build_project_links(project, all_series)
    return PageNotFound(
        f"The project {project} has no benchmark {requested_name}.",
        [
            Suggestion(label, links.series(by_label[label]))
            for label in find_closest_names(requested_name, by_label)
        ],
        "Did you mean",
    )
