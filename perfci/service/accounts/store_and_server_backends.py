"""Backends of account management: the local store, or the API of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from sqlalchemy.orm import Session

from perfci.auth.permissions import EVERY_PROJECT_ID, LOCAL, ProjectRole, Scope
from perfci.model import PerfciError
from perfci.net.api_client import ApiClient, ApiError
from perfci.net.api_schemas.projects_and_access import (
    CreatedToken,
    NewToken,
    ProjectMemberShape,
    ProjectPatch,
    ProjectShape,
    RoleAssignment,
    TokenShape,
    Visibility,
)
from perfci.service.accounts import projects_members_tokens
from perfci.service.accounts.projects_members_tokens import create_audited_project, require_project
from perfci.service.accounts.serialize_accounts import serialize_member, serialize_project, serialize_token
from perfci.service.audit_context import AuditContext
from perfci.service.delete_runs_series_projects import (
    carry_out_requested_deletions,
    request_project_deletion,
    request_run_deletion,
    request_series_deletion,
)
from perfci.store import Store
from perfci.store.access import api_tokens as tokens
from perfci.store.access import users_and_roles
from perfci.store.projects import Project, load_projects

SERVER_ONLY_MESSAGE = "What is for all projects is kept where the server's store is: do it there, with --db."


class AccountsBackend(Protocol):
    """Account operations. A ``project_name`` of None stands for all projects."""

    def list_projects(self) -> Sequence[ProjectShape]: ...

    def create_project(self, name: str, visibility: Visibility) -> ProjectShape: ...

    def change_project(self, name: str, change: ProjectPatch) -> ProjectShape: ...

    def list_tokens(self, project_name: str | None) -> Sequence[TokenShape]: ...

    def create_token(self, project_name: str | None, request: NewToken) -> CreatedToken: ...

    def revoke_token(self, project_name: str | None, uid: str) -> bool: ...

    def list_members(self, project_name: str | None) -> Sequence[ProjectMemberShape]: ...

    def set_member_role(self, project_name: str | None, member: str, role: ProjectRole) -> None: ...

    def remove_member(self, project_name: str | None, member: str) -> bool: ...

    def delete_run(self, project_name: str, key: str) -> bool: ...

    def delete_series(self, project_name: str, identity: str) -> bool: ...

    def delete_project(self, project_name: str) -> None: ...


class StoreAccountsBackend:
    """Accounts in the local store, with all permissions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list_projects(self) -> Sequence[ProjectShape]:
        with self._store.read() as tx:
            return [serialize_project(project) for project in load_projects(tx)]

    def create_project(self, name: str, visibility: Visibility) -> ProjectShape:
        with self._store.begin() as tx:
            return serialize_project(create_audited_project(tx, _build_local_context(), name, visibility))

    def change_project(self, name: str, change: ProjectPatch) -> ProjectShape:
        changes: dict[str, Any] = change.model_dump(mode="json", exclude_none=True)
        with self._store.begin() as tx:
            projects_members_tokens.change_project(
                tx, _build_local_context(), require_project(tx, name), **changes
            )
            return serialize_project(require_project(tx, name))

    def list_tokens(self, project_name: str | None) -> Sequence[TokenShape]:
        with self._store.read() as tx:
            return [
                serialize_token(token) for token in tokens.list_tokens(tx, _get_project_id(tx, project_name))
            ]

    def create_token(self, project_name: str | None, request: NewToken) -> CreatedToken:
        scopes = {Scope(scope) for scope in request.scopes}
        with self._store.begin() as tx:
            where = None if project_name is None else require_project(tx, project_name)
            issued = projects_members_tokens.create_token(
                tx, _build_local_context(), where, request.name, scopes, request.days
            )
        return CreatedToken(token=serialize_token(issued.token), secret=issued.text)

    def revoke_token(self, project_name: str | None, uid: str) -> bool:
        with self._store.begin() as tx:
            return projects_members_tokens.revoke_token(
                tx, _build_local_context(), _get_project_id(tx, project_name), uid
            )

    def list_members(self, project_name: str | None) -> Sequence[ProjectMemberShape]:
        with self._store.read() as tx:
            return [
                serialize_member(member)
                for member in users_and_roles.load_project_members(tx, _get_project_id(tx, project_name))
            ]

    def set_member_role(self, project_name: str | None, member: str, role: ProjectRole) -> None:
        with self._store.begin() as tx:
            projects_members_tokens.set_member_role(
                tx, _build_local_context(), _get_project_id(tx, project_name), member, role
            )

    def remove_member(self, project_name: str | None, member: str) -> bool:
        with self._store.begin() as tx:
            return projects_members_tokens.remove_member(
                tx, _build_local_context(), _get_project_id(tx, project_name), member
            )

    def delete_run(self, project_name: str, key: str) -> bool:
        return self._delete(project_name, partial(request_run_deletion, key=key))

    def delete_series(self, project_name: str, identity: str) -> bool:
        return self._delete(project_name, partial(request_series_deletion, identity=identity))

    def delete_project(self, project_name: str) -> None:
        self._delete(project_name, request_project_deletion)

    def _delete(self, project_name: str, request: Callable[[Session, AuditContext, Project], bool]) -> bool:
        """Record a deletion and carry it out; return False where there is nothing to delete."""
        context = _build_local_context()
        with self._store.begin() as tx:
            was_recorded = request(tx, context, require_project(tx, project_name))
        carry_out_requested_deletions(self._store, context.at)
        return was_recorded


