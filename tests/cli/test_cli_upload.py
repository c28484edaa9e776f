from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.model import Run
from perfci.store import Store, open_store
from perfci.store.queries import runs_and_sessions
from tests.support.builders import PROJECT, a_commit, a_result, a_run
from tests.support.git_project import GitProject
from tests.support.switchable_connection import SwitchableConnection

SERVER = "http://localhost:8787"


def a_file(folder: Path, document: Run, name: str = "run.json") -> str:
    (folder / name).write_text(run_document.dump_run(document))
    return name


def stored(store: Store) -> int:
    with store.read() as tx:
        return len(runs_and_sessions.load_sessions(tx, PROJECT))


def test_sends_a_file_once(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = a_file(working_folder, a_run(a_result()))

    assert run_cli(["upload", name, "--server", SERVER]) == 0
    assert run_cli(["upload", name, "--server", SERVER]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"1 run sent to {SERVER}",
        f"0 runs sent to {SERVER}, 1 already stored",
    ]
    assert stored(server_store) == 1


def test_sends_what_was_exported(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    exported = [run_document.dump_run(a_run(a_result(), session=session)) for session in ("one", "two")]
    (working_folder / "runs.jsonl").write_text("".join(f"{run}\n" for run in exported))

    assert run_cli(["upload", "runs.jsonl", "--server", SERVER]) == 0

    assert capsys.readouterr().out.splitlines() == [f"2 runs sent to {SERVER}"]
    assert stored(server_store) == 2


def test_manages_tokens_and_projects_on_a_server(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)
    monkeypatch.setenv("PERFCI_PROJECT", "acme/new")

    def run_output(*arguments: str) -> str:
        capsys.readouterr()
        assert run_cli(list(arguments)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    assert run_output("project", "create", "acme/new") == "created acme/new (private)\n"
    assert run_output("project", "set", "acme/new", "--visibility", "public") == "acme/new is public\n"
    assert run_output("project", "grant", "proxy/ada", "sheriff") == "proxy/ada is sheriff of acme/new\n"
    assert run_output("project", "members") == "sheriff  proxy/ada  ada\n"
    assert run_output("project", "withdraw", "proxy/ada") == "proxy/ada is no longer a member\n"
    run_output("token", "create", "--scope", "results:write")
    [token] = json.loads(run_output("token", "list", "--json"))
    assert run_output("token", "revoke", token["uid"]) == f"token {token['uid']} is revoked\n"
    assert run_output("project", "list") == "public   acme/new\n"
    assert not (working_folder / ".perfci" / "perfci.db").exists()
    assert run_cli(["token", "list", "--all-projects"]) == 2
    assert capsys.readouterr().err == (
        "perfci: What is for all projects is kept where the server's store is: do it there, with --db.\n"
    )


def test_an_explicit_store_overrides_a_configured_server(
    working_folder: Path,
    connection: SwitchableConnection,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)
    run_cli(["--db", "mine.db", "project", "create", "acme/mine"])
    capsys.readouterr()

    assert run_cli(["--db", "mine.db", "project", "list"]) == 0
    assert capsys.readouterr().out == "private  acme/mine\n"
    assert run_cli(["project", "list", "--db", "mine.db", "--server", SERVER]) == 2
    assert capsys.readouterr().err == ("perfci: Give either --server or --db, not both.\n")


def test_spools_undelivered_runs_for_the_next_flush(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connection.is_open = False
    assert run_cli(["upload", a_file(working_folder, a_run(a_result())), "--server", SERVER]) == 1
    captured = capsys.readouterr()

    connection.is_open = True
    assert run_cli(["flush"]) == 0

    assert captured.out == f"0 runs sent to {SERVER}, 1 pending (`perfci flush` tries again)\n"
    assert captured.err == f"  {SERVER} does not answer: no route to host.\n"
    assert (capsys.readouterr().out, stored(server_store)) == (f"1 run sent to {SERVER}\n", 1)


def test_sets_a_rejected_file_aside_and_sends_the_others(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_cli(["upload", a_file(working_folder, a_run(a_result())), "--server", SERVER])
    other = a_file(working_folder, a_run(), "other.json")
    more = a_file(working_folder, a_run(a_result(), commit=a_commit(2)), "more.json")

    assert run_cli(["upload", other, more, "--server", SERVER]) == 1

    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == f"1 run sent to {SERVER}, 1 rejected"
    assert "is stored already with other content" in captured.err
    assert len(list((working_folder / ".perfci" / "spool").glob("*/refused/*.json.gz"))) == 1


def test_requires_a_server(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["upload", a_file(working_folder, a_run(a_result()))]) == 2
    assert "No server is named: give --server" in capsys.readouterr().err


def test_reports_an_empty_spool(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["flush"]) == 0
    assert capsys.readouterr().out == "nothing is pending\n"


def test_writes_the_token_nowhere(
    working_folder: Path, connection: SwitchableConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.is_open = False
    monkeypatch.setenv("PERFCI_TOKEN", "pfciu_secret")

    run_cli(["upload", a_file(working_folder, a_run(a_result())), "--server", SERVER])

    assert not any(
        b"secret" in path.read_bytes() for path in (working_folder / ".perfci").rglob("*") if path.is_file()
    )


def test_run_sends_its_results_to_a_server(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suite = "import thing\n\ndef track_size():\n    return thing.SIZE\n"
    project = GitProject(working_folder)
    project.commit("Begin", thing="SIZE = 1\n", benchmarks__suite=suite)
    for number in range(2, 4):
        project.commit(f"Grow to {number}", thing=f"SIZE = {number}\n")
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)
    monkeypatch.setenv("PERFCI_PROJECT", PROJECT)

    code = run_cli(["run", "HEAD~2..HEAD", "--rounds", "2", "--send"])

    sent = capsys.readouterr().err.splitlines()[-1]
    with closing(open_store("sqlite:///.perfci/perfci.db", create=False)) as mine, mine.read() as tx:
        measured = {session.uid for session in runs_and_sessions.load_sessions(tx, PROJECT)}
    with server_store.read() as tx:
        arrived = {session.uid: session.kind for session in runs_and_sessions.load_sessions(tx, PROJECT)}
    assert code == 0
    assert sent == f"4 runs sent to {SERVER}"
    assert arrived.keys() == measured
    assert sorted(arrived.values()) == [
        "compare",
        "history",
    ]  # the rounds, and the pairs that settled what they raised
