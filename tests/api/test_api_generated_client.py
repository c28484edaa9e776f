"""Clients that openapi-python-client and @hey-api/openapi-ts make of the served document read and triage."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from api_client import NOW
from flask import Flask

from perfci.formats import run_document
from perfci.net.http_client import build_wsgi_transport
from perfci.store import open_store
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci_web import create_app
from perfci_web.api.openapi_document import build_openapi_document
from perfci_web.api.operation_table import ALL_OPERATIONS
from tests.support import npm_packages
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_sha, a_verdict
from tests.support.evaluations import a_budgeted_incident, reconcile
from tests.support.loopback_application import served_on_loopback
from tests.support.npm_packages import (
    OPENAPI_TS,
    PackageUnavailable,
    cache,
    install,
    skip_without_npm,
)
from tests.support.stored_runs import ingest_run

PACKAGE = "generated_perfci_client"
CONFIG = """\
content_type_overrides:
  application/jsonl: application/octet-stream
  application/gzip: application/octet-stream
  application/x-tar: application/octet-stream
post_hooks: []
"""
"""docs/api.md gives it to the reader, without the hooks, which only make the code pretty."""

SLUG = PROJECT.replace("/", ":")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What the generator said; the package can be imported while the tests run."""
    pytest.importorskip("openapi_python_client", reason="`.ci/setup dev` installs it")
    folder = tmp_path_factory.mktemp("generated")
    document = build_openapi_document(ALL_OPERATIONS, enforced=True)
    (folder / "openapi.json").write_text(json.dumps(document, default=dict))
    (folder / "config.yml").write_text(CONFIG)
    generate = ["-m", "openapi_python_client", "generate", "--path", "openapi.json", "--config", "config.yml"]
    done = subprocess.run(
        [sys.executable, *generate, "--meta", "none", "--output-path", PACKAGE],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(folder))
    yield done.stdout + done.stderr
    sys.path.remove(str(folder))


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    """An application with two runs, a verdict and an incident."""
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        with store.begin() as tx:
            for number in (3, 4):
                run = a_run(a_result(None, a_process(1.0)), commit=a_commit(number), session=f"s{number}")
                ingest_run(tx, run, f"{number:064x}", "body")
            add_verdicts(tx, PROJECT, "s4", [a_verdict(base=a_sha(3), head=a_sha(4))], NOON)
        reconcile(store, NOON, a_budgeted_incident())
        app = create_app(store, read_only=False, clock=lambda: NOW)
        yield app
        app.extensions["perfci"].group_commit.close()


@pytest.fixture
def client(generated: str, app: Flask) -> Iterator[Any]:
    """A generated client of that application."""
    made = importlib.import_module(PACKAGE).Client(base_url="http://localhost")
    with httpx.Client(base_url="http://localhost", transport=build_wsgi_transport(app)) as http_client:
        yield made.set_httpx_client(http_client)


