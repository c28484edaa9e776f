"""Routes of the settings of a project: the page, and the forms of those who may change something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from flask import Blueprint, Response, g, jsonify, make_response, redirect, render_template, request
from pydantic import ValidationError
from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from perfci.auth.permissions import AccessRequirement, ProjectRole, Scope, decide_access
from perfci.model import PerfciError
from perfci.net.api_schemas import RequestShape
from perfci.net.api_schemas.muted_benchmarks import MuteChange
from perfci.net.api_schemas.notification_destinations import NewDestination
from perfci.report.series_places import SeriesPlaces
from perfci.service.accounts.projects_members_tokens import (
    DEFAULT_TOKEN_DAYS,
    IssuedToken,
    create_token,
    remove_member,
    revoke_token,
    set_member_role,
)
from perfci.service.accounts.projects_members_tokens import require_project as require_stored_project
from perfci.service.archive_series import ArchiveTarget, set_archived
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.mute_benchmarks import set_benchmark_mute
from perfci.service.notify.destination_encryption import decrypt_destination
from perfci.service.notify.manage_destinations import (
    ADDRESS_CHECKS,
    delete_destination,
    save_destination,
)
from perfci.store.access.api_tokens import list_tokens
from perfci.store.access.users_and_roles import load_project_members
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.jobs.notification_destinations import (
    Destination,
    find_destination,
    load_destinations,
)
from perfci.store.projects import Project
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci.store.series_archive import list_archived_series
from perfci_web.api.operations.notifications import try_destination
from perfci_web.api.problem_details import ProblemError, convert_validation_error
from perfci_web.application_context import current_actor, may_triage, web_context
from perfci_web.settings import view_model
from perfci_web.url_lookups import build_project_links, require_project

blueprint = Blueprint("settings", __name__)

SETTINGS_PATH = "/<project:project>/settings"
MAX_NAME = 200

Answer = BaseResponse | tuple[str, int] | str
RequestT = TypeVar("RequestT", bound=RequestShape)


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


@blueprint.post(f"{SETTINGS_PATH}/mute")
def mute_benchmark(project: str) -> Answer:
    form = request.form
    fields = {name: form.get(name, "").strip() for name in ("benchmark", "metric", "reason")}
    days = form.get("days", "").strip()
    try:
        if not days.isdecimal() or len(days) > 9 or int(days) == 0:
            raise PerfciError(f"A number of days was expected, not {days[:40]!r}.")
        change = _validate(MuteChange, fields | {"days": int(days)})
    except PerfciError as error:
        return _render_page(project, str(error)), 409

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        set_benchmark_mute(
            tx, record, change.benchmark, change.metric, context, days=change.days, reason=change.reason
        )

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/unmute")
def unmute_benchmark(project: str) -> Answer:
    benchmark, metric = request.form.get("benchmark", ""), request.form.get("metric", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not set_benchmark_mute(tx, record, benchmark, metric, context, days=0):
            raise PerfciError("This benchmark is not muted any more.")

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/archive")
def archive_or_bring_back(project: str) -> Answer:
    """Archive a series, or all of a benchmark or machine; ``undo`` brings them back."""
    form = request.form
    kind, name = form.get("kind", ""), form.get("name", "").strip()[:500]
    if kind not in ("series", "benchmark", "machine") or not name:
        return _render_page(project, "Name a benchmark, or a machine as pages show it."), 409
    target = ArchiveTarget(**{kind: name})
    reason = None if form.get("undo") else form.get("reason", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not set_archived(tx, context, record, target, reason):
            state = "archived already" if reason is not None else "not archived"
            raise PerfciError(f"The {target} is {state}.")

    return _change(project, write, partial(_find_archived_page, project, target, form.get("page", "")))


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


@blueprint.post(f"{SETTINGS_PATH}/destinations")
def add_project_destination(project: str) -> Answer:
    """Add a destination; no later page shows its address or its secret."""
    name, form = request.form.get("name", "").strip(), request.form
    fields = {"kind": form.get("kind", ""), "address": form.get("address", "").strip()}
    try:
        new = _validate(NewDestination, fields | {"secret": form.get("secret", "")})
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    secret_key = web_context().authenticator.secret_key

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if find_destination(tx, record.id, name) is not None:
            raise PerfciError(
                "There is a destination of this name already: remove it first, or change it over the API."
            )
        destination = Destination(name, new.kind, new.address)
        save_destination(tx, record, destination, context, secret=new.secret, secret_key=secret_key)

    return _change(project, write)


@blueprint.post(f"{SETTINGS_PATH}/test-destination")
def test_project_destination(project: str) -> Answer:
    """Send a test message, and say on the page what became of it."""
    context, name = web_context(), request.form.get("name", "")
    with context.store.read() as tx:
        record = require_project(tx, project)
        stored = find_destination(tx, record.id, name)
        destination = stored and decrypt_destination(tx, stored, context.authenticator.secret_key)
    if destination is None:
        return _render_page(project, "There is no destination of this name here."), 409
    audit = AuditContext(current_actor(), context.clock(), g.request_id)
    try:
        problem = try_destination(record, destination, context.settings, context.group_commit, audit)
    except ProblemError as error:
        problem = error.detail
    if problem:
        return _render_page(project, f"The test message did not reach {name}: {problem}"), 409
    return _render_page(project, reached=name)


@blueprint.post(f"{SETTINGS_PATH}/remove-destination")
def remove_project_destination(project: str) -> Answer:
    name = request.form.get("name", "")

    def write(tx: Session, record: Project, context: AuditContext) -> None:
        if not delete_destination(tx, record, name, context):
            raise PerfciError("There is no destination of this name here.")

    return _change(project, write)


def _validate(shape: type[RequestT], fields: Mapping[str, object]) -> RequestT:
    """Validate fields of a form as the API does; the message does not repeat what was typed."""
    try:
        return shape.model_validate(fields)
    except ValidationError as error:
        raise PerfciError(convert_validation_error(error, "This form").detail) from error


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


def _find_archived_page(project: str, target: ArchiveTarget, page: str) -> str:
    """The page that a form of archiving stands on: of a series, of a benchmark, or the settings."""
    if page == "benchmark" and target.benchmark:
        return build_project_links(project).benchmark(target.benchmark)
    if page == "series" and target.series:
        with web_context().store.read() as tx:
            item = find_series_by_identity(tx, require_project(tx, project).id, target.series)
            if item is not None:
                same_cells = load_series_of_same_cells(tx, project, [item.series])
                return build_project_links(project, same_cells).series(item.series)
    return build_project_links(project).settings()


def _change(
    project: str,
    write: Callable[[Session, Project, AuditContext], None],
    find_next_page: Callable[[], str] | None = None,
) -> Answer:
    """Write in one transaction, in the thread of the writer; a refusal shows its sentence on the page.

    What is written is seen on the next page: the settings, unless another is named.
    """
    context = AuditContext(current_actor(), web_context().clock(), g.request_id)
    try:
        web_context().group_commit.submit(lambda tx: write(tx, require_stored_project(tx, project), context))
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    # 303: loading the next page again must not send the form again.
    return redirect(find_next_page() if find_next_page else build_project_links(project).settings(), 303)


def _render_page(
    project: str, rejected: str = "", issued: IssuedToken | None = None, reached: str = ""
) -> str:
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
        links=build_project_links(project, (archived.series for archived in page.archived)),
        is_admin=is_admin,
        may_change=can_triage,
        roles=list(ProjectRole),
        scopes=list(Scope),
        days=DEFAULT_TOKEN_DAYS,
        kinds=list(ADDRESS_CHECKS),
        issued=issued,
        reached=reached,
        rejected=rejected,
        max_archived=view_model.MAX_ARCHIVED,
        places=SeriesPlaces(archived.series for archived in page.archived),
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
        tuple(list_archived_series(tx, project.id)),
    )
    if not is_admin:
        return view_model.SettingsView(*shown)
    return view_model.SettingsView(
        *shown,
        tuple(load_project_members(tx, project.id)),
        view_model.list_live_tokens(list_tokens(tx, project.id), now),
        tuple(load_destinations(tx, project.id)),
    )
