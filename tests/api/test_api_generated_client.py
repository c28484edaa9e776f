"""A client that openapi-python-client makes of the served document reads, triages and uploads."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from api_client import NOW

from perfci.formats import run_document
from perfci.net.http_client import build_wsgi_transport
from perfci.store import open_store
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci_web import create_app
from perfci_web.api.openapi_document import build_openapi_document
from perfci_web.api.operation_table import ALL_OPERATIONS
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_sha, a_verdict
from tests.support.evaluations import a_budgeted_incident, reconcile
from tests.support.stored_runs import ingest_run

PACKAGE = "generated_perfci_client"
CONFIG = """\
content_type_overrides:
  application/jsonl: application/octet-stream
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
def client(generated: str, tmp_path: Path) -> Iterator[Any]:
    """A generated client of an application with two runs, a verdict and an incident."""
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        with store.begin() as tx:
            for number in (3, 4):
                run = a_run(a_result(None, a_process(1.0)), commit=a_commit(number), session=f"s{number}")
                ingest_run(tx, run, f"{number:064x}", "body")
            add_verdicts(tx, PROJECT, "s4", [a_verdict(base=a_sha(3), head=a_sha(4))], NOON)
        reconcile(store, NOON, a_budgeted_incident())
        app = create_app(store, read_only=False, clock=lambda: NOW)
        made = importlib.import_module(PACKAGE).Client(base_url="http://localhost")
        with httpx.Client(base_url="http://localhost", transport=build_wsgi_transport(app)) as http_client:
            yield made.set_httpx_client(http_client)
        app.extensions["perfci"].group_commit.close()


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
