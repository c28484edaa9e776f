"""Projects, and every kind of caller that may request them: the scenario of the access tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_hex
from typing import Any

from flask import Flask, request
from werkzeug.test import TestResponse

from perfci.auth.permissions import LOCAL, ProjectRole, Scope
from perfci.auth.tokens import make_token
from perfci.config import Settings
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.access import ci_job_tokens, github_bindings
from perfci.store.access.ci_job_tokens import RunToken
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.projects import Project, create_project, find_project
from perfci_web import create_app
from tests.support.builders import NOON, a_process, a_result, a_run, a_series, a_sha
from tests.support.signed_webhooks import SECRETS
from tests.support.stored_runs import ingest_run

NOW = NOON + timedelta(days=10)
LONG_AGO = NOON - timedelta(days=300)
NO_REQUEST_LIMIT = 10**9
SECRET, OPEN, OTHER = "acme/secret", "acme/open", "rival/own"

REPOSITORIES = {
    slug: BoundRepository(number, 5, slug, ".github/workflows/perf.yml", "", ("refs/heads/main",))
    for number, slug in enumerate((SECRET, OTHER), start=1)
}
"""The repository that each project is bound to."""


@dataclass
class Caller:
    """Whoever asks, by what he sends."""

    headers: dict[str, str] = field(default_factory=dict)


class AccessScenario:
    """A server behind a proxy that logs people in, with a private project, a public one and one of somebody
    else.
    """

    def __init__(self, store: Store, **access: Any) -> None:
        self.store = store
        for name in (SECRET, OPEN, OTHER):
            fill(store, name)
        with store.begin() as tx:
            for slug, repository in REPOSITORIES.items():
                github_bindings.bind_repository(tx, require_project(tx, slug).id, repository, LONG_AGO)
        settings = Settings.model_validate(
            {
                "access": {"mode": "proxy", "admins": ["proxy/root"]} | access,
                "app": {"id": "Iv1.7"},
                "server": {
                    "trusted_proxies": ["127.0.0.1/32"],
                    "public_url": "https://perf.example.com",
                    "requests_per_minute": NO_REQUEST_LIMIT,
                },
            }
        )
        fields = {"settings": settings, "secrets": SECRETS}
        self.app = create_app(store, read_only=False, clock=lambda: NOW, **fields)
        self.callers = self._create_callers()

    def close(self) -> None:
        self.app.extensions["perfci"].group_commit.close()

    def send(self, who: str, method: str, path: str, **more: Any) -> TestResponse:
        headers = self.callers[who].headers | more.pop("headers", {})
        return self.app.test_client().open(path, method=method, headers=headers, **more)

    def _create_callers(self) -> dict[str, Caller]:
        people = {role: self._person(role, SECRET, OPEN, role=ProjectRole(role)) for role in ProjectRole}
        return {
            "anonymous": Caller(),
            **people,
            "stranger": self._person("stranger"),
            "admin of all projects": self._person("root"),
            "wrong project": self._person("rival", OTHER, role=ProjectRole.ADMIN),
            "reading token": self._token(Scope.READ),
            "writing token": self._token(Scope.WRITE),
            "admin token": self._token(Scope.ADMIN),
            "token of another project": self._token(Scope.ADMIN, projects=OTHER),
            "expired token": self._token(Scope.ADMIN, expired=True),
            "revoked token": self._token(Scope.ADMIN, revoked=True),
            "token of a job": self._job_token(),
            "token of a pull request": self._job_token(event="pull_request", pull_request=12, baseline=False),
            "token of a branch": self._job_token(baseline=False),
            "token of a job of another project": self._job_token(OTHER),
            "expired token of a job": self._job_token(expires_at=NOW),
            "no token": Caller({"Authorization": "Bearer pfciu_nonsense"}),
        }

    def _person(self, name: str, *projects: str, role: ProjectRole = ProjectRole.READER) -> Caller:
        for slug in projects:
            with self.store.begin() as tx:
                projects_members_tokens.set_member_role(
                    tx, AuditContext(LOCAL, LONG_AGO), require_project(tx, slug).id, f"proxy/{name}", role
                )
        return Caller({"X-Forwarded-User": name, "X-CSRF-Token": csrf_of(self.app, name)})

    def _token(
        self, scope: Scope, projects: str = SECRET, *, expired: bool = False, revoked: bool = False
    ) -> Caller:
        act = AuditContext(LOCAL, LONG_AGO if expired else NOON)
        with self.store.begin() as tx:
            place = require_project(tx, projects)
            made = projects_members_tokens.create_token(tx, act, place, "ci", {scope})
            if revoked:
                projects_members_tokens.revoke_token(tx, act, place.id, made.token.uid)
        return Caller({"Authorization": f"Bearer {made.text}"})

    def _job_token(self, slug: str = SECRET, **changes: Any) -> Caller:
        minted = make_token("r")
        job: dict[str, Any] = {"run_id": "4711", "attempt": 1, "sha": a_sha(1), "event": "push"}
        job |= {"pull_request": None, "baseline": True, "expires_at": NOW + timedelta(minutes=15)}
        with self.store.begin() as tx:
            about = {
                "uid": token_hex(6),
                "project_id": require_project(tx, slug).id,
                "secret_hash": minted.hash,
            }
            ci_job_tokens.add_job_token(tx, RunToken(**about, **(job | changes)))
        return Caller({"Authorization": f"Bearer {minted.text}"})


def csrf_of(app: Flask, name: str) -> str:
    with app.test_request_context(
        "/", headers={"X-Forwarded-User": name}, environ_base={"perfci.from_proxy": True}
    ):
        gate = app.extensions["perfci"].authenticator
        return str(gate.csrf_token(gate.identify_caller(request)))


def require_project(tx: Any, slug: str) -> Project:
    project = find_project(tx, slug)
    assert project is not None
    return project


def fill(store: Store, slug: str) -> None:
    run = a_run(
        a_result(a_series("suite.a"), a_process(1.0, 2.0)), project=slug, session=f"session of {slug}"
    )
    with store.begin() as tx:
        create_project(tx, slug, "public" if slug == OPEN else "private", LONG_AGO)
    with store.begin() as tx:
        ingest_run(tx, run, f"key of {slug}", "body")
