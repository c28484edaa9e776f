"""Tokens, members, the audit log, and who may see a project."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement, ProjectRole, Scope
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas.projects_and_access import (
    AuditEntryPage,
    AuditEntryShape,
    CreatedToken,
    NewToken,
    ProjectMemberPage,
    ProjectMemberShape,
    ProjectPatch,
    ProjectShape,
    RoleAssignment,
    TokenPage,
)
from perfci.service.accounts import projects_members_tokens
from perfci.service.accounts.serialize_accounts import (
    serialize_member,
    serialize_project,
    serialize_token,
)
from perfci.store.access import api_tokens, audit_log, users_and_roles
from perfci.store.projects import find_project
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

NO_TOKEN = "There is no token of this uid here."
NO_MEMBER = "There is no member of this name here."


def list_tokens(call: Call) -> Reply:
    with call.store.read() as tx:
        tokens = api_tokens.list_tokens(
            tx,
            call.required_project.id,
            after=pagination.parse_cursor(call.query.cursor),
            limit=call.query.limit + 1,
        )
    return pagination.build_page_reply(
        TokenPage, tokens, call.query.limit, lambda token: token.id, serialize_token
    )


def create_token(call: Call) -> Reply:
    request: NewToken = call.body
    scopes = {Scope(name) for name in request.scopes}
    created = call.group_commit.submit(
        lambda tx: projects_members_tokens.create_token(
            tx, call.audit_context, call.required_project, request.name, scopes, request.days
        )
    )
    return Reply(CreatedToken(token=serialize_token(created.token), secret=created.text), 201)


def revoke_token(call: Call) -> Reply:
    removed = call.group_commit.submit(
        lambda tx: projects_members_tokens.revoke_token(
            tx, call.audit_context, call.required_project.id, call.path["uid"]
        )
    )
    if not removed:
        raise ProblemError("not-found", NO_TOKEN)
    return Reply(None)


def list_members(call: Call) -> Reply:
    with call.store.read() as tx:
        members = users_and_roles.load_project_members(tx, call.required_project.id)
    return Reply(ProjectMemberPage(items=tuple(map(serialize_member, members))))


def set_member_role(call: Call) -> Reply:
    request: RoleAssignment = call.body
    address, role = call.path["member"], ProjectRole(request.role)
    member = call.group_commit.submit(
        lambda tx: projects_members_tokens.set_member_role(
            tx, call.audit_context, call.required_project.id, address, role, request.name or ""
        )
    )
    return Reply(serialize_member(member))


def remove_member(call: Call) -> Reply:
    removed = call.group_commit.submit(
        lambda tx: projects_members_tokens.remove_member(
            tx, call.audit_context, call.required_project.id, call.path["member"]
        )
    )
    if not removed:
        raise ProblemError("not-found", NO_MEMBER)
    return Reply(None)


def change_project(call: Call) -> Reply:
    request: ProjectPatch = call.body
    changes = request.model_dump(mode="json", exclude_none=True)
    call.group_commit.submit(
        lambda tx: projects_members_tokens.change_project(
            tx, call.audit_context, call.required_project, **changes
        )
    )
    with call.store.read() as tx:
        project = find_project(tx, call.required_project.slug)
    assert project is not None
    return Reply(serialize_project(project))


def list_audit_entries(call: Call) -> Reply:
    with call.store.read() as tx:
        entries = audit_log.list_entries(
            tx,
            call.required_project.id,
            before=pagination.parse_cursor(call.query.cursor) or None,
            limit=call.query.limit + 1,
        )
    return pagination.build_page_reply(
        AuditEntryPage, entries, call.query.limit, lambda entry: entry.id, _build_audit_payload
    )


def _build_audit_payload(entry: audit_log.AuditEntry) -> AuditEntryShape:
    return AuditEntryShape(
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        detail=dict(entry.detail),
        request_id=entry.request_id,
    )


OPERATIONS = (
    Operation(
        "change_project",
        "PATCH",
        PROJECT_RULE,
        AccessRequirement.ADMIN,
        change_project,
        "Set visibility, archival, repository or policy of a project",
        body=ProjectPatch,
        answers={200: ProjectShape},
    ),
    Operation(
        "list_tokens",
        "GET",
        f"{PROJECT_RULE}/tokens",
        AccessRequirement.ADMIN,
        list_tokens,
        "The tokens of a project, in the order they were made",
        query=PageQuery,
        answers={200: TokenPage},
    ),
    Operation(
        "create_token",
        "POST",
        f"{PROJECT_RULE}/tokens",
        AccessRequirement.ADMIN,
        create_token,
        "Make a token; its text is in this answer only",
        body=NewToken,
        answers={201: CreatedToken},
    ),
    Operation(
        "revoke_token",
        "DELETE",
        f"{PROJECT_RULE}/tokens/<uid:uid>",
        AccessRequirement.ADMIN,
        revoke_token,
        "Revoke a token, and all tokens made with it",
        answers={204: None},
    ),
    Operation(
        "list_members",
        "GET",
        f"{PROJECT_RULE}/members",
        AccessRequirement.ADMIN,
        list_members,
        "Who has a role in a project",
        answers={200: ProjectMemberPage},
    ),
    Operation(
        "set_member",
        "PUT",
        f"{PROJECT_RULE}/members/<name:member>",
        AccessRequirement.ADMIN,
        set_member_role,
        "Set the role of a member",
        body=RoleAssignment,
        answers={200: ProjectMemberShape},
    ),
    Operation(
        "remove_member",
        "DELETE",
        f"{PROJECT_RULE}/members/<name:member>",
        AccessRequirement.ADMIN,
        remove_member,
        "Remove a member, and revoke the tokens they made",
        answers={204: None},
    ),
    Operation(
        "list_audit_entries",
        "GET",
        f"{PROJECT_RULE}/audit",
        AccessRequirement.ADMIN,
        list_audit_entries,
        "Who changed what, newest first",
        query=PageQuery,
        answers={200: AuditEntryPage},
    ),
)
