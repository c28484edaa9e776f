"""Repositories that projects are bound to, and the tokens of their jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sqlalchemy.orm import Session

from perfci.store import Store
from perfci.store.access import ci_job_tokens, github_bindings
from perfci.store.access.ci_job_tokens import RunToken
from perfci.store.access.github_bindings import BoundRepository, ProjectBinding
from perfci.store.projects import create_project
from tests.support.builders import NOON

MODEL = BoundRepository(
    2**40, 7, "acme/model", ".github/workflows/perf.yml", "", ("refs/heads/main", "refs/tags/v1")
)
TOKEN = RunToken("0" * 12, 0, "123", 1, "a" * 40, "push", None, True, NOON + timedelta(minutes=15), "hash")


def a_bound_project(tx: Session, slug: str = "acme/model") -> int:
    made = create_project(tx, slug, "private", NOON)
    github_bindings.bind_repository(tx, made.id, MODEL, NOON)
    return made.id


def test_finds_the_repository_of_a_project_by_name(store: Store) -> None:
    with store.begin() as tx:
        project_id = a_bound_project(tx)
        create_project(tx, "acme/unbound", "private", NOON)

        bindings = [
            github_bindings.find_binding_of_project(tx, slug)
            for slug in ("acme/model", "acme/unbound", "acme/none")
        ]

    assert bindings == [ProjectBinding(project_id, MODEL), None, None]


def test_finds_the_projects_of_a_repository_by_number(store: Store) -> None:
    with store.begin() as tx:
        bound = [a_bound_project(tx), a_bound_project(tx, "acme/other")]

        assert github_bindings.load_bindings_of_repository(tx, 2**40) == [
            ProjectBinding(item, MODEL) for item in bound
        ]
        assert github_bindings.load_bindings_of_repository(tx, 1) == []


def test_a_new_binding_replaces_the_former_one(store: Store) -> None:
    moved = replace(MODEL, owner_id=8, environment="perf")
    with store.begin() as tx:
        project_id = a_bound_project(tx)

        github_bindings.bind_repository(tx, project_id, moved, NOON)

        assert github_bindings.find_repository_of_project(tx, project_id) == moved


def test_job_tokens_end_with_their_binding(store: Store) -> None:
    with store.begin() as tx:
        bound_project, other = a_bound_project(tx), a_bound_project(tx, "acme/other")
        ci_job_tokens.add_job_token(tx, replace(TOKEN, project_id=bound_project))
        ci_job_tokens.add_job_token(tx, replace(TOKEN, uid="1" * 12, project_id=other, secret_hash="other"))

        assert [
            github_bindings.unbind_repository(tx, bound_project),
            github_bindings.unbind_repository(tx, bound_project),
        ] == [
            True,
            False,
        ]

        assert ci_job_tokens.find_job_token(tx, "hash") is None
        assert ci_job_tokens.find_job_token(tx, "other") is not None


def test_loads_a_job_token_as_it_was_stored(store: Store) -> None:
    with store.begin() as tx:
        token = replace(TOKEN, project_id=a_bound_project(tx), pull_request=12, baseline=False)
        ci_job_tokens.add_job_token(tx, token)

        assert ci_job_tokens.find_job_token(tx, "hash") == token


def test_accepts_an_oidc_token_once_until_it_expires(store: Store) -> None:
    with store.begin() as tx:
        uses = [
            ci_job_tokens.mark_oidc_token_used(tx, "a" * 64, NOON + timedelta(minutes=5)) for _ in range(2)
        ]
        ci_job_tokens.delete_expired_tokens(tx, NOON + timedelta(minutes=5))
        later = ci_job_tokens.mark_oidc_token_used(tx, "a" * 64, NOON + timedelta(minutes=5))

    assert (uses, later) == ([True, False], True)
