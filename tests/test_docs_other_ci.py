"""The recipes for other CI: valid for their services, and each command run as there, but for measuring."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from test_docs_commands import find_fault

from tests.support.git_project import GitProject

yaml = pytest.importorskip("yaml")

PAGE = (Path(__file__).parent.parent / "docs" / "other-ci.md").read_text()
GITLAB, BUILDKITE = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
REPORT = "### perfci: 1 regression\n/approve\n  /merge\n| `train/step` | 5 % |\n"
HOSTILE = "$(touch taken) `id`"

COMMANDS = {
    "pip": 'printf "%s\\n" "$@" > pip-arguments',
    "perfci": 'printf "%s\\n" "$@" > arguments; cp report.md comment.md 2>/dev/null; exit "${VERDICT:-0}"',
    "buildkite-agent": 'printf "%s\\n" "$@" > annotation; cat > annotated.md',
}
"""What stands in for the commands that install, measure and annotate."""


@pytest.mark.parametrize(("name", "text"), [("gitlab-ci", GITLAB), ("buildkite", BUILDKITE)])
def test_recipes_match_the_schema_of_their_service(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "ci.yml").write_text(text)
    check = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{name}", str(tmp_path / "ci.yml")]
    done = subprocess.run([sys.executable, *check], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def list_gitlab_scripts() -> dict[str, list[str]]:
    return {name: job["script"] for name, job in yaml.safe_load(GITLAB).items()}


def list_buildkite_scripts() -> dict[str, list[str]]:
    """The commands as the agent gives them to the shell: ``$$`` is a dollar sign."""
    steps = yaml.safe_load(BUILDKITE)["steps"]
    return {
        step["label"].rpartition(" ")[2]: [text.replace("$$", "$") for text in step["command"]]
        for step in steps
    }


def test_recipes_name_options_that_perfci_has() -> None:
    scripts = [*list_gitlab_scripts().values(), *list_buildkite_scripts().values()]
    lines = [line.strip() for script in scripts for text in script for line in text.splitlines()]
    commands = [shlex.split(line.partition("||")[0])[1:] for line in lines if line.startswith("perfci ")]

    assert len(commands) == 4
    assert [fault for command in commands if (fault := find_fault(command))] == []


@pytest.fixture
def project(tmp_path: Path) -> GitProject:
    """A clone of a project, with the commands that stand in for those of the CI."""
    origin = GitProject(tmp_path / "origin")
    origin.commit("First", net="")
    origin.git("checkout", "-q", "-b", "faster")
    origin.commit("Faster", net="x = 1")
    subprocess.run(["git", "clone", "-q", origin.folder, tmp_path / "clone"], check=True)
    for name, text in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "clone" / "report.md").write_text(REPORT)
    return origin


def run_script(project: GitProject, script: list[str], **variables: str) -> int:
    """Run the commands of a job, which ends at the first that fails, as GitLab and Buildkite do."""
    folder = project.folder.parent
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)} | variables
    done = subprocess.run(["bash", "-e", "-c", "\n".join(script)], cwd=folder / "clone", env=environment)
    assert not list(folder.rglob("taken"))
    return done.returncode


def read(project: GitProject, name: str) -> str:
    return (project.folder.parent / "clone" / name).read_text()


def test_gitlab_compares_with_the_merge_base(project: GitProject) -> None:
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "a" * 40, "CI_COMMIT_SHA": "b" * 40}

    ended = run_script(project, list_gitlab_scripts()["compare"], VERDICT="1", **variables)

    assert ended == 1
    assert read(project, "arguments").splitlines()[:3] == ["compare", "a" * 40, "b" * 40]
    assert read(project, "pip-arguments") == (
        "install\nperfci[torch] @ git+https://github.com/OWNER/perfci@COMMIT\n"
    )


class Notes(BaseHTTPRequestHandler):
    """The notes of one merge request, as GitLab's API keeps them."""

    notes: list[dict[str, Any]]
    received: list[tuple[str, str, str]]

    def do_GET(self) -> None:
        self._answer(self.notes)

    def do_POST(self) -> None:
        self.notes.append({"id": len(self.notes) + 1, "body": self._read_body()})
        self._answer({})

    def do_PUT(self) -> None:
        self.notes[int(self.path.rpartition("/")[2]) - 1]["body"] = self._read_body()
        self._answer({})

    def _read_body(self) -> str:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        return parse_qs(form)["body"][0]

    def _answer(self, content: object) -> None:
        self.received.append((self.command, self.path.partition("?")[0], self.headers["PRIVATE-TOKEN"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""


@pytest.fixture
def gitlab() -> Iterator[tuple[type[Notes], str]]:
    handler = type("FreshNotes", (Notes,), {"notes": [{"id": 1, "body": "Nice"}], "received": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}/api/v4"
    server.shutdown()
    server.server_close()


def test_gitlab_gets_one_note_that_is_edited(project: GitProject, gitlab: tuple[type[Notes], str]) -> None:
    handler, address = gitlab
    variables = {
        "CI_API_V4_URL": address,
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "3",
        "PERFCI_GITLAB_TOKEN": HOSTILE,
    }
    comment = project.folder.parent / "clone" / "comment.md"
    for text in (REPORT, HOSTILE):
        comment.write_text(text)
        assert run_script(project, list_gitlab_scripts()["report"], **variables) == 0
        if text == REPORT:
            first = handler.notes[1]["body"]

    notes = "/api/v4/projects/7/merge_requests/3/notes"
    assert handler.received == [
        (method, path, HOSTILE)
        for method, path in [("GET", notes), ("POST", notes), ("GET", notes), ("PUT", f"{notes}/2")]
    ]
    assert first.splitlines() == [
        "<!-- perfci -->",
        "### perfci: 1 regression",
        "&#47;approve",
        "&#47;merge",
        "| `train/step` | 5 % |",
    ]
    assert [note["body"].strip() for note in handler.notes] == ["Nice", f"<!-- perfci -->\n{HOSTILE}"]


def test_gitlab_writes_nothing_without_report_or_token(project: GitProject) -> None:
    assert run_script(project, list_gitlab_scripts()["report"], PERFCI_GITLAB_TOKEN="") == 0


@pytest.mark.parametrize(("verdict", "style"), [("0", "success"), ("1", "warning"), ("3", "info")])
def test_buildkite_annotates_and_ends_with_the_verdict(project: GitProject, verdict: str, style: str) -> None:
    variables = {"VERDICT": verdict, "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main"}

    ended = run_script(project, list_buildkite_scripts()["compare"], **variables)

    base = project.git("rev-parse", "main")
    assert ended == int(verdict)
    assert read(project, "arguments").splitlines()[:3] == ["compare", base, "HEAD"]
    assert read(project, "annotation").splitlines() == ["annotate", "--style", style, "--context", "perfci"]
    assert read(project, "annotated.md") == REPORT


@pytest.mark.parametrize("list_scripts", [list_gitlab_scripts, list_buildkite_scripts])
def test_the_main_branch_is_sent_to_the_server(project: GitProject, list_scripts: Any) -> None:
    ended = run_script(project, list_scripts()["history"], PERFCI_SERVER=HOSTILE)

    assert ended == 0
    assert read(project, "arguments").splitlines() == ["run", "HEAD", "--server", HOSTILE]
