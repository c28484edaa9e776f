"""Access to pages: decided before a view runs, by the rule of the request alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from flask import request

from perfci.auth.permissions import SIGN_IN, AccessDenied, AccessRequirement, decide_access
from perfci.store.projects import find_project
from perfci_web.authentication.authenticator import READ_METHODS
from perfci_web.url_lookups import PageNotFound, build_project_not_found_error
from perfci_web.web_context import WebContext

TRIAGE_ENDPOINTS = (
    "incidents.change_selected",
    "incidents.change_incident",
    "incidents.merge_other_incidents",
    "incidents.split_incident",
    "incidents.move_incident_boundary",
    "incidents.undo_last_state_change",
)

ENDPOINT_NEEDS: Mapping[str, AccessRequirement] = MappingProxyType(
    {
        "authentication.end_login": AccessRequirement.PUBLIC,
        **dict.fromkeys(TRIAGE_ENDPOINTS, AccessRequirement.TRIAGE),
    }
)
"""The requirements of pages that change something, by endpoint; viewing a project needs READ."""


def require_page_access(context: WebContext) -> None:
    """Refuse the current request unless its caller may see the page."""
    actor = context.authenticator.identify_caller(request)
    slug = (request.view_args or {}).get("project")
    project = None
    if slug is not None:
        with context.store.read() as tx:
            project = find_project(tx, slug)
            if decide_access(actor, project, AccessRequirement.READ).status == 404:
                raise build_project_not_found_error(tx, slug)
    decision = decide_access(actor, project, _endpoint_need())
    if decision.allowed:
        return
    if decision.status == 404:
        raise PageNotFound(decision.reason)
    raise AccessDenied(401 if decision.status == 401 else 403, decision.reason or SIGN_IN)


def _endpoint_need() -> AccessRequirement:
    """Return the requirement of a page; one that changes something and is not listed is for admins."""
    listed = ENDPOINT_NEEDS.get(request.endpoint or "")
    if listed is not None:
        return listed
    if request.method not in READ_METHODS:
        return AccessRequirement.ADMIN
    return AccessRequirement.READ if "project" in (request.view_args or {}) else AccessRequirement.PUBLIC
