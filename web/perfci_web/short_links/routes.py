"""Routes of short links: following one, and the form that makes one."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response as BaseResponse

from perfci.auth.permissions import can_read
from perfci.store.access.short_links import ShortLink, find_or_add_short_link, find_short_link
from perfci.store.projects import find_project, load_projects
from perfci_web.application_context import current_actor, web_context
from perfci_web.url_lookups import PageNotFound, build_project_links
from perfci_web.view_parts.link_preview import server_address

blueprint = Blueprint("short_links", __name__)

MAX_TARGET_LENGTH = 2000


@blueprint.get("/x/<name:code>")
def follow_short_link(code: str) -> BaseResponse:
    """Lead to the page of a code; a caller who may not see its project does not learn that there is one."""
    with web_context().store.read() as tx:
        link = find_short_link(tx, code)
        projects = {project.id: project for project in load_projects(tx)}
    project = projects.get(link.project_id) if link else None
    if link is None or project is None or not can_read(current_actor(), project):
        raise PageNotFound(f"There is no short link {code} here.")
    return redirect(f"{request.script_root}{link.target}")


@blueprint.post("/<project:project>/short-links")
def create_short_link(project: str) -> str:
    """Make the short link of a page of this project, and show it."""
    target, context = _parse_target(project), web_context()
    actor, at = current_actor().name, context.clock()

    def write(tx: Session) -> ShortLink:
        record = find_project(tx, project)
        assert record is not None  # page_access checked it before the view ran
        return find_or_add_short_link(tx, record.id, target, actor=actor, at=at)

    link = context.group_commit.submit(write)
    links = build_project_links(project)
    return render_template(
        "short_links/short_link.html",
        project=project,
        address=f"{server_address()}/x/{link.code}",
        target=f"{request.script_root}{target}",
        links=links,
    )


def _parse_target(project: str) -> str:
    """Read the page that a form names: only one of this project has a short link."""
    target = request.form.get("target", "")
    own_pages = build_project_links(project).overview
    relative = target.removeprefix(request.script_root)
    is_plain = target.isascii() and target.isprintable() and "\\" not in target
    if not target.startswith(own_pages) or not is_plain or len(relative) > MAX_TARGET_LENGTH:
        raise BadRequest(
            f"A short link leads to a page of {project}: expected an address below {own_pages} of at most "
            f"{MAX_TARGET_LENGTH:,} characters. Go back to the page, and press Short link there."
        )
    return relative
