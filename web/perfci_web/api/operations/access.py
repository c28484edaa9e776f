"""Tokens, members, the audit log, and who may see a project."""

from __future__ import annotations

from perfci.auth.permissions import Need, Role, Scope
from perfci.net.shapes import Paged
from perfci.net.shapes.access import (
    AuditPage,
    AuditShape,
    MemberPage,
    MemberShape,
    NewRole,
    NewToken,
    ProjectChange,
    TokenMade,
    TokenPage,
)
from perfci.net.shapes.runs import ProjectShape
from perfci.service.accounts import accounts
from perfci.service.accounts.backends import member_shape, project_shape, token_shape
from perfci.service.audit_context import AuditContext
from perfci.store.access import api_tokens, audit_log, users
from perfci.store.projects import project
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

NO_TOKEN = "There is no token of this uid here."
NO_MEMBER = "Nobody of this name is a member here."


def list_tokens(call: Call) -> Reply:
    with call.store.read() as tx:
        found = api_tokens.tokens_of(
            tx, call.the_project.id, after=pagination.read(call.query.cursor), limit=call.query.limit + 1
        )
    items, following = pagination.page(found, call.query.limit, lambda one: one.id)
    return Reply(TokenPage(items=tuple(token_shape(one) for one in items), next=following))


def create_token(call: Call) -> Reply:
    asked: NewToken = call.body
    scopes = {Scope(one) for one in asked.scopes}
    made = call.group.submit(
        lambda tx: accounts.create_token(tx, _act(call), call.the_project, asked.name, scopes, asked.days)
    )
    return Reply(TokenMade(token=token_shape(made.token), text=made.text), 201)


def revoke_token(call: Call) -> Reply:
    there = call.group.submit(lambda tx: accounts.revoke_token(tx, _act(call), call.the_project.id, call.path["uid"]))
    if not there:
        raise Declined("not-found", NO_TOKEN)
    return Reply(None)


def list_members(call: Call) -> Reply:
    with call.store.read() as tx:
        found = users.members(tx, call.the_project.id)
    return Reply(MemberPage(items=tuple(member_shape(one) for one in found)))


def set_member(call: Call) -> Reply:
    asked: NewRole = call.body
    address, role = call.path["member"], Role(asked.role)
    member = call.group.submit(
        lambda tx: accounts.set_member(tx, _act(call), call.the_project.id, address, role, asked.name or "")
    )
    return Reply(member_shape(member))


def remove_member(call: Call) -> Reply:
    there = call.group.submit(
        lambda tx: accounts.remove_member(tx, _act(call), call.the_project.id, call.path["member"])
    )
    if not there:
        raise Declined("not-found", NO_MEMBER)
    return Reply(None)


def change_project(call: Call) -> Reply:
    asked: ProjectChange = call.body
    changed = asked.model_dump(mode="json", exclude_none=True)
    call.group.submit(lambda tx: accounts.change_project(tx, _act(call), call.the_project, **changed))
    with call.store.read() as tx:
        found = project(tx, call.the_project.slug)
    assert found is not None
    return Reply(project_shape(found))


def list_audit(call: Call) -> Reply:
    with call.store.read() as tx:
        found = audit_log.lines(
            tx, call.the_project.id, before=pagination.read(call.query.cursor) or None, limit=call.query.limit + 1
        )
    items, following = pagination.page(found, call.query.limit, lambda one: one.id)
    return Reply(AuditPage(items=tuple(_line(one) for one in items), next=following))


def _act(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _line(found: audit_log.AuditLine) -> AuditShape:
    return AuditShape(
        at=found.at,
        actor=found.actor,
        action=found.action,
        subject=found.subject,
        detail=dict(found.detail),
        request=found.request_id,
    )


OPERATIONS = (
    Operation(
        "change_project", "PATCH", "/projects/<project:project>", Need.ADMIN, change_project,
        "Make a project public or private, archive it, name its repository, or say by what it is judged",
        body=ProjectChange, answers={200: ProjectShape},
    ),
    Operation(
        "list_tokens", "GET", "/projects/<project:project>/tokens", Need.ADMIN, list_tokens,
        "The tokens of a project, in the order they were made", query=Paged, answers={200: TokenPage},
    ),
    Operation(
        "create_token", "POST", "/projects/<project:project>/tokens", Need.ADMIN, create_token,
        "Make a token; its text is in this answer only", body=NewToken, answers={201: TokenMade},
    ),
    Operation(
        "revoke_token", "DELETE", "/projects/<project:project>/tokens/<uid:uid>", Need.ADMIN, revoke_token,
        "Make a token, and all that was made with it, stop working", answers={204: None},
    ),
    Operation(
        "list_members", "GET", "/projects/<project:project>/members", Need.ADMIN, list_members,
        "Who has a role in a project", answers={200: MemberPage},
    ),
    Operation(
        "set_member", "PUT", "/projects/<project:project>/members/<name:member>", Need.ADMIN, set_member,
        "Give somebody a role", body=NewRole, answers={200: MemberShape},
    ),
    Operation(
        "remove_member", "DELETE", "/projects/<project:project>/members/<name:member>", Need.ADMIN, remove_member,
        "Take somebody's role, and the tokens he made, away", answers={204: None},
    ),
    Operation(
        "list_audit", "GET", "/projects/<project:project>/audit", Need.ADMIN, list_audit,
        "Who changed what, newest first", query=Paged, answers={200: AuditPage},
    ),
)  # fmt: skip
