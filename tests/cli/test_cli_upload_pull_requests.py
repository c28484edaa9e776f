"""Files that pytest-benchmark writes in a job of a pull request are uploaded and get a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.config.ci_job import read_ci_job
from perfci.model import Commit, Role
from perfci.service.uploads.pull_request_of_run import UploadPullRequest, build_upload_pull_request
from perfci.store import Store
from tests.support.builders import a_commit, a_process, a_result, a_run, a_sha
from tests.support.pull_request_uploads import WOBBLES, run_judge_worker
from tests.support.switchable_connection import SwitchableConnection

SERVER = "http://localhost:8787"
RECORDED = Path(__file__).parents[1] / "formats" / "files" / "pytest-benchmark" / "recorded-1.json"
HEAD, MERGE, BASE = a_sha(99), a_sha(98), a_sha(10)

WriteFile = Callable[..., str]


@pytest.fixture(autouse=True)
def job_of_the_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PERFCI_PROJECT": "acme/model", "PERFCI_CLIENT_SERVER": SERVER}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def write_file(working_folder: Path) -> WriteFile:
    """Writes what pytest-benchmark recorded, as if it had been slower by a factor at another commit."""

    def write(number: int, sha: str, factor: float) -> str:
        content: dict[str, Any] = json.loads(RECORDED.read_text())
        at = datetime.fromisoformat(content["datetime"]) + timedelta(hours=number)
        content["datetime"] = at.isoformat()
        content["commit_info"] |= {"id": sha, "time": at.isoformat(), "dirty": False}
        for benchmark in content["benchmarks"]:
            stats = benchmark["stats"]
            stats["data"] = [value * factor for value in stats["data"]]
        name = f"measured-{number}.json"
        (working_folder / name).write_text(json.dumps(content))
        return name

    return write


def in_job(monkeypatch: pytest.MonkeyPatch, folder: Path, *, pull_request: bool) -> None:
    """Be a job of GitHub Actions: of a push, or of the merge that GitHub makes of a pull request."""
    event = {
        "action": "synchronize",
        "number": 7,
        "pull_request": {
            "number": 7,
            "state": "open",
            "head": {"ref": "faster", "sha": HEAD, "repo": {"id": 1, "full_name": "acme/model"}},
            "base": {"ref": "main", "sha": BASE, "repo": {"id": 1, "full_name": "acme/model"}},
        },
        "repository": {"id": 1, "full_name": "acme/model"},
        "sender": {"id": 1, "login": "ada"},
    }
    (folder / "event.json").write_text(json.dumps(event))
    job = {
        "ACTIONS": "true",
        "EVENT_NAME": "pull_request" if pull_request else "push",
        "EVENT_PATH": str(folder / "event.json"),
        "SHA": MERGE,
        "RUN_ID": "900" if pull_request else "800",
        "JOB": "bench",
    }
    for name, value in job.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)


def test_a_pull_request_gets_a_verdict_from_files_of_pytest_benchmark(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    write_file: WriteFile,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    in_job(monkeypatch, working_folder, pull_request=False)
    for number in range(1, 11):
        monkeypatch.setenv("GITHUB_RUN_ID", str(800 + number))
        assert run_cli(["upload", write_file(number, a_sha(number), 1 + WOBBLES[number])]) == 0
    in_job(monkeypatch, working_folder, pull_request=True)
    slower = write_file(20, MERGE, 1.3)
    assert run_cli(["upload", slower]) == 0
    run_judge_worker(server_store)
    capsys.readouterr()

    assert run_cli(["upload", slower, "--wait", "--markdown", "verdict.md"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"0 runs sent to {SERVER}, 1 already stored"
    assert lines[1].startswith("pull request 7: ")
    assert "regressions" in lines[1]
    text = (working_folder / "verdict.md").read_text()
    assert f"Base `{BASE[:10]}` → head `{HEAD[:10]}`" in text
    assert "1 upload of this head against 10 runs of the main branch in 1 day" in text


def test_a_first_pull_request_has_nothing_to_be_compared_with(
    working_folder: Path,
    connection: SwitchableConnection,
    server_store: Store,
    write_file: WriteFile,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write_file(1, HEAD, 1.0)
    assert run_cli(["upload", file, "--pull-request", "7"]) == 0
    run_judge_worker(server_store)
    capsys.readouterr()

    assert run_cli(["upload", file, "--pull-request", "7", "--wait"]) == 4

    assert capsys.readouterr().out.splitlines()[-1] == (
        "pull request 7: Nothing to compare with: the main branch has no run of these benchmarks"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--wait"], "--wait waits for the verdict on a pull request, and this is a job of none"),
        (["--base", "HEAD"], "--base names where a pull request starts: give --pull-request NUMBER as well"),
    ],
)
def test_says_what_an_option_needs(
    write_file: WriteFile, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["upload", write_file(1, HEAD, 1.0), *options]) == 2

    assert message in capsys.readouterr().err


GITLAB = {
    "GITLAB_CI": "true",
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_IID": "12",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": BASE,
    "CI_COMMIT_SHA": HEAD,
}
MERGED_RESULTS = {
    "CI_COMMIT_SHA": MERGE,
    "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": HEAD,
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": a_sha(11),
}
BUILDKITE = {
    "BUILDKITE": "true",
    "BUILDKITE_PULL_REQUEST": "12",
    "BUILDKITE_COMMIT": HEAD,
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (GITLAB, UploadPullRequest("12", HEAD, a_sha(9), base_position=9)),
        (GITLAB | MERGED_RESULTS, UploadPullRequest("12", HEAD, a_sha(11), MERGE)),
        (BUILDKITE, UploadPullRequest("12", HEAD, a_sha(9), base_position=9)),
        (BUILDKITE | {"BUILDKITE_PULL_REQUEST": "false"}, None),
        ({}, None),
    ],
    ids=["GitLab", "GitLab, merged results", "Buildkite", "Buildkite, of a branch", "no job"],
)
def test_reads_the_pull_request_of_other_systems(
    environ: dict[str, str], expected: UploadPullRequest | None
) -> None:
    job = read_ci_job(environ)

    pull_request = build_upload_pull_request(
        job.pull_request if job else None,
        None,
        "",
        {commit.sha: commit for commit in [a_commit(9), a_commit(10)]},
        lambda target, head: a_sha(9) if target in (BASE, "origin/main") and head == HEAD else None,
    )

    assert pull_request == expected


def test_files_the_merge_under_the_head_and_leaves_other_runs_alone() -> None:
    pull_request = UploadPullRequest("7", HEAD, BASE, MERGE)
    of_merge, of_other = (a_run(a_result(), commit=Commit(sha)) for sha in (MERGE, a_sha(1)))
    pairs = a_run(a_result(None, a_process(role=Role.BASE, pair=0)), commit=Commit(HEAD))

    filed = pull_request.assign_to(of_merge)

    assert filed.commit == Commit(HEAD)
    assert dict(filed.origin) == {"event": "pull_request", "pull_request": "7", "base": BASE}
    assert [pull_request.assign_to(run) for run in (of_other, pairs)] == [of_other, pairs]
