"""What an address names: a project, a commit; whoever names none is told what there is."""

from __future__ import annotations

from collections.abc import Iterable

from flask import request
from sqlalchemy.orm import Session

from perfci.config import RESERVED_PROJECTS
from perfci.model import Commit, PerfciError, Series
from perfci.net.url_segments import name_of
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries import measurements
from perfci_web.not_found import Missing, Offer
from perfci_web.page_access import no_such_project, seen_projects
from perfci_web.page_urls import Links


def nothing_here(store: Store, path: str) -> Missing:
    """No page answers to this path; say what does."""
    first = path.split("/")[1]
    text = f"There is no page at {path}."
    if first in RESERVED_PROJECTS:
        return Missing(text)
    try:
        project = name_of(first, RESERVED_PROJECTS)
        with store.read() as tx:
            known_project(tx, project)
    except ValueError:
        return Missing(text)
    except Missing as error:
        return error
    links = links_of(project)
    offers = [Offer("Overview", links.overview), Offer("Benchmarks", links.benchmarks())]
    return Missing(text, offers, "This project has")


def project_around(store: Store, path: str) -> str:
    """The project whose pages lie around this path; empty where there is none that the caller may see."""
    try:
        project = name_of(path.split("/")[1], RESERVED_PROJECTS)
    except ValueError:
        return ""
    with store.read() as tx:
        return next((one.slug for one in seen_projects(tx) if one.slug == project), "")


def links_of(project: str, series: Iterable[Series] = ()) -> Links:
    return Links(project, series, root=request.script_root)


def known_project(tx: Session, project: str) -> Project:
    """Refuse a project that is not there, or not for this caller."""
    for one in seen_projects(tx):
        if one.slug == project:
            return one
    raise no_such_project(tx, project)


def commit_named(tx: Session, project: str, sha: str) -> Commit:
    known_project(tx, project)
    try:
        found = measurements.find_commit(tx, project, sha)
    except PerfciError as error:
        raise Missing(str(error)) from error
    if found is None:
        known = measurements.commits(tx, project, limit=8)
        offers = [Offer(f"{one.short} {one.subject}".strip(), links_of(project).commit(one.sha)) for one in known]
        raise Missing(f"The project {project} knows no commit that starts with {sha}.", offers, "Its newest commits")
    return found
