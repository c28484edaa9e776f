"""What an address names: a project, a commit; whoever names none is told what there is."""

from __future__ import annotations

from collections.abc import Iterable

from flask import request
from sqlalchemy.orm import Session

from perfci.config import RESERVED_PROJECTS
from perfci.model import Commit, PerfciError, Series
from perfci.net.url_segments import decode_segment
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries import measurements
from perfci_web.not_found import PageNotFound, Suggestion
from perfci_web.page_access import list_visible_projects, project_not_found
from perfci_web.page_urls import Links


def page_not_found(store: Store, path: str) -> PageNotFound:
    """No page answers to this path; say what does."""
    first = path.split("/")[1]
    text = f"There is no page at {path}."
    if first in RESERVED_PROJECTS:
        return PageNotFound(text)
    try:
        project = decode_segment(first, RESERVED_PROJECTS)
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
    """The project whose pages lie around this path; empty where there is none that the caller may see."""
    try:
        project = decode_segment(path.split("/")[1], RESERVED_PROJECTS)
    except ValueError:
        return ""
    with store.read() as tx:
        return next((one.slug for one in list_visible_projects(tx) if one.slug == project), "")


def project_links(project: str, series: Iterable[Series] = ()) -> Links:
    return Links(project, series, root=request.script_root)


def require_project(tx: Session, project: str) -> Project:
    """Refuse a project that is not there, or not for this caller."""
    for one in list_visible_projects(tx):
        if one.slug == project:
            return one
    raise project_not_found(tx, project)


def require_commit(tx: Session, project: str, sha: str) -> Commit:
    require_project(tx, project)
    try:
        found = measurements.find_commit(tx, project, sha)
    except PerfciError as error:
        raise PageNotFound(str(error)) from error
    if found is None:
        known = measurements.load_commits_newest_first(tx, project, limit=8)
        offers = [
            Suggestion(f"{one.short_sha} {one.subject}".strip(), project_links(project).commit(one.sha))
            for one in known
        ]
        raise PageNotFound(
            f"The project {project} knows no commit that starts with {sha}.", offers, "Its newest commits"
        )
    return found
