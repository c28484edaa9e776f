"""Result files of other tools on their way to a server and back: every file of a commit arrives once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.formats.format_types import ImportDefaults
from perfci.model import Commit
from perfci.service.export_history import export_history
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store
from perfci.store.queries import measured_samples, runs_and_sessions
from tests.support.git_project import GitProject
from tests.support.switchable_connection import SwitchableConnection

SERVER = "http://localhost:8787"
FILES = Path(__file__).parents[1] / "formats" / "files"
PROJECT = "acme/model"
PYTEST_BENCHMARK = [FILES / "pytest-benchmark" / f"recorded-{number}.json" for number in (1, 2)]
SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def project_of_the_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCI_PROJECT", PROJECT)
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", SERVER)


def upload(*arguments: str | Path) -> int:
    return run_cli(["upload", *map(str, arguments)])


def export(store: Store, format_name: str) -> bytes:
    return b"".join(export_history(store, PROJECT, format_name, lambda _: None))


def documents_of(exported: bytes) -> list[dict[str, Any]]:
    return sorted(map(json.loads, exported.splitlines()), key=lambda document: document["session"])


def test_two_files_of_one_commit_arrive_at_a_server_and_are_read_back(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert upload(*PYTEST_BENCHMARK) == 0
    assert upload(*PYTEST_BENCHMARK) == 0

    assert capsys.readouterr().out.splitlines() == [
        f"2 runs sent to {SERVER}",
        f"0 runs sent to {SERVER}, 2 already stored",
    ]
    exported = export(server_store, "perfci")
    first, second = documents_of(exported)
    assert first["session"] != second["session"]
    assert first["commit"]["sha"] == second["commit"]["sha"]
    for format_name in ("perfci", "pytorch"):
        file = working_folder / f"{format_name}.json"
        file.write_bytes(export(server_store, format_name))
        assert run_cli(["ingest", file.name, "--db", f"{format_name}.db"]) == 0
        capsys.readouterr()
        assert run_cli(["export", "--format", "perfci", "--db", f"{format_name}.db"]) == 0
        assert documents_of(capsys.readouterr().out.encode()) == [first, second]
    # What was uploaded is known here as well.
    assert run_cli(["ingest", *map(str, PYTEST_BENCHMARK), "--db", "perfci.db"]) == 0
    assert "0 new runs, 1 already stored" in capsys.readouterr().out


def test_a_file_sent_again_by_a_later_attempt_of_the_job_is_known(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = {"ACTIONS": "true", "RUN_ID": "4711", "RUN_ATTEMPT": "1", "JOB": "bench", "EVENT_NAME": "push"}
    for name, value in job.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    assert upload(*PYTEST_BENCHMARK) == 0
    monkeypatch.setenv("GITHUB_RUN_ATTEMPT", "2")
    assert upload(*PYTEST_BENCHMARK) == 0

    assert capsys.readouterr().out.splitlines()[-1] == f"0 runs sent to {SERVER}, 2 already stored"
    origins = [document["origin"] for document in documents_of(export(server_store, "perfci"))]
    assert [{name: origin[name] for name in ("run_id", "attempt", "job", "event")} for origin in origins] == [
        {"run_id": "4711", "attempt": "1", "job": "bench", "event": "push"}
    ] * 2


def test_what_a_file_lacks_comes_from_options_or_the_repository(
    working_folder: Path, connection: SwitchableConnection, server_store: Store
) -> None:
    file = FILES / "hyperfine" / "recorded-1.json"
    assert upload(file, "--commit", SHA, "--machine", "box") == 0
    repository = GitProject(working_folder)
    repository.git("commit", "--quiet", "--allow-empty", "-m", "First")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "Second")

    assert upload(file, "--machine", "box") == 0
    assert upload(file, "--machine", "box", "--commit", "HEAD~1") == 0

    documents = documents_of(export(server_store, "perfci"))
    commits = {(document["commit"]["sha"], document["commit"].get("subject")) for document in documents}
    assert commits == {
        (SHA, None),
        (repository.git("rev-parse", "HEAD"), "Second"),
        (repository.git("rev-parse", "HEAD~1"), "First"),
    }
    assert {document["machine"]["name"] for document in documents} == {"box"}


JOBS = {
    "GitHub Actions": (
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_SHA": SHA,
            "GITHUB_RUN_ID": "4711",
            "GITHUB_RUN_ATTEMPT": "2",
            "GITHUB_JOB": "bench",
            "GITHUB_EVENT_NAME": "push",
        },
        {"run_id": "4711", "attempt": "2", "job": "bench", "event": "push"},
        "history",
    ),
    "GitLab": (
        {
            "GITLAB_CI": "true",
            "CI_COMMIT_SHA": SHA,
            "CI_PIPELINE_ID": "12",
            "CI_JOB_NAME": "bench",
            "CI_PIPELINE_SOURCE": "merge_request_event",
        },
        {"run_id": "12", "job": "bench", "event": "pull_request"},
        "pull_request",
    ),
    "Buildkite": (
        {
            "BUILDKITE": "true",
            "BUILDKITE_COMMIT": SHA,
            "BUILDKITE_BUILD_ID": "0190",
            "BUILDKITE_STEP_KEY": "bench",
            "BUILDKITE_PULL_REQUEST": "false",
            "BUILDKITE_SOURCE": "webhook",
        },
        {"run_id": "0190", "job": "bench", "event": "webhook"},
        "history",
    ),
}


@pytest.mark.parametrize(("variables", "origin", "kind"), JOBS.values(), ids=JOBS)
def test_the_job_is_the_origin_and_without_a_repository_its_commit_is_meant(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    origin: dict[str, str],
    kind: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert upload(FILES / "hyperfine" / "recorded-1.json", "--machine", "box") == 0

    with server_store.read() as tx:
        run = measured_samples.load_run(tx, 1)
        [session] = runs_and_sessions.load_sessions(tx, PROJECT)
    assert (run.commit.sha, session.kind) == (SHA, kind)
    assert dict(run.origin).items() >= origin.items()


def test_a_folder_of_files_is_read_whole(
    working_folder: Path, connection: SwitchableConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = working_folder / ".benchmarks" / "Linux-CPython-3.11-64bit"
    folder.mkdir(parents=True)
    for file in PYTEST_BENCHMARK:
        shutil.copy(file, folder)
    (folder / "damaged.json").write_text("{")

    assert upload(".benchmarks") == 0
    assert run_cli(["ingest", ".benchmarks"]) == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines()[:2] == [
        f"2 runs sent to {SERVER}",
        ".benchmarks: 2 new runs, 0 already stored, 10 values, 40 samples into project acme/model",
    ]
    assert "Left out: .benchmarks/Linux-CPython-3.11-64bit/damaged.json holds no results" in captured.err


def test_what_waits_for_its_unit_is_sent_once_it_is_given(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = FILES / "google-benchmark" / "recorded-1.json"
    options = (file, "--commit", SHA, "--machine", "box")

    assert upload(*options) == 0
    assert (
        "  not sent: counters have no unit or direction in this format; "
        "send the file again with --metric 'comparisons=UNIT:lower' (or :higher)\n"
    ) in capsys.readouterr().err
    assert upload(*options, "--metric", "comparisons=count:lower") == 0

    metrics = [
        result["metric"]
        for document in documents_of(export(server_store, "perfci"))
        for result in document["results"]
    ]
    assert sorted(metrics) == ["comparisons"] * 2 + ["cpu_time"] * 2 + ["time"] * 2


def test_waiting_results_of_a_server_are_resolved_from_here(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = FILES / "google-benchmark" / "recorded-1.json"
    defaults = ImportDefaults(PROJECT, Commit(SHA), machine="box")
    import_file_or_folder(server_store, file, "auto", defaults)

    assert run_cli(["unresolved", "resolve", "comparisons=count:lower"]) == 0
    assert run_cli(["unresolved", "list"]) == 0
    assert capsys.readouterr().out == "2 results resolved\nnothing waits\n"
