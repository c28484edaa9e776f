"""Git as perfci runs it: in the named folder, without programs that a configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfci.model import PerfciError
from perfci.runner.git_repository import GitRepository
from perfci.runner.run_git import run_git
from tests.support.git_project import GitProject


def test_runs_no_program_that_the_configuration_of_a_repository_names(
    project: GitProject, tmp_path: Path
) -> None:
    program, marker = tmp_path / "program", tmp_path / "was-run"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (hooks / name).symlink_to(program)
    project.commit("First", thing="A = 1\n")
    for key, value in {
        "core.fsmonitor": str(program),
        "core.hooksPath": str(hooks),
        "core.pager": str(program),
        "core.sshCommand": str(program),
        "gpg.program": str(program),
        "log.showSignature": "true",
    }.items():
        project.git("config", key, value)
    marker.unlink(missing_ok=True)
    (project.folder / "thing.py").write_text("A = 2\n")

    repository = GitRepository(project.folder)
    dirty = repository.snapshot_working_tree()
    repository.export_commit_files(dirty.sha)
    repository.list_commit_or_range("HEAD")

    assert not marker.exists()


def test_ignores_variables_that_name_another_repository(
    project: GitProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = project.commit("First", thing="A = 1\n")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))

    assert run_git(project.folder, "rev-parse", "HEAD") == sha


def test_takes_no_command_for_an_address(project: GitProject, tmp_path: Path) -> None:
    with pytest.raises(PerfciError, match="transport 'ext' not allowed"):
        run_git(project.folder, "ls-remote", f"ext::touch {tmp_path}/x")

    assert not (tmp_path / "x").exists()


def test_keeps_output_byte_for_byte_but_for_the_last_newline(project: GitProject) -> None:
    (project.folder / "thing.txt").write_bytes(b"caf\xe9\r\n\n")
    project.git("add", "thing.txt")

    text = run_git(project.folder, "cat-file", "blob", ":thing.txt")

    assert text.encode("utf-8", "surrogateescape") == b"caf\xe9\r\n"


def test_reports_the_last_line_of_an_error(project: GitProject) -> None:
    with pytest.raises(PerfciError, match=r"^git rev-parse failed: fatal: Needed a single revision$"):
        run_git(project.folder, "rev-parse", "--verify", "nowhere")


def test_explains_that_git_is_missing(project: GitProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(PerfciError, match="git was not found; install git"):
        run_git(project.folder, "rev-parse", "HEAD")
