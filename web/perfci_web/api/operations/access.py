"""Tokens, members, the audit log, and who may see a project."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement, ProjectRole, Scope
from perfci.net.shapes import PageQuery
from perfci.net.shapes.access import (
    AuditEntryPage,
    AuditEntryShape,
    CreatedToken,
    NewToken,
    ProjectMemberPage,
    ProjectMemberShape,
    ProjectPatch,
    RoleAssignment,
    TokenPage,
)
from perfci.net.shapes.runs import ProjectShape
from perfci.service.accounts import accounts
from perfci.service.accounts.backends import serialize_member, serialize_project, serialize_token
from perfci.service.audit_context import AuditContext
from perfci.store.access import api_tokens, audit_log, users
from perfci.store.projects import find_project
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import ProblemError

NO_TOKEN = "There is no token of this uid here."
NO_MEMBER = "Nobody of this name is a member here."


def list_tokens(call: Call) -> Reply:
    with call.store.read() as tx:
        found = api_tokens.list_tokens(
            tx,
            call.required_project.id,
            after=pagination.parse_cursor(call.query.cursor),
            limit=call.query.limit + 1,
        )
    items, following = pagination.cut_page(found, call.query.limit, lambda one: one.id)
    return Reply(TokenPage(items=tuple(serialize_token(one) for one in items), next=following))


def create_token(call: Call) -> Reply:
    asked: NewToken = call.body
    scopes = {Scope(one) for one in asked.scopes}
    made = call.group_commit.submit(
        lambda tx: accounts.create_token(
            tx, _audit_context(call), call.required_project, asked.name, scopes, asked.days
        )
    )
    return Reply(CreatedToken(token=serialize_token(made.token), secret=made.text), 201)


def revoke_token(call: Call) -> Reply:
    there = call.group_commit.submit(
        lambda tx: accounts.revoke_token(tx, _audit_context(call), call.required_project.id, call.path["uid"])
    )
    if not there:
        raise ProblemError("not-found", NO_TOKEN)
    return Reply(None)


def list_members(call: Call) -> Reply:
    with call.store.read() as tx:
        found = users.load_members(tx, call.required_project.id)
    return Reply(ProjectMemberPage(items=tuple(serialize_member(one) for one in found)))


def set_member(call: Call) -> Reply:
    asked: RoleAssignment = call.body
    address, role = call.path["member"], ProjectRole(asked.role)
    member = call.group_commit.submit(
        lambda tx: accounts.set_member(
            tx, _audit_context(call), call.required_project.id, address, role, asked.name or ""
        )
    )
    return Reply(serialize_member(member))


def remove_member(call: Call) -> Reply:
    there = call.group_commit.submit(
        lambda tx: accounts.remove_member(
            tx, _audit_context(call), call.required_project.id, call.path["member"]
        )
    )
    if not there:
        raise ProblemError("not-found", NO_MEMBER)
    return Reply(None)


def change_project(call: Call) -> Reply:
    asked: ProjectPatch = call.body
    changed = asked.model_dump(mode="json", exclude_none=True)
    call.group_commit.submit(
        lambda tx: accounts.change_project(tx, _audit_context(call), call.required_project, **changed)
    )
    with call.store.read() as tx:
        found = find_project(tx, call.required_project.slug)
    assert found is not None
    return Reply(serialize_project(found))


def list_audit(call: Call) -> Reply:
    with call.store.read() as tx:
        found = audit_log.list_entries(
            tx,
            call.required_project.id,
            before=pagination.parse_cursor(call.query.cursor) or None,
            limit=call.query.limit + 1,
        )
    items, following = pagination.cut_page(found, call.query.limit, lambda one: one.id)
    return Reply(AuditEntryPage(items=tuple(_audit_shape(one) for one in items), next=following))


def _audit_context(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _audit_shape(line: audit_log.AuditEntry) -> AuditEntryShape:
    return AuditEntryShape(
        at=line.at,
        actor=line.actor,
        action=line.action,
        subject=line.subject,
        detail=dict(line.detail),
        request_id=line.request_id,
    )


OPERATIONS = (
    Operation(
        "change_project",
        "PATCH",
        "/projects/<project:project>",
        AccessRequirement.ADMIN,
        change_project,
        "Make a project public or private, archive it, name its repository, or say by what it is judged",
        body=ProjectPatch,
        answers={200: ProjectShape},
    ),
    Operation(
        "list_tokens",
        "GET",
        "/projects/<project:project>/tokens",
        AccessRequirement.ADMIN,
        list_tokens,
        "The tokens of a project, in the order they were made",
        query=PageQuery,
        answers={200: TokenPage},
    ),
    Operation(
        "create_token",
        "POST",
        "/projects/<project:project>/tokens",
        AccessRequirement.ADMIN,
        create_token,
        "Make a token; its text is in this answer only",
        body=NewToken,
        answers={201: CreatedToken},
    ),
    Operation(
        "revoke_token",
        "DELETE",
        "/projects/<project:project>/tokens/<uid:uid>",
        AccessRequirement.ADMIN,
        revoke_token,
        "Make a token, and all that was made with it, stop working",
        answers={204: None},
    ),
    Operation(
        "list_members",
        "GET",
        "/projects/<project:project>/members",
        AccessRequirement.ADMIN,
        list_members,
        "Who has a role in a project",
        answers={200: ProjectMemberPage},
    ),
    Operation(
        "set_member",
        "PUT",
        "/projects/<project:project>/members/<name:member>",
        AccessRequirement.ADMIN,
        set_member,
        "Give somebody a role",
        body=RoleAssignment,
        answers={200: ProjectMemberShape},
    ),
    Operation(
        "remove_member",
        "DELETE",
        "/projects/<project:project>/members/<name:member>",
        AccessRequirement.ADMIN,
        remove_member,
        "Take somebody's role, and the tokens he made, away",
        answers={204: None},
    ),
    Operation(
        "list_audit",
        "GET",
        "/projects/<project:project>/audit",
        AccessRequirement.ADMIN,
        list_audit,
        "Who changed what, newest first",
        query=PageQuery,
        answers={200: AuditEntryPage},
    ),
)
