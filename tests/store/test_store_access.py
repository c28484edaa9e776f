"""People, roles, tokens, logins and the audit log in the database."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.access import api_tokens, audit_log, logins_and_server_secrets, users_and_roles
from perfci.store.column_conversions import ABSENT
from tests.support.builders import NOON

LATER = NOON + timedelta(days=1)


def a_token(store: Store, uid: str = "ab12", project_id: int = 1, created_by: str = "user:github/7") -> None:
    with store.begin() as tx:
        api_tokens.add_token(
            tx, uid, project_id, "ci", uid * 16, "wxyz", ["results:write"], created_by, NOON, LATER
        )


def test_finds_a_user_by_number_and_updates_the_name(store: Store) -> None:
    with store.begin() as tx:
        first = users_and_roles.ensure_user(tx, "github", "7", "ada", NOON)
        again = users_and_roles.ensure_user(tx, "github", "7", "ada-lovelace", LATER)

    assert (again.id, again.name, again.audit_name) == (first.id, "ada-lovelace", "user:github/7")


def test_a_user_has_one_role_in_each_project(store: Store) -> None:
    with store.begin() as tx:
        ada = users_and_roles.ensure_user(tx, "github", "7", "ada", NOON)
        before = [
            users_and_roles.set_project_role(tx, ada.id, 1, "reader"),
            users_and_roles.set_project_role(tx, ada.id, 1, "admin"),
        ]
        users_and_roles.set_project_role(tx, ada.id, ABSENT, "sheriff")

    assert before == [None, "reader"]
    with store.read() as tx:
        assert users_and_roles.load_roles_by_project(tx, ada.id) == {1: "admin", ABSENT: "sheriff"}
        assert [
            (member.user.name, member.role) for member in users_and_roles.load_project_members(tx, 1)
        ] == [("ada", "admin")]


def test_removes_a_member_once(store: Store) -> None:
    with store.begin() as tx:
        ada = users_and_roles.ensure_user(tx, "github", "7", "ada", NOON)
        users_and_roles.set_project_role(tx, ada.id, 1, "reader")

        assert [
            users_and_roles.remove_project_member(tx, ada.id, 1),
            users_and_roles.remove_project_member(tx, ada.id, 1),
        ] == [True, False]


def test_finds_a_token_by_its_hash_only(store: Store) -> None:
    a_token(store)

    with store.read() as tx:
        token = api_tokens.find_token_by_hash(tx, "ab12" * 16)
        assert api_tokens.find_token_by_hash(tx, "cd34" * 16) is None
    assert token is not None
    assert (token.uid, token.scopes, token.is_valid(NOON), token.is_valid(LATER)) == (
        "ab12",
        ("results:write",),
        True,
        False,
    )


def test_revokes_a_token_once_and_only_in_its_own_project(store: Store) -> None:
    a_token(store)

    with store.begin() as tx:
        messages = [api_tokens.revoke_token(tx, project, "ab12", NOON) for project in (2, 1, 1)]

    assert messages == [False, True, False]


def test_revokes_the_tokens_an_actor_created(store: Store) -> None:
    a_token(store, "ab12", 1)
    a_token(store, "cd34", 2)
    a_token(store, "ef56", 1, created_by="local")

    with store.begin() as tx:
        in_project = api_tokens.load_unrevoked_tokens_of_creator(tx, "user:github/7", 1)
        everywhere = api_tokens.load_unrevoked_tokens_of_creator(tx, "user:github/7", ABSENT)
        revoked = [api_tokens.revoke_token(tx, 1, item.uid, NOON) for item in in_project]

    assert ([item.uid for item in in_project], [item.uid for item in everywhere], revoked) == (
        ["ab12"],
        ["ab12", "cd34"],
        [True],
    )


def test_finds_a_login_by_the_hash_of_its_cookie(store: Store) -> None:
    with store.begin() as tx:
        ada = users_and_roles.ensure_user(tx, "github", "7", "ada", NOON)
        logins_and_server_secrets.add_login(tx, ada.id, "e" * 64, "csrf", NOON, LATER, b"sealed")

    with store.read() as tx:
        login = logins_and_server_secrets.find_login(tx, "e" * 64)
    assert login is not None
    assert (login.user.name, login.csrf, login.expires_at, login.grant) == ("ada", "csrf", LATER, b"sealed")


def test_ends_logins_that_have_expired(store: Store) -> None:
    with store.begin() as tx:
        ada = users_and_roles.ensure_user(tx, "github", "7", "ada", NOON)
        logins_and_server_secrets.add_login(tx, ada.id, "e" * 64, "csrf", NOON, LATER)

        assert [logins_and_server_secrets.delete_expired_logins(tx, moment) for moment in (NOON, LATER)] == [
            0,
            1,
        ]


def test_creates_a_server_secret_once_for_all_processes(store: Store) -> None:
    with store.begin() as tx:
        first = logins_and_server_secrets.ensure_server_secret(tx, "cookie", lambda: b"one", NOON)
        second = logins_and_server_secrets.ensure_server_secret(tx, "cookie", lambda: b"two", NOON)

    assert first == second == b"one"


def test_lists_audit_entries_newest_first_in_pages(store: Store) -> None:
    with store.begin() as tx:
        for number in range(3):
            audit_log.add_entry(
                tx, "local", "token.create", f"token {number}", project_id=1, at=NOON, detail={"n": number}
            )
        audit_log.add_entry(tx, "local", "project.create", "other", at=NOON)

    with store.read() as tx:
        first = audit_log.list_entries(tx, 1, limit=2)
        rest = audit_log.list_entries(tx, 1, before=first[-1].id)
        assert [item.subject for item in (*first, *rest)] == ["token 2", "token 1", "token 0"]
        assert [entry.subject for entry in audit_log.list_entries(tx, ABSENT)] == ["other"]
        assert audit_log.has_entry_since(tx, 1, "local", "token.create", NOON)
        assert not audit_log.has_entry_since(tx, 1, "local", "token.create", LATER)


@pytest.mark.parametrize("statement", ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"])
def test_audit_entries_cannot_be_deleted(store: Store, statement: str) -> None:
    with store.begin() as tx:
        audit_log.add_entry(tx, "local", "token.create", "token", at=NOON)

    with pytest.raises((PerfciError, SQLAlchemyError), match="never deleted or edited"), store.begin() as tx:
        tx.execute(sa.text(statement))
