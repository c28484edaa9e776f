"""Resolve what an address names: a project, a commit, its runs; a miss offers what there is instead."""

from __future__ import annotations

from collections.abc import Iterable

from flask import request
from sqlalchemy.orm import Session

from perfci.config import RESERVED_PROJECTS
from perfci.model import Commit, PerfciError, Run, Series
from perfci.net.url_segments import decode_segment
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries import measurements
from perfci.store.queries.records import RunRecord
from perfci_web.not_found import PageNotFound, Suggestion
from perfci_web.page_access import list_visible_projects, project_not_found
from perfci_web.page_urls import Links


def page_not_found(store: Store, path: str) -> PageNotFound:
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
    links = project_links(project)
    offers = [Suggestion("Overview", links.overview), Suggestion("Benchmarks", links.benchmarks())]
    return PageNotFound(text, offers, "This project has")


def visible_project_of_path(store: Store, path: str) -> str:
    """Return the slug of the project that a path lies in, empty where the caller sees none."""
    try:
        slug = decode_segment(path.split("/")[1], RESERVED_PROJECTS)
    except ValueError:
        return ""
    with store.read() as tx:
        return next((project.slug for project in list_visible_projects(tx) if project.slug == slug), "")


def project_links(project: str, series: Iterable[Series] = ()) -> Links:
    return Links(project, series, root=request.script_root)


def require_project(tx: Session, slug: str) -> Project:
    """Return a project; raise ``PageNotFound`` where there is none or the caller may not see it."""
    for project in list_visible_projects(tx):
        if project.slug == slug:
            return project
    raise project_not_found(tx, slug)


def require_commit(tx: Session, project: str, sha: str) -> Commit:
    require_project(tx, project)
    try:
        commit = measurements.find_commit(tx, project, sha)
    except PerfciError as error:
        raise PageNotFound(str(error)) from error
    if commit is None:
        links = project_links(project)
        offers = [
            Suggestion(f"{newest.short_sha} {newest.subject}".strip(), links.commit(newest.sha))
            for newest in measurements.load_commits_newest_first(tx, project, limit=8)
        ]
        text = f"The project {project} knows no commit that starts with {sha}."
        raise PageNotFound(text, offers, "Its newest commits")
    return commit


def load_runs(tx: Session, records: Iterable[RunRecord]) -> list[Run]:
    return [measurements.load_run(tx, record.id) for record in records]