def operation(tag: str, name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.api.{tag}.{name}").sync


def models() -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.models")


def test_no_part_of_the_document_is_left_out(generated: str) -> None:
    assert "WARNING" not in generated


def test_reads_every_kind_of_answer(client: Any) -> None:
    series = operation("series", "list_series")(SLUG, client=client).items
    points = operation("series", "get_points")(SLUG, series[0].id, client=client)
    verdicts = operation("verdicts", "list_verdicts")(SLUG, client=client).items
    comparison = operation("verdicts", "get_comparison")(SLUG, a_sha(3), a_sha(4), client=client)
    incidents = operation("incidents", "list_incidents")(SLUG, client=client).items
    incident = operation("incidents", "get_incident")(SLUG, 1, client=client)

    assert points.series.benchmark == series[0].benchmark
    assert [verdict.id for verdict in comparison.items] == [verdict.id for verdict in verdicts] == [1]
    assert (incidents[0].number, incident.number, len(incident.members)) == (1, 1, 1)


def test_reads_exports(client: Any) -> None:
    for name in ("export_runs", "export_asv"):
        assert operation("exports", name)(SLUG, client=client)


def test_triages(client: Any) -> None:
    change = operation("triage", "change_incident")
    patch = models().IncidentPatch.from_dict({"state": "investigating", "assignee": "ada"})

    changed = change(SLUG, 1, client=client, body=patch, if_match='"1"')
    stale = change(SLUG, 1, client=client, body=patch, if_match='"1"')

    assert (changed.state, changed.assignee, changed.revision) == ("investigating", "ada", 2)
    assert (type(stale).__name__, stale.status) == ("ProblemDetails", 412)


def test_uploads(client: Any) -> None:
    run = a_run(a_result(None, a_process(1.0)), session="another")
    body = models().RunDocument.from_dict(json.loads(run_document.dump_run(run)))

    receipt = operation("runs", "upload_run")(
        client=client, body=body, idempotency_key=run_document.idempotency_key(run)
    )

    assert receipt.stored
    assert body.environment.additional_properties == dict(run.environment.values)


TYPESCRIPT_CALLS = """
import * as api from "./client.mjs";

const [baseUrl, project] = process.argv.slice(2);
api.client.setConfig({ baseUrl });
const series = await api.listSeries({ path: { project } });
const points = await api.getPoints({ path: { project, series: series.data.items[0].id } });
const incidents = await api.listIncidents({ path: { project } });
const [{ number, revision }] = incidents.data.items;
const change = () => api.changeIncident({
  path: { project, number },
  headers: { "If-Match": `"${revision}"` },
  body: { state: "investigating", assignee: "ada" },
});
const changed = await change();
const stale = await change();
console.log(JSON.stringify({
  benchmark: points.data.series.benchmark, points: points.data.points.length, number,
  changed: [changed.data.state, changed.data.assignee, changed.data.revision],
  stale: [stale.error.status, stale.error.revision],
}));
"""


def generate_typescript_client() -> Path:
    """The client as one file; generated once for each document, which takes five seconds."""
    node = shutil.which("node")
    if node is None:
        raise PackageUnavailable("node was not found, which runs the generator")
    packages = install(OPENAPI_TS)
    document = json.dumps(build_openapi_document(ALL_OPERATIONS, enforced=True), default=dict)
    client = cache() / f"{packages.name}-{hashlib.sha256(document.encode()).hexdigest()[:16]}.mjs"
    if not client.exists():
        with tempfile.TemporaryDirectory() as folder:
            npm_packages.write(client, bundle_typescript_client(packages, document, Path(folder)))
    return client


def bundle_typescript_client(packages: Path, document: str, folder: Path) -> bytes:
    (folder / "openapi.json").write_text(document)
    (folder / "all.ts").write_text(
        'export * from "./client";\nexport { client } from "./client/client.gen";\n'
    )
    generate = ["openapi-ts", "-i", "openapi.json", "-o", "client", "-c", "@hey-api/client-fetch"]
    bundle = ["esbuild", "all.ts", "--bundle", "--platform=node", "--format=esm", "--outfile=client.mjs"]
    for command in (generate, bundle):
        program = packages / "node_modules" / ".bin" / command[0]
        subprocess.run([program, *command[1:]], cwd=folder, check=True, capture_output=True)
    return (folder / "client.mjs").read_bytes()


def test_a_typescript_client_reads_and_triages(app: Flask, tmp_path: Path) -> None:
    shutil.copy(skip_without_npm(generate_typescript_client), tmp_path / "client.mjs")
    (tmp_path / "calls.mjs").write_text(TYPESCRIPT_CALLS)

    with served_on_loopback(app) as address:
        done = subprocess.run(
            ["node", tmp_path / "calls.mjs", address, SLUG], capture_output=True, text=True, timeout=60
        )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "benchmark": "training.Step.time_step",
        "points": 2,
        "number": 1,
        "changed": ["investigating", "ada", 2],
        "stale": [412, 2],
    }
