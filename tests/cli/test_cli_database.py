"""A database that cannot be used gives one sentence and exit code 2, and stays unchanged."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit("First", benchmarks__suite="def track_one(): return 1\n")
    return project


@pytest.fixture
def measured(project: GitProject, capsys: pytest.CaptureFixture[str]) -> Path:
    assert run_cli(["run", "--rounds", "1"]) == 0
    capsys.readouterr()
    return project.folder / ".perfci" / "perfci.db"


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run_cli(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    return lines[0]


@pytest.mark.parametrize("verb", ["run", "export", "serve"])
def test_rejects_a_newer_schema(measured: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    with sqlite3.connect(measured) as database:
        database.execute("update alembic_version set version_num = 'from_the_future'")

    assert "newer" in complaint([verb], capsys)


def test_refuses_to_write_a_read_only_database(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured.with_name("perfci.db-wal").unlink(missing_ok=True)
    uri = f"sqlite:///file:{measured}?mode=ro&uri=true"

    assert "read" in complaint(["run", "--rounds", "1", "--db", uri], capsys)


def test_says_when_the_folder_of_the_database_cannot_be_made(
    project: GitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")

    assert str(tmp_path / "file") in complaint(
        ["run", "--db", f"sqlite:///{tmp_path}/file/perfci.db"], capsys
    )


def test_explains_a_missing_database(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    assert "perfci run" in complaint(["export"], capsys)
    assert not (project.folder / ".perfci" / "perfci.db").exists()


def test_checks_and_backs_up(measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["db", "check"]) == 0
    assert run_cli(["db", "backup", str(tmp_path / "copy.db")]) == 0
    assert run_cli(["--db", str(tmp_path / "copy.db"), "export"]) == 0

    out = capsys.readouterr().out
    assert "all checks passed" in out
    assert "suite.track_one" in out
    assert not stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) & stat.S_IWOTH
