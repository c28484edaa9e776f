"""Manage projects, members and tokens; each change is written with its audit entry in one transaction."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from perfci.auth.permissions import (
    EVERY_PROJECT_ID,
    AccessRequirement,
    ProjectRole,
    Scope,
    can_grant_scope,
    decide_access,
)
from perfci.auth.tokens import make_token
from perfci.config import ProjectTables, parse_project_override_tables
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.store.access import api_tokens, logins_and_server_secrets, users_and_roles
from perfci.store.access.api_tokens import Token
from perfci.store.projects import PRIVATE, Project, create_project, find_project, update_project

DEFAULT_TOKEN_DAYS = 90
MAX_TOKEN_DAYS = 365
PROVIDERS = ("github", "proxy")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its secret text, which is shown only once."""

    token: Token
    text: str = field(repr=False)


def ensure_project(tx: Session, context: AuditContext, slug: str) -> Project:
    """Return the project, created with its first run where the sender may create projects."""
    try:
        return find_project(tx, slug) or create_audited_project(tx, context, slug, PRIVATE)
    except PerfciError:  # a concurrent first upload created and committed it in between
        project = find_project(tx, slug)
        assert project is not None
        return project


def require_project(tx: Session, name: str) -> Project:
    """Find a project by name, or raise an error that says how to create it."""
    project = find_project(tx, name)
    if project is None:
        raise PerfciError(
            f"There is no project {name} in this store: make it with `perfci project create {name}`."
        )
    return project


def create_audited_project(tx: Session, context: AuditContext, slug: str, visibility: str) -> Project:
    """Create a project and record it in the audit log."""
    project = create_project(tx, slug, visibility, context.at)
    context.add_audit_entry(tx, "project.create", slug, project.id, {"visibility": visibility})
    return project


def create_token(
    tx: Session,
    context: AuditContext,
    project: Project | None,
    name: str,
    scopes: Collection[Scope],
    days: int = DEFAULT_TOKEN_DAYS,
) -> IssuedToken:
    """Create a token for one project or, for None, for all; it gets no scope that its creator lacks."""
    place = project.id if project else EVERY_PROJECT_ID
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise PerfciError(f"A token lives for 1 to {MAX_TOKEN_DAYS} days, not {days}.")
    if not scopes:
        raise PerfciError(f"A token needs a scope: one of {', '.join(Scope)}.")
    for scope in scopes:
        if not can_grant_scope(context.actor.role_in_project(place), scope) or not context.actor.has_scope(
            scope
        ):
            raise PerfciError(f"You may not give the scope {scope}: it does more than you may here.")
    minted, uid = make_token("u"), secrets.token_hex(6)
    scope_names = sorted(scopes)
    api_tokens.add_token(
        tx,
        uid,
        place,
        name,
        minted.hash,
        minted.last4,
        scope_names,
        context.actor.name,
        context.at,
        context.at + timedelta(days=days),
    )
    context.add_audit_entry(
        tx, "token.create", uid, place, {"name": name, "scopes": scope_names, "days": days}
    )
    token = api_tokens.find_token_by_uid(tx, place, uid)
    assert token is not None
    return IssuedToken(token, minted.text)


def revoke_token(tx: Session, context: AuditContext, project_id: int, uid: str) -> bool:
    """Revoke a token and all tokens created with it; return False if there is none."""
    token = api_tokens.find_token_by_uid(tx, project_id, uid)
    if token is None:
        return False
    _revoke_tokens(tx, context, [token])
    return True


def set_member_role(
    tx: Session, context: AuditContext, project_id: int, address: str, role: ProjectRole, name: str = ""
) -> users_and_roles.ProjectMember:
    """Set the role of a member and revoke those of their tokens that the new role may not grant."""
    provider, subject = parse_member_identity(address)
    user = users_and_roles.ensure_user(tx, provider, subject, name or subject, context.at)
    before = users_and_roles.set_project_role(tx, user.id, project_id, role)
    if before != role:
        context.add_audit_entry(tx, "member.set", address, project_id, {"before": before, "after": role})
    excessive = [
        token
        for token in api_tokens.load_unrevoked_tokens_of_creator(tx, user.audit_name, project_id)
        if not all(can_grant_scope(role, Scope(scope)) for scope in token.scopes)
    ]
    _revoke_tokens(tx, context, excessive)
    return users_and_roles.ProjectMember(user, role)


def remove_member(tx: Session, context: AuditContext, project_id: int, address: str) -> bool:
    """Remove a member and revoke their tokens in the project; return False if they were none."""
    provider, subject = parse_member_identity(address)
    user = users_and_roles.find_user(tx, provider, subject)
    if user is None or not users_and_roles.remove_project_member(tx, user.id, project_id):
        return False
    if project_id == EVERY_PROJECT_ID:
        logins_and_server_secrets.end_user_logins(tx, user.id)
    context.add_audit_entry(tx, "member.remove", address, project_id)
    tokens = api_tokens.load_unrevoked_tokens_of_creator(tx, user.audit_name, project_id)
    _revoke_tokens(tx, context, tokens)
    return True


def change_project(
    tx: Session,
    context: AuditContext,
    project: Project,
    *,
    visibility: str | None = None,
    archived: bool | None = None,
    repository: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Change the given attributes of a project. ``settings`` replaces all of its tables."""
    if settings is not None:
        _require_table_permission(context, parse_project_override_tables(settings))
    request = {"visibility": visibility, "archived": archived, "repository": repository, "settings": settings}
    changes = {name: value for name, value in request.items() if value is not None}
    columns: dict[str, Any] = dict(changes)
    if (archive := columns.pop("archived", None)) is not None:
        columns["archived_at"] = context.at if archive else None
    if columns:
        update_project(tx, project.id, **columns)
        context.add_audit_entry(tx, "project.set", project.slug, project.id, changes)


def _require_table_permission(context: AuditContext, tables: ProjectTables) -> None:
    """Require server administration for regular expressions: a slow one would block the judge worker."""
    expressions = bool(tables.policy or (tables.history and tables.history.canaries))
    if expressions and not decide_access(context.actor, None, AccessRequirement.SERVER).allowed:
        raise PerfciError(
            "The expressions of [[policy]] and of canaries are searched by the judge of all projects: "
            "only an admin of all projects may set them. "
            "The thresholds of [judge] and the rest of [history] you may set."
        )


def parse_member_identity(address: str) -> tuple[str, str]:
    """Parse the provider and the subject of a user from 'github/123' or 'proxy/ada'."""
    provider, slash, subject = address.partition("/")
    if provider not in PROVIDERS or not slash or not subject.isprintable() or not 1 <= len(subject) <= 200:
        raise PerfciError(f"Somebody is named as github/NUMBER or proxy/NAME, not as {address!r}.")
    if provider == "github" and not (subject.isascii() and subject.isdigit()):
        raise PerfciError(
            f"GitHub gives names to others when somebody leaves: expected the number, as in github/583231, "
            f"not {address!r}. It is the id that https://api.github.com/users/NAME shows."
        )
    return provider, subject


def _revoke_tokens(tx: Session, context: AuditContext, to_revoke: Iterable[Token]) -> None:
    """Revoke tokens and, recursively, those created with them: a stolen token may have created others."""
    for token in to_revoke:
        if api_tokens.revoke_token(tx, token.project_id, token.uid, context.at):
            context.add_audit_entry(tx, "token.revoke", token.uid, token.project_id, {"name": token.name})
            made_with_it = api_tokens.load_unrevoked_tokens_of_creator(
                tx, f"token:{token.uid}", EVERY_PROJECT_ID
            )
            _revoke_tokens(tx, context, made_with_it)
