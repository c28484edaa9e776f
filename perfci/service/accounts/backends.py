"""Where tokens, members and projects are kept: in the store at hand, or at a server that is asked for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlalchemy.orm import Session

from perfci.auth.permissions import EVERYWHERE, LOCAL, Role, Scope
from perfci.model import PerfciError
from perfci.net.api_client import Client, Refused
from perfci.net.shapes.access import MemberShape, NewRole, NewToken, ProjectChange, TokenMade, TokenShape
from perfci.net.shapes.runs import ProjectShape, Visibility
from perfci.service.accounts import accounts
from perfci.service.accounts.accounts import new_project
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.access import api_tokens as tokens
from perfci.store.access import users
from perfci.store.projects import Project, project, projects

ALL_PROJECTS = "What is for all projects is kept where the server's store is: do it there, with --db."


class Registry(Protocol):
    """A ``place`` is the name of a project; none stands for all of them."""

    def projects(self) -> Sequence[ProjectShape]: ...

    def create_project(self, name: str, visibility: Visibility) -> ProjectShape: ...

    def change_project(self, name: str, change: ProjectChange) -> ProjectShape: ...

    def tokens(self, place: str | None) -> Sequence[TokenShape]: ...

    def create_token(self, place: str | None, wanted: NewToken) -> TokenMade: ...

    def revoke_token(self, place: str | None, uid: str) -> bool: ...

    def members(self, place: str | None) -> Sequence[MemberShape]: ...

    def set_member(self, place: str | None, member: str, role: Role) -> None: ...

    def remove_member(self, place: str | None, member: str) -> bool: ...


class StoreRegistry:
    """Whoever has the store may do everything in it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def projects(self) -> Sequence[ProjectShape]:
        with self._store.read() as tx:
            return [project_shape(one) for one in projects(tx)]

    def create_project(self, name: str, visibility: Visibility) -> ProjectShape:
        with self._store.begin() as tx:
            return project_shape(new_project(tx, _act(), name, visibility))

    def change_project(self, name: str, change: ProjectChange) -> ProjectShape:
        asked: dict[str, Any] = change.model_dump(mode="json", exclude_none=True)
        with self._store.begin() as tx:
            accounts.change_project(tx, _act(), the_project(tx, name), **asked)
            return project_shape(the_project(tx, name))

    def tokens(self, place: str | None) -> Sequence[TokenShape]:
        with self._store.read() as tx:
            return [token_shape(one) for one in tokens.tokens_of(tx, _id_of(tx, place))]

    def create_token(self, place: str | None, wanted: NewToken) -> TokenMade:
        scopes = {Scope(one) for one in wanted.scopes}
        with self._store.begin() as tx:
            where = None if place is None else the_project(tx, place)
            made = accounts.create_token(tx, _act(), where, wanted.name, scopes, wanted.days)
        return TokenMade(token=token_shape(made.token), text=made.text)

    def revoke_token(self, place: str | None, uid: str) -> bool:
        with self._store.begin() as tx:
            return accounts.revoke_token(tx, _act(), _id_of(tx, place), uid)

    def members(self, place: str | None) -> Sequence[MemberShape]:
        with self._store.read() as tx:
            return [member_shape(one) for one in users.members(tx, _id_of(tx, place))]

    def set_member(self, place: str | None, member: str, role: Role) -> None:
        with self._store.begin() as tx:
            accounts.set_member(tx, _act(), _id_of(tx, place), member, role)

    def remove_member(self, place: str | None, member: str) -> bool:
        with self._store.begin() as tx:
            return accounts.remove_member(tx, _act(), _id_of(tx, place), member)


class ServerRegistry:
    """A server does what the caller's token may do."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def projects(self) -> Sequence[ProjectShape]:
        return self._client.projects()

    def create_project(self, name: str, visibility: Visibility) -> ProjectShape:
        return self._client.create_project(name, visibility)

    def change_project(self, name: str, change: ProjectChange) -> ProjectShape:
        return self._client.change_project(name, change)

    def tokens(self, place: str | None) -> Sequence[TokenShape]:
        return list(self._client.tokens(_one(place)))

    def create_token(self, place: str | None, wanted: NewToken) -> TokenMade:
        return self._client.create_token(_one(place), wanted)

    def revoke_token(self, place: str | None, uid: str) -> bool:
        return _found(lambda: self._client.revoke_token(_one(place), uid))

    def members(self, place: str | None) -> Sequence[MemberShape]:
        return list(self._client.members(_one(place)))

    def set_member(self, place: str | None, member: str, role: Role) -> None:
        self._client.set_member(_one(place), member, NewRole(role=role.value))

    def remove_member(self, place: str | None, member: str) -> bool:
        return _found(lambda: self._client.remove_member(_one(place), member))


def project_shape(found: Project) -> ProjectShape:
    told = {name: getattr(found, name) for name in ("visibility", "version", "archived", "settings")}
    return ProjectShape.model_validate({"project": found.slug} | told)


def token_shape(found: tokens.Token) -> TokenShape:
    return TokenShape.model_validate({name: getattr(found, name) for name in TokenShape.model_fields})


def member_shape(found: users.Member) -> MemberShape:
    return MemberShape.model_validate({"member": found.user.address, "name": found.user.name, "role": found.role})


def _id_of(tx: Session, place: str | None) -> int:
    return EVERYWHERE if place is None else the_project(tx, place).id


def the_project(tx: Session, name: str) -> Project:
    found = project(tx, name)
    if found is None:
        raise PerfciError(f"There is no project {name} in this store: make it with `perfci project create {name}`.")
    return found


def _one(place: str | None) -> str:
    if place is None:
        raise PerfciError(ALL_PROJECTS)
    return place


def _found(job: Callable[[], None]) -> bool:
    """Whether there was something to take away; a project that is not there is told like what is not in it."""
    try:
        job()
    except Refused as refused:
        if refused.status == 404:
            return False
        raise
    return True


def _act() -> AuditContext:
    return AuditContext(LOCAL, datetime.now(UTC))
