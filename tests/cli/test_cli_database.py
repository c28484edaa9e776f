"""A database that cannot be used gives one sentence and exit code 2, and stays unchanged."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.store import open_store
from tests.support.databases import postgres_url as postgres_url
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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["partition"], "perfci: Partitions are for PostgreSQL: a SQLite database has none."),
        (
            ["drop-partitions", "--older-than", "400d"],
            "perfci: This database has no partitions: `perfci db partition` makes them, on PostgreSQL.",
        ),
        (
            ["drop-partitions", "--older-than", "long"],
            "perfci: --older-than takes days such as 400d, found 'long'",
        ),
    ],
)
def test_sqlite_has_no_partitions_to_make_or_drop(
    working_folder: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=True)):
        assert (
            complaint(["db", *arguments, "--db", f"sqlite:///{working_folder}/perfci.db"], capsys) == sentence
        )


def test_partitions_are_made_and_dropped(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["db", "partition", "--results", "1000", "--db", postgres_url]) == 0
    assert run_cli(["db", "partition", "--db", postgres_url]) == 0
    assert run_cli(["db", "drop-partitions", "--older-than", "400d", "--db", postgres_url]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "samples are in partitions now",
        "samples are in partitions already",
        "0 partitions dropped, 0 MB; 0 processes kept",
    ]
