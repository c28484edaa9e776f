"""Workflows and the action as their linters see them, and what each of their jobs is allowed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfci.workflows import MEASURE, REPORT

ROOT = Path(__file__).parent.parent
yaml = pytest.importorskip("yaml")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A repository with what `perfci init` writes, beside our own workflows and action."""
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    for name, text in {"perf.yml": MEASURE, "perf-report.yml": REPORT}.items():
        (tmp_path / ".github" / "workflows" / name).write_text(text)
    return tmp_path


def linted(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_auditor_finds_nothing(written: Path) -> None:
    linted(
        str(Path(sys.executable).parent / "zizmor"),
        "--offline",
        "--no-progress",
        "--persona",
        "auditor",
        ".",
        folder=written,
    )


def test_they_are_what_github_reads(written: Path) -> None:
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema")

    linted(*check, "vendor.github-workflows", *map(str, written.glob(".github/workflows/*.yml")), folder=written)
    linted(*check, "vendor.github-actions", ".github/actions/perfci/action.yml", folder=written)


def test_the_job_that_runs_foreign_code_holds_no_credential() -> None:
    jobs = yaml.safe_load(MEASURE)["jobs"]

    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "compare": {"contents": "read"}, "equals": {"contents": "read"},
    }  # fmt: skip
    assert not any(
        "secrets." in MEASURE or "github.token" in str(step) for job in jobs.values() for step in job["steps"]
    )


def test_the_job_that_holds_a_token_runs_nothing_foreign() -> None:
    (job,) = yaml.safe_load(REPORT)["jobs"].values()

    assert job["permissions"] == {"actions": "read", "checks": "write", "pull-requests": "write"}
    assert "actions/checkout" not in str(job)
    assert commands(job) == ["pip install perfci", "perfci github report perfci-results"]


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]
