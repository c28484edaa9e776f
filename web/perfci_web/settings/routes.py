"""Routes of the settings of a project: the page, and the forms of those who may change something."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, g, jsonify, make_response, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from perfci.auth.permissions import AccessRequirement, ProjectRole, Scope, decide_access
from perfci.model import PerfciError
from perfci.service.accounts.projects_members_tokens import (
    DEFAULT_TOKEN_DAYS,
    IssuedToken,
    create_token,
    remove_member,
    revoke_token,
    set_member_role,
)
from perfci.service.accounts.projects_members_tokens import require_project as require_stored_project
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.mute_benchmarks import set_benchmark_mute
from perfci.service.notify.manage_destinations import delete_destination
from perfci.store.access.api_tokens import list_tokens
from perfci.store.access.users_and_roles import load_project_members
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.jobs.notification_destinations import load_destinations
from perfci.store.projects import Project
from perfci_web.application_context import current_actor, may_triage, web_context
from perfci_web.settings import view_model
from perfci_web.url_lookups import build_project_links, require_project

blueprint = Blueprint("settings", __name__)

SETTINGS_PATH = "/<project:project>/settings"
MAX_NAME = 200

Answer = BaseResponse | tuple[str, int]


@blueprint.get(SETTINGS_PATH)
def settings_page(project: str) -> str:
    return _render_page(project)


@blueprint.get(f"{SETTINGS_PATH}.json")
def settings_json(project: str) -> Response:
    """What the page shows its caller: members, tokens and destinations to administrators alone."""
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        page = _load_view(tx, record, _is_admin(record))
        fields = view_model.serialize_settings(page, with_access=_is_admin(record))
    return jsonify({"project": project} | fields)


@blueprint.post(f"{SETTINGS_PATH}/unmute")
def unmute_benchmark(project: str) -> Answer:
    benchmark, metric = request.form.get("benchmark", ""), request.form.get("metric", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not set_benchmark_mute(tx, record, benchmark, metric, context, days=0):
            raise PerfciError("This benchmark is not muted any more.")

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/tokens")
def create_project_token(project: str) -> Answer:
    """Make a token and show its text, which no later page does."""
    try:
        name, scopes, days = _parse_new_token(request.form)
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    issued: list[IssuedToken] = []

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        issued[:] = [create_token(tx, context, record, name, scopes, days)]

    answer = _change(project, write)
    if not issued:
        return answer
    response = make_response(_render_page(project, issued=issued[0]), 201)
    response.headers["Cache-Control"] = "no-store"
    return response


@blueprint.post(f"{SETTINGS_PATH}/revoke-token")
def revoke_project_token(project: str) -> Answer:
    uid = request.form.get("uid", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not revoke_token(tx, context, record.id, uid):
            raise PerfciError("There is no token of this uid here.")

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/members")
def set_project_member(project: str) -> Answer:
    address, role = request.form.get("member", "").strip(), request.form.get("role", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if role not in list(ProjectRole):
            raise PerfciError(f"A role is one of {', '.join(ProjectRole)}, not {role!r}.")
        set_member_role(tx, context, record.id, address, ProjectRole(role))

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/remove-member")
def remove_project_member(project: str) -> Answer:
    address = request.form.get("member", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not remove_member(tx, context, record.id, address):
            raise PerfciError("There is no member of this name here.")

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/remove-destination")
def remove_project_destination(project: str) -> Answer:
    name = request.form.get("name", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not delete_destination(tx, record, name, context):
            raise PerfciError("There is no destination of this name here.")

    return _change(project, write)


def _parse_new_token(form: MultiDict[str, str]) -> tuple[str, set[Scope], int]:
    """Read the name, the scopes and the days of a new token; raise for what makes no sense."""
    name, scopes, days = form.get("name", "").strip(), form.getlist("scope"), form.get("days", "")
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise PerfciError(
            f"Give the token a name, such as nightly: one line of at most {MAX_NAME} characters."
        )
    for scope in scopes:
        if scope not in list(Scope):
            raise PerfciError(f"A scope is one of {', '.join(Scope)}, not {scope!r}.")
    days = days or str(DEFAULT_TOKEN_DAYS)
    if not days.isdecimal() or len(days) > 4:
        raise PerfciError(f"A number of days was expected, not {days!r}.")
    return name, set(map(Scope, scopes)), int(days)


def _change(project: str, write: Callable[[Session, Project, AuditContext], None]) -> Answer:
    """Write in one transaction, in the thread of the writer; a refusal shows its sentence on the page."""
    context = AuditContext(current_actor(), web_context().clock(), g.request_id)
    try:
        web_context().group_commit.submit(lambda tx: write(tx, require_stored_project(tx, project), context))
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    # 303: loading the next page again must not send the form again.
    return redirect(build_project_links(project).settings(), 303)


def _render_page(project: str, rejected: str = "", issued: IssuedToken | None = None) -> str:
    context = web_context()
    with context.store.read() as tx:
        record = require_project(tx, project)
        is_admin = _is_admin(record)
        page = _load_view(tx, record, is_admin)
        can_triage = may_triage(record)
    return render_template(
        "settings/settings.html",
        project=project,
        page=page,
        links=build_project_links(project),
        is_admin=is_admin,
        may_change=can_triage,
        roles=list(ProjectRole),
        scopes=list(Scope),
        days=DEFAULT_TOKEN_DAYS,
        issued=issued,
        rejected=rejected,
    )


def _is_admin(project: Project) -> bool:
    return decide_access(current_actor(), project, AccessRequirement.ADMIN).allowed


def _load_view(tx: Session, project: Project, is_admin: bool) -> view_model.SettingsView:
    context = web_context()
    now, policy = context.clock(), context.load_policies(project).policy
    shown = (
        view_model.list_thresholds(policy),
        tuple(policy.overrides),
        tuple(load_mutes(tx, project.id, now)),
    )
    if not is_admin:
        return view_model.SettingsView(*shown)
    return view_model.SettingsView(
        *shown,
        tuple(load_project_members(tx, project.id)),
        view_model.list_live_tokens(list_tokens(tx, project.id), now),
        tuple(load_destinations(tx, project.id)),
    )
