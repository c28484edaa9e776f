"""The configurations of docs/proxies.md, in the proxies themselves, over TLS on loopback."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from perfci.auth.permissions import LOCAL, ProjectRole, Scope
from perfci.formats import run_document
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import open_store
from perfci.store.projects import create_project
from tests.support import loopback_github_login
from tests.support.builders import a_result, a_run
from tests.support.deployed_server import serving
from tests.support.documented_proxies import (
    SEARCH_PATH,
    Certificate,
    caddy,
    make_certificate,
    nginx,
    running,
)
from tests.support.reserved_ports import get_port_number, reserve_port
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PROJECT, PATH = "acme/model", "acme:model"
STRANGER = "127.0.0.2"
"""Where the client connects from, which is no trusted proxy."""
FORGED = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-User": "admin",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "evil.example",
    "Forwarded": "for=203.0.113.9;host=evil.example",
}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    program: Callable[..., list[str]] = request.param
    if shutil.which(program.__name__, path=SEARCH_PATH) is None:
        pytest.skip(f"needs {program.__name__}, which Debian has: apt-get install {program.__name__}")
    return program


@dataclass
class Site:
    """A server behind a proxy, and a client at the proxy."""

    client: httpx.Client
    server: subprocess.Popen[str]
    token: str

    def upload(self) -> int:
        run = a_run(a_result(), project=PROJECT)
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Idempotency-Key": run_document.idempotency_key(run),
        }
        body = run_document.dump_run(run).encode()
        return self.client.post("/api/v1/runs", content=body, headers=headers | FORGED).status_code

    def senders(self) -> set[object]:
        """End the server; the addresses that it saw requests come from."""
        self.server.send_signal(signal.SIGTERM)
        _, log = self.server.communicate(timeout=60)
        return {json.loads(line)["sender"] for line in log.splitlines() if '"sender"' in line}


@contextlib.contextmanager
def a_site(
    folder: Path, proxy: Callable[..., list[str]], certificate: Certificate, member: str, **access: str
) -> Iterator[Site]:
    """A server with a private project that one person may read, and the proxy in front of it."""
    database = f"sqlite:///{folder}/server.db"
    with closing(open_store(database, create=True)) as store, store.begin() as tx:
        context = AuditContext(LOCAL, datetime.now(UTC))
        project = create_project(tx, PROJECT, "private", context.at)
        issued = projects_members_tokens.create_token(tx, context, project, "ci", {Scope.WRITE}, 1)
        projects_members_tokens.set_member_role(tx, context, project.id, member, ProjectRole.READER)
    with contextlib.ExitStack() as stack:
        front, back = (get_port_number(stack.enter_context(reserve_port())) for _ in range(2))
        address = f"https://127.0.0.1:{front}"
        settings = {
            "PERFCI_DB": database,
            "PERFCI_SERVER_PUBLIC_URL": address,
            "PERFCI_SERVER_TRUSTED_PROXIES": "127.0.0.1/32",
            "PERFCI_SERVER_LOG": "json",
        }
        server, _ = stack.enter_context(
            serving(folder, "--no-worker", "--port", str(back), **settings, **access)
        )
        logs_in = access["PERFCI_ACCESS_MODE"] == "proxy"
        stack.enter_context(running(proxy(folder, front, f"127.0.0.1:{back}", certificate, logs_in=logs_in)))
        way = httpx.HTTPTransport(
            verify=ssl.create_default_context(cafile=str(certificate.chain)), local_address=STRANGER
        )
        client = stack.enter_context(httpx.Client(base_url=address, transport=way, timeout=60))
        assert until(lambda: is_answered(client))
        yield Site(client, server, issued.text)


def is_answered(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code in (200, 401)
    except httpx.TransportError:
        return False


def test_people_log_in_by_github_behind_a_proxy(
    proxy: Callable[..., list[str]], certificate: Certificate, working_folder: Path
) -> None:
    with loopback_github_login.served() as github:
        access = {
            "PERFCI_ACCESS_MODE": "github",
            "PERFCI_ACCESS_GITHUB_CLIENT_ID": loopback_github_login.CLIENT,
            "PERFCI_ACCESS_GITHUB_HOST": github.address,
            "PERFCI_GITHUB_CLIENT_SECRET": loopback_github_login.SECRET,
        }
        with a_site(working_folder, proxy, certificate, "github/583231", **access) as site:
            page = f"/{PATH}/benchmarks"
            unknown = site.client.get(page, headers=FORGED).status_code
            there = site.client.get("/login/github")
            back = httpx.get(there.headers["Location"]).headers["Location"]
            logged_in = site.client.get(back).status_code
            metrics = site.client.get("/metrics").status_code
            uploaded, shown = site.upload(), site.client.get(page, headers=FORGED)
            senders = site.senders()

    assert (unknown, logged_in, metrics, uploaded, shown.status_code) == (404, 302, 403, 201, 200)
    assert "train" in shown.text
    assert shown.headers["Strict-Transport-Security"]
    assert senders == {STRANGER}


def test_a_proxy_names_who_it_logged_in(
    proxy: Callable[..., list[str]], certificate: Certificate, working_folder: Path
) -> None:
    access = {"PERFCI_ACCESS_MODE": "proxy", "PERFCI_ACCESS_ADMINS": "proxy/admin"}
    with a_site(working_folder, proxy, certificate, "proxy/ada", **access) as site:
        page, ada = f"/{PATH}/benchmarks", ("ada", "lovelace")
        refused = site.client.get(page, headers=FORGED).status_code
        forged = site.client.get(f"/api/v1/projects/{PATH}/tokens", headers=FORGED).status_code
        uploaded, shown = site.upload(), site.client.get(page, headers=FORGED, auth=ada).status_code
        name = site.client.get("/login", headers=FORGED, auth=ada).text
        senders = site.senders()

    assert (refused, forged, uploaded, shown) == (401, 401, 201, 200)
    assert "You are ada." in name
    assert senders == {STRANGER}
