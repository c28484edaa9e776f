"""The configurations of docs/proxies.md, in the proxies themselves, over TLS on loopback."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fake_github
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perfci.auth.permissions import LOCAL, ProjectRole, Scope
from perfci.formats import run_document
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import open_store
from perfci.store.projects import create_project
from tests.support.builders import a_result, a_run
from tests.support.deployed_server import serving
from tests.support.reserved_ports import get_port_number, reserve_port
from tests.support.waiting import until

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text()
PROJECT, PATH = "acme/model", "acme:model"
SEARCH_PATH = f"{os.environ['PATH']}:/usr/sbin"
STRANGER = "127.0.0.2"
"""Where the client connects from, which is no trusted proxy."""
FORGED = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-User": "admin",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "evil.example",
    "Forwarded": "for=203.0.113.9;host=evil.example",
}


@dataclass(frozen=True)
class Certificate:
    chain: Path
    key: Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "perf")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(folder / "perf.pem", folder / "perf.key")
    certificate.chain.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return certificate


def documented(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.S)


def nginx(folder: Path, port: int, backend: str, certificate: Certificate, *, logs_in: bool) -> list[str]:
    """The command that runs the documented configuration of nginx."""
    block, login = documented("nginx")
    if logs_in:
        block = re.sub(r"    location / \{.*?\n    \}\n", lambda _: login, block, count=1, flags=re.S)
    values = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name perf.example.com": "server_name 127.0.0.1",
        "/etc/ssl/perf.example.com.pem": str(certificate.chain),
        "/etc/ssl/perf.example.com.key": str(certificate.key),
        "/etc/nginx/perfci.htpasswd": str(folder / "htpasswd"),
        "http://127.0.0.1:8787": f"http://{backend}",
    }
    (folder / "htpasswd").write_text("ada:{PLAIN}lovelace\n")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; worker_processes 1; pid {folder}/pid; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{replaced(block, values)} }}"
    )
    return ["nginx", "-e", f"{folder}/error.log", "-p", str(folder), "-c", f"{folder}/nginx.conf"]


def caddy(folder: Path, port: int, backend: str, certificate: Certificate, *, logs_in: bool) -> list[str]:
    """The command that runs the documented configuration of Caddy."""
    block, login = documented("caddyfile")
    if logs_in:
        block = re.sub(r"    reverse_proxy .*?\n    \}\n", lambda _: login, block, count=1, flags=re.S)
        hashed = subprocess.run(
            ["caddy", "hash-password", "--plaintext", "lovelace"], capture_output=True, text=True, check=True
        )
        block = block.replace("HASH", hashed.stdout.strip())
    values = {
        "perf.example.com {": (
            f"https://127.0.0.1:{port} {{\nbind 127.0.0.1\ntls {certificate.chain} {certificate.key}"
        ),
        "127.0.0.1:8787": backend,
    }
    # It would listen on port 80 for redirects, and on 2019 for its own administration.
    options = "{\nadmin off\nauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(options + replaced(block, values))
    return ["caddy", "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


def replaced(text: str, values: dict[str, str]) -> str:
    for before, after in values.items():
        text = text.replace(before, after)
    return text


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


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[None]:
    environment = {**os.environ, "PATH": SEARCH_PATH, "HOME": str(Path(command[-1]).parent)}
    program = shutil.which(command[0], path=SEARCH_PATH) or command[0]
    process = subprocess.Popen(
        [program, *command[1:]], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def is_answered(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code in (200, 401)
    except httpx.TransportError:
        return False


def test_people_log_in_by_github_behind_a_proxy(
    proxy: Callable[..., list[str]], certificate: Certificate, working_folder: Path
) -> None:
    with fake_github.served() as github:
        access = {
            "PERFCI_ACCESS_MODE": "github",
            "PERFCI_ACCESS_GITHUB_CLIENT_ID": fake_github.CLIENT,
            "PERFCI_ACCESS_GITHUB_HOST": github.address,
            "PERFCI_GITHUB_CLIENT_SECRET": fake_github.SECRET,
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
