"""A server that is a GitHub App, with the process that judges beside it, and what jobs leave for it to
fetch.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import sqlalchemy as sa
from flask import Flask

from perfci.config import Settings
from perfci.formats import run_document
from perfci.github.app_auth import AppKey, GitHubApp
from perfci.github.requester import GitHubRetryPolicy
from perfci.model import Commit, Role, Run
from perfci.service.pulls.github_inbox import build_github_inbox
from perfci.service.pulls.results_artifact_files import PullResults, write_pull_results
from perfci.service.worker.lease import INBOX_LEASE, LeasedLoop
from perfci.store import Store
from perfci.store.projects import find_project
from perfci.store.queries import measured_samples, paged_lists, runs_and_sessions
from perfci.store.queries.paged_lists import RunFilter
from perfci.store.tables.github import RunEventRow
from perfci_web import create_app
from tests.support.builders import NOON, a_process, a_result, a_run
from tests.support.comment_forms import build_findings, slower
from tests.support.github_openapi import Description, described
from tests.support.npm_packages import skip_without_npm
from tests.support.signed_webhooks import SECRETS, SETTINGS, a_bound_project, post, workflow_run_event
from tests.support.stateful_github import BASE, HEAD, FakeGitHub

ORIGIN = {"run_id": "17", "attempt": "1", "job": "compare", "event": "pull_request"}
PAGE = f"https://perf.example.com/acme:model/compare/{BASE}...{HEAD}"


@pytest.fixture
def description() -> Description:
    return skip_without_npm(lambda: described("api.github.com"))


def side(role: Role, sha: str, *, step: int = 0, session: str = "pairs", **changes: Any) -> Run:
    """What a job of a pull request measured of one commit, in three pairs."""
    level = 1.2 if role is Role.HEAD else 1.0
    processes = [a_process(level + pair / 1000, role=role, pair=pair, index=pair) for pair in range(3)]
    origin = tuple(sorted((ORIGIN | {"step": str(step)}).items()))
    about = {"origin": origin, "session": session, "commit": Commit(sha)}
    return a_run(a_result(None, *processes), **(about | changes))


COMPARED = (side(Role.BASE, BASE), side(Role.HEAD, HEAD, step=1))


def artifact(
    tmp_path: Path, runs: tuple[Run, ...] = COMPARED, *, project: str = "acme/model", head: str = HEAD
) -> bytes:
    """What `perfci github compare` hands over: a regression, and the runs it was seen in."""
    base, newest = Commit(BASE), Commit(head)
    write_pull_results(
        tmp_path,
        PullResults(
            project, base, newest, replace(build_findings([slower()], report_url=""), base=base, head=newest)
        ),
    )
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        archive.writestr("findings.json", (tmp_path / "findings.json").read_bytes())
        for number, item in enumerate(runs):
            archive.writestr(f"runs/{item.session}-{number}.json", run_document.dump_run(item))
    return made.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return made.getvalue()


@dataclass
class Server:
    """A server that is an App, and the process that judges beside it; a test moves their clock."""

    store: Store
    hub: FakeGitHub
    pem: str
    settings: Settings = SETTINGS
    now: datetime = NOON
    web: Flask = field(init=False)
    app: GitHubApp = field(init=False)
    inbox_loop: LeasedLoop = field(init=False)

    def __post_init__(self) -> None:
        fields = {"read_only": False, "settings": self.settings, "secrets": SECRETS}
        self.web = create_app(self.store, clock=lambda: self.now, **fields)
        self.restart_worker()

    def restart_worker(self) -> None:
        """The process that judges begins anew, as after a crash."""
        patience = GitHubRetryPolicy(
            attempts=1, now=lambda: self.hub.now_s, sleep=self.hub.sleep, random_fraction=lambda: 1.0
        )
        self.app = GitHubApp(
            AppKey("Iv1.7", self.pem),
            self.hub.description.base_url,
            retry_policy=patience,
            transport=self.hub,
        )
        inbox = build_github_inbox(self.store, self.app, self.settings)
        self.inbox_loop = LeasedLoop(self.store, INBOX_LEASE, inbox, lambda: self.now)

    def receive_run_event(self, delivery: str = "d-1", **about: Any) -> int:
        return post(self.web, "workflow_run", workflow_run_event(**about), delivery).status_code

    def process_due_events(self) -> int:
        """Do what is due; a minute later there is nothing more."""
        done = self.inbox_loop.drain()
        self.now += timedelta(minutes=1)
        return done

    def events(self) -> list[tuple[str, int, str]]:
        with self.store.read() as tx:
            columns = (RunEventRow.state, RunEventRow.attempts, RunEventRow.problem)
            return [tuple(row) for row in tx.execute(sa.select(*columns).order_by(RunEventRow.id))]

    def deliveries(self) -> list[str]:
        with self.store.read() as tx:
            return list(tx.scalars(sa.select(RunEventRow.delivery).order_by(RunEventRow.id)))

    def runs(self, slug: str = "acme/model") -> list[Run]:
        with self.store.read() as tx:
            project = find_project(tx, slug)
            assert project is not None
            lines = paged_lists.load_runs_page(tx, project.id, RunFilter(), before=None, limit=100)
            return [measured_samples.load_run(tx, line.id) for line in lines][::-1]

    def kinds(self) -> dict[str, str]:
        with self.store.read() as tx:
            return {
                session.uid: session.kind for session in runs_and_sessions.load_sessions(tx, "acme/model")
            }


@pytest.fixture
def server(store: Store, hub: FakeGitHub, app_keys: tuple[str, str], tmp_path: Path) -> Iterator[Server]:
    pem, hub.public_key = app_keys
    hub.artifact = artifact(tmp_path)
    a_bound_project(store, NOON)
    server = Server(store, hub, pem)
    yield server
    server.web.extensions["perfci"].group_commit.close()
