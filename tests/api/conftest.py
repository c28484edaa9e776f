"""One application over an empty database of either kind, asked without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from api_client import NOW, Api
from github_jobs import Jobs

from perfci.net import jwks as door
from perfci.store import Store
from perfci.store.projects import create_project
from perfci_web import create_app
from tests.support import signed_job_tokens
from tests.support.builders import PROJECT
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store


@pytest.fixture
def api(store: Store) -> Iterator[Api]:
    app = create_app(store, read_only=False, clock=lambda: NOW)
    yield Api(app)
    app.extensions["perfci"].group_commit.close()


@pytest.fixture
def jobs(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    keys = json.dumps(signed_job_tokens.jwks()).encode()
    monkeypatch.setattr(door, "_download_keys", lambda issuer, transport: keys)
    with store.begin() as tx:
        create_project(tx, PROJECT, "private", signed_job_tokens.NOW)
    jobs = Jobs(store)
    assert jobs.bind().status_code == 200
    yield jobs
    jobs.app.extensions["perfci"].group_commit.close()