class ServerAccountsBackend:
    """Accounts of a server, with the permissions of the caller's token."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def list_projects(self) -> Sequence[ProjectShape]:
        return self._client.list_projects()

    def create_project(self, name: str, visibility: Visibility) -> ProjectShape:
        return self._client.create_project(name, visibility)

    def change_project(self, name: str, change: ProjectPatch) -> ProjectShape:
        return self._client.change_project(name, change)

    def list_tokens(self, project_name: str | None) -> Sequence[TokenShape]:
        return list(self._client.list_tokens(_require_project_name(project_name)))

    def create_token(self, project_name: str | None, request: NewToken) -> CreatedToken:
        return self._client.create_token(_require_project_name(project_name), request)

    def revoke_token(self, project_name: str | None, uid: str) -> bool:
        return _was_removed(lambda: self._client.revoke_token(_require_project_name(project_name), uid))

    def list_members(self, project_name: str | None) -> Sequence[ProjectMemberShape]:
        return list(self._client.list_members(_require_project_name(project_name)))

    def set_member_role(self, project_name: str | None, member: str, role: ProjectRole) -> None:
        self._client.set_member_role(
            _require_project_name(project_name), member, RoleAssignment(role=role.value)
        )

    def remove_member(self, project_name: str | None, member: str) -> bool:
        return _was_removed(lambda: self._client.remove_member(_require_project_name(project_name), member))

    def delete_run(self, project_name: str, key: str) -> bool:
        return _was_removed(lambda: self._client.delete_run(project_name, key))

    def delete_series(self, project_name: str, identity: str) -> bool:
        return _was_removed(lambda: self._client.delete_series(project_name, identity))

    def delete_project(self, project_name: str) -> None:
        self._client.delete_project(project_name)


def _get_project_id(tx: Session, project_name: str | None) -> int:
    return EVERY_PROJECT_ID if project_name is None else require_project(tx, project_name).id


def _require_project_name(project_name: str | None) -> str:
    if project_name is None:
        raise PerfciError(SERVER_ONLY_MESSAGE)
    return project_name


def _was_removed(remove: Callable[[], None]) -> bool:
    """Run a removal; return False where the server answers 404, for the project or the item."""
    try:
        remove()
    except ApiError as refused:
        if refused.status == 404:
            return False
        raise
    return True


def _build_local_context() -> AuditContext:
    return AuditContext(LOCAL, datetime.now(UTC))
