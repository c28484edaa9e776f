"""Access decisions for actors, projects and requirements."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from perfci.auth.permissions import (
    ANONYMOUS,
    EVERY_PROJECT_ID,
    LOCAL,
    NOT_FOUND,
    READ_ONLY_LOCAL,
    AccessRequirement,
    Actor,
    ProjectRole,
    Scope,
    can_grant_scope,
    can_read,
    decide_access,
    decide_access_before_body,
)


@dataclass(frozen=True)
class Project:
    id: int = 1
    visibility: str = "private"
    archived: bool = False


def person(**roles: ProjectRole) -> Actor:
    return Actor("user", "user:github/7", {int(place[1:]): role for place, role in roles.items()})


def token(*scopes: Scope, project: int = 1) -> Actor:
    return Actor("token", "token:ab12", {project: ProjectRole.ADMIN}, frozenset(scopes))


def server_admin() -> Actor:
    return Actor("user", "user:github/1", {EVERY_PROJECT_ID: ProjectRole.ADMIN})


NEEDS = (
    AccessRequirement.PUBLIC,
    AccessRequirement.READ,
    AccessRequirement.WRITE_RESULTS,
    AccessRequirement.TRIAGE,
    AccessRequirement.ADMIN,
    AccessRequirement.SERVER,
)
IN_A_PRIVATE_PROJECT: list[tuple[Actor, tuple[int, ...]]] = [
    (ANONYMOUS, (200, 404, 401, 401, 401, 401)),
    (person(), (200, 404, 404, 404, 404, 403)),
    (person(p2=ProjectRole.ADMIN), (200, 404, 404, 404, 404, 403)),
    (person(p1=ProjectRole.READER), (200, 200, 403, 403, 403, 403)),
    (person(p1=ProjectRole.SHERIFF), (200, 200, 403, 200, 403, 403)),
    (person(p1=ProjectRole.ADMIN), (200, 200, 200, 200, 200, 403)),
    (server_admin(), (200, 200, 200, 200, 200, 200)),
    (token(Scope.READ), (200, 200, 403, 403, 403, 403)),
    (token(Scope.WRITE), (200, 403, 200, 403, 403, 403)),
    (token(Scope.ADMIN), (200, 200, 200, 200, 200, 403)),
    (token(Scope.ADMIN, project=2), (200, 404, 404, 404, 404, 403)),
    (token(Scope.ADMIN, project=EVERY_PROJECT_ID), (200, 200, 200, 200, 200, 200)),
    (LOCAL, (200, 200, 200, 200, 200, 200)),
    (READ_ONLY_LOCAL, (200, 200, 403, 403, 403, 403)),
]


@pytest.mark.parametrize(("actor", "expected"), IN_A_PRIVATE_PROJECT)
def test_decides_in_a_private_project_by_the_table(actor: Actor, expected: tuple[int, ...]) -> None:
    status = tuple(decide_access(actor, Project(), need).status for need in NEEDS)

    assert status == expected
    assert all(
        decide_access(actor, Project(), need).allowed == (status[NEEDS.index(need)] == 200) for need in NEEDS
    )


@pytest.mark.parametrize(("actor", "expected"), IN_A_PRIVATE_PROJECT)
def test_lets_everybody_read_a_public_project_and_names_the_missing_role(
    actor: Actor, expected: tuple[int, ...]
) -> None:
    public = Project(visibility="public")

    messages = tuple(decide_access(actor, public, need).status for need in NEEDS)

    assert messages == (200, 200, *(403 if status == 404 else status for status in expected[2:]))


@pytest.mark.parametrize("need", NEEDS)
@pytest.mark.parametrize(
    "actor", [ANONYMOUS, person(), person(p2=ProjectRole.ADMIN), token(Scope.ADMIN, project=2)]
)
def test_answers_outsiders_alike_for_a_private_and_a_missing_project(
    actor: Actor, need: AccessRequirement
) -> None:
    assert decide_access(actor, Project(), need) == decide_access(actor, None, need)


def test_answers_404_to_a_server_admin_for_a_missing_project() -> None:
    permission = decide_access(LOCAL, None, AccessRequirement.READ)

    assert (permission.status, permission.reason) == (404, NOT_FOUND)


def test_refuses_changes_of_an_archived_project() -> None:
    archived = Project(archived=True)
    admin = person(p1=ProjectRole.ADMIN)

    assert [decide_access(admin, archived, need).status for need in NEEDS] == [200, 200, 403, 403, 200, 403]


def test_names_the_scope_that_a_token_lacks() -> None:
    permission = decide_access(token(Scope.READ), Project(), AccessRequirement.WRITE_RESULTS)

    assert permission.reason == "This needs a token of the scope results:write; yours has results:read."


def test_uses_the_higher_of_project_role_and_server_role() -> None:
    both = Actor("user", "u", {1: ProjectRole.READER, EVERY_PROJECT_ID: ProjectRole.SHERIFF})

    assert both.role_in_project(1) is ProjectRole.SHERIFF


def test_refuses_callers_that_no_project_could_allow_before_lookup() -> None:
    requests = [ANONYMOUS, token(Scope.READ), token(Scope.WRITE), person(), READ_ONLY_LOCAL, LOCAL]

    assert [decide_access_before_body(item, AccessRequirement.WRITE_RESULTS).status for item in requests] == [
        401,
        403,
        200,
        200,
        403,
        200,
    ]
    assert decide_access_before_body(ANONYMOUS, AccessRequirement.PUBLIC).allowed


def test_shares_a_visibility_key_among_callers_with_the_same_view() -> None:
    assert (
        person(p1=ProjectRole.READER).visibility_cache_key
        == person(p1=ProjectRole.READER).visibility_cache_key
    )
    assert (
        len(
            {
                item.visibility_cache_key
                for item in (ANONYMOUS, person(), person(p1=ProjectRole.READER), LOCAL, READ_ONLY_LOCAL)
            }
        )
        == 5
    )


def test_shows_a_private_project_to_its_members_only() -> None:
    assert can_read(person(p1=ProjectRole.READER), Project())
    assert not can_read(ANONYMOUS, Project())


def test_lets_no_role_grant_more_than_it_has() -> None:
    granted = [
        (role, [scope for scope in Scope if can_grant_scope(role, scope)]) for role in (None, *ProjectRole)
    ]

    assert granted == [
        (None, []),
        (ProjectRole.READER, [Scope.READ]),
        (ProjectRole.SHERIFF, [Scope.READ]),
        (ProjectRole.ADMIN, list(Scope)),
    ]
