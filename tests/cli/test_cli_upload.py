from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.model import Run
from perfci.net import http_client
from perfci.service.uploads import send_to_server
from perfci.store import Store, open_store
from perfci.store.queries import measurements
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit, a_result, a_run
from tests.support.databases import fresh_database
from tests.support.git_project import GitProject

SERVER = "http://localhost:8787"


class Line(httpx.BaseTransport):
    """The way to a server, open or not."""

    def __init__(self, store: Store) -> None:
        self.app = create_app(store, read_only=False)
        self.is_open = True

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self.is_open:
            raise httpx.ConnectError("no route to host")
        return httpx.WSGITransport(app=self.app).handle_request(request)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Store]:
    """The store of the server."""
    with fresh_database("sqlite", tmp_path) as url, closing(open_store(url, create=False)) as store:
        yield store


@pytest.fixture
def line(there: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    line = Line(there)
    monkeypatch.setenv("PERFCI_CLIENT_GIVE_UP_AFTER_S", "0")
    monkeypatch.setenv("PERFCI_TOKEN", "")
    monkeypatch.setattr(
        send_to_server,
        "open_http_client",
        lambda url, token: http_client.open_http_client(url, token=token, transport=line),
    )
    yield line
    line.app.extensions["perfci"].group_commit.close()


def a_file(folder: Path, document: Run, name: str = "run.json") -> str:
    (folder / name).write_text(run_document.dump_run(document))
    return name


def stored(store: Store) -> int:
    with store.read() as tx:
        return len(measurements.load_sessions(tx, PROJECT))


def test_sends_a_file_once(here: Path, line: Line, there: Store, capsys: pytest.CaptureFixture[str]) -> None:
    name = a_file(here, a_run(a_result()))

    assert run_cli(["upload", name, "--server", SERVER]) == 0
    assert run_cli(["upload", name, "--server", SERVER]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"1 run sent to {SERVER}",
        f"0 runs sent to {SERVER}, 1 already stored",
    ]
    assert stored(there) == 1


def test_sends_what_was_exported(
    here: Path, line: Line, there: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = [run_document.dump_run(a_run(a_result(), session=session)) for session in ("one", "two")]
    (here / "runs.jsonl").write_text("".join(f"{run}\n" for run in exported))

    assert run_cli(["upload", "runs.jsonl", "--server", SERVER]) == 0

    assert capsys.readouterr().out.splitlines() == [f"2 runs sent to {SERVER}"]
    assert stored(there) == 2


def test_manages_tokens_and_projects_on_a_server(
    here: Path, line: Line, there: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)
    monkeypatch.setenv("PERFCI_PROJECT", "acme/new")

    def told(*arguments: str) -> str:
        capsys.readouterr()
        assert run_cli(list(arguments)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    assert told("project", "create", "acme/new") == "created acme/new (private)\n"
    assert told("project", "set", "acme/new", "--visibility", "public") == "acme/new is public\n"
    assert told("project", "grant", "proxy/ada", "sheriff") == "proxy/ada is sheriff of acme/new\n"
    assert told("project", "members") == "sheriff  proxy/ada  ada\n"
    assert told("project", "withdraw", "proxy/ada") == "proxy/ada is no longer a member\n"
    told("token", "create", "--scope", "results:write")
    [token] = json.loads(told("token", "list", "--json"))
    assert told("token", "revoke", token["uid"]) == f"token {token['uid']} is revoked\n"
    assert told("project", "list") == "public   acme/new\n"
    assert not (here / ".perfci" / "perfci.db").exists()
    assert run_cli(["token", "list", "--all-projects"]) == 2
    assert capsys.readouterr().err == (
        "perfci: What is for all projects is kept where the server's store is: do it there, with --db.\n"
    )


def test_an_explicit_store_overrides_a_configured_server(
    here: Path, line: Line, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)
    run_cli(["--db", "mine.db", "project", "create", "acme/mine"])
    capsys.readouterr()

    assert run_cli(["--db", "mine.db", "project", "list"]) == 0
    assert capsys.readouterr().out == "private  acme/mine\n"
    assert run_cli(["project", "list", "--db", "mine.db", "--server", SERVER]) == 2
    assert capsys.readouterr().err == ("perfci: Give either --server or --db, not both.\n")


def test_spools_undelivered_runs_for_the_next_flush(
    here: Path, line: Line, there: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    line.is_open = False
    assert run_cli(["upload", a_file(here, a_run(a_result())), "--server", SERVER]) == 1
    said = capsys.readouterr()

    line.is_open = True
    assert run_cli(["flush"]) == 0

    assert said.out == f"0 runs sent to {SERVER}, 1 pending (`perfci flush` tries again)\n"
    assert said.err == f"  {SERVER} does not answer: no route to host.\n"
    assert (capsys.readouterr().out, stored(there)) == (f"1 run sent to {SERVER}\n", 1)


def test_sets_a_rejected_file_aside_and_sends_the_others(
    here: Path, line: Line, there: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cli(["upload", a_file(here, a_run(a_result())), "--server", SERVER])
    other = a_file(here, a_run(), "other.json")
    more = a_file(here, a_run(a_result(), commit=a_commit(2)), "more.json")

    assert run_cli(["upload", other, more, "--server", SERVER]) == 1

    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == f"1 run sent to {SERVER}, 1 rejected"
    assert "is stored already with other content" in said.err
    assert len(list((here / ".perfci" / "spool").glob("*/refused/*.json.gz"))) == 1


def test_requires_a_server(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["upload", a_file(here, a_run(a_result()))]) == 2
    assert "No server is named: give --server" in capsys.readouterr().err


def test_reports_an_empty_spool(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["flush"]) == 0
    assert capsys.readouterr().out == "nothing is pending\n"


def test_writes_the_token_nowhere(here: Path, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    line.is_open = False
    monkeypatch.setenv("PERFCI_TOKEN", "pfciu_secret")

    run_cli(["upload", a_file(here, a_run(a_result())), "--server", SERVER])

    assert not any(b"secret" in path.read_bytes() for path in (here / ".perfci").rglob("*") if path.is_file())


def test_run_sends_its_results_to_a_server(
    here: Path, line: Line, there: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = "import thing\n\ndef track_size():\n    return thing.SIZE\n"
    project = GitProject(here)
    project.commit("Begin", thing="SIZE = 1\n", benchmarks__suite=suite)
    for number in range(2, 4):
        project.commit(f"Grow to {number}", thing=f"SIZE = {number}\n")
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)
    monkeypatch.setenv("PERFCI_PROJECT", PROJECT)

    code = run_cli(["run", "HEAD~2..HEAD", "--rounds", "2", "--send"])

    sent = capsys.readouterr().err.splitlines()[-1]
    with closing(open_store("sqlite:///.perfci/perfci.db", create=False)) as mine, mine.read() as tx:
        measured = {session.uid for session in measurements.load_sessions(tx, PROJECT)}
    with there.read() as tx:
        arrived = {session.uid: session.kind for session in measurements.load_sessions(tx, PROJECT)}
    assert code == 0
    assert sent == f"4 runs sent to {SERVER}"
    assert arrived.keys() == measured
    assert sorted(arrived.values()) == [
        "compare",
        "history",
    ]  # the rounds, and the pairs that settled what they raised
