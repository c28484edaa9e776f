"""Who may do what with a project."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from perfci.auth.permissions import (
    ANONYMOUS,
    EVERYWHERE,
    LOCAL,
    LOOKER,
    NOT_HERE,
    Actor,
    Need,
    Role,
    Scope,
    decide,
    decide_before,
    may_grant,
    may_see,
)


@dataclass(frozen=True)
class Project:
    id: int = 1
    visibility: str = "private"
    archived: bool = False


def person(**roles: Role) -> Actor:
    return Actor("user", "user:github/7", {int(place[1:]): role for place, role in roles.items()})


def token(*scopes: Scope, project: int = 1) -> Actor:
    return Actor("token", "token:ab12", {project: Role.ADMIN}, frozenset(scopes))


def server_admin() -> Actor:
    return Actor("user", "user:github/1", {EVERYWHERE: Role.ADMIN})


NEEDS = (Need.PUBLIC, Need.READ, Need.WRITE_RESULTS, Need.TRIAGE, Need.ADMIN, Need.SERVER)
IN_A_PRIVATE_PROJECT: list[tuple[Actor, tuple[int, ...]]] = [
    (ANONYMOUS, (200, 404, 401, 401, 401, 401)),
    (person(), (200, 404, 404, 404, 404, 403)),
    (person(p2=Role.ADMIN), (200, 404, 404, 404, 404, 403)),
    (person(p1=Role.READER), (200, 200, 403, 403, 403, 403)),
    (person(p1=Role.SHERIFF), (200, 200, 403, 200, 403, 403)),
    (person(p1=Role.ADMIN), (200, 200, 200, 200, 200, 403)),
    (server_admin(), (200, 200, 200, 200, 200, 200)),
    (token(Scope.READ), (200, 200, 403, 403, 403, 403)),
    (token(Scope.WRITE), (200, 403, 200, 403, 403, 403)),
    (token(Scope.ADMIN), (200, 200, 200, 200, 200, 403)),
    (token(Scope.ADMIN, project=2), (200, 404, 404, 404, 404, 403)),
    (token(Scope.ADMIN, project=EVERYWHERE), (200, 200, 200, 200, 200, 200)),
    (LOCAL, (200, 200, 200, 200, 200, 200)),
    (LOOKER, (200, 200, 403, 403, 403, 403)),
]


@pytest.mark.parametrize(("actor", "expected"), IN_A_PRIVATE_PROJECT)
def test_decides_in_a_private_project_as_the_table_says(actor: Actor, expected: tuple[int, ...]) -> None:
    told = tuple(decide(actor, Project(), need).status for need in NEEDS)

    assert told == expected
    assert all(decide(actor, Project(), need).allowed == (told[NEEDS.index(need)] == 200) for need in NEEDS)


@pytest.mark.parametrize(("actor", "expected"), IN_A_PRIVATE_PROJECT)
def test_lets_everybody_read_a_public_project_and_tells_a_stranger_what_is_missing(
    actor: Actor, expected: tuple[int, ...]
) -> None:
    public = Project(visibility="public")

    told = tuple(decide(actor, public, need).status for need in NEEDS)

    assert told == (200, 200, *(403 if status == 404 else status for status in expected[2:]))


@pytest.mark.parametrize("need", NEEDS)
@pytest.mark.parametrize("actor", [ANONYMOUS, person(), person(p2=Role.ADMIN), token(Scope.ADMIN, project=2)])
def test_answers_a_stranger_alike_for_a_private_project_and_for_none(actor: Actor, need: Need) -> None:
    assert decide(actor, Project(), need) == decide(actor, None, need)


def test_tells_an_admin_of_everything_that_a_project_is_not_there() -> None:
    told = decide(LOCAL, None, Need.READ)

    assert (told.status, told.reason) == (404, NOT_HERE)


def test_takes_nothing_new_into_an_archived_project() -> None:
    archived = Project(archived=True)
    admin = person(p1=Role.ADMIN)

    assert [decide(admin, archived, need).status for need in NEEDS] == [200, 200, 403, 403, 200, 403]


def test_says_which_scope_a_token_lacks() -> None:
    told = decide(token(Scope.READ), Project(), Need.WRITE_RESULTS)

    assert told.reason == "This needs a token of the scope results:write; yours has results:read."


def test_takes_the_higher_of_a_role_here_and_a_role_everywhere() -> None:
    both = Actor("user", "u", {1: Role.READER, EVERYWHERE: Role.SHERIFF})

    assert both.role_in(1) is Role.SHERIFF


def test_refuses_before_the_project_is_known_whom_no_project_could_admit() -> None:
    asked = [ANONYMOUS, token(Scope.READ), token(Scope.WRITE), person(), LOOKER, LOCAL]

    assert [decide_before(one, Need.WRITE_RESULTS).status for one in asked] == [401, 403, 200, 200, 403, 200]
    assert decide_before(ANONYMOUS, Need.PUBLIC).allowed


def test_gives_those_who_see_the_same_one_sight() -> None:
    assert person(p1=Role.READER).sight == person(p1=Role.READER).sight
    assert len({one.sight for one in (ANONYMOUS, person(), person(p1=Role.READER), LOCAL, LOOKER)}) == 5


def test_shows_a_private_project_to_its_members_only() -> None:
    assert may_see(person(p1=Role.READER), Project())
    assert not may_see(ANONYMOUS, Project())


def test_grants_no_token_more_than_its_maker_may() -> None:
    granted = [(role, [scope for scope in Scope if may_grant(role, scope)]) for role in (None, *Role)]

    assert granted == [
        (None, []),
        (Role.READER, [Scope.READ]),
        (Role.SHERIFF, [Scope.READ]),
        (Role.ADMIN, list(Scope)),
    ]
