"""``perfci delete``: asks once, and leaves nothing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.store import Store, open_store
from perfci.store.access import audit_log
from perfci.store.projects import load_projects
from perfci.store.queries.series_search import search_series
from tests.support.builders import PROJECT, a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

KEY = "1" * 64


@pytest.fixture
def stored(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    url = f"sqlite:///{working_folder}/perfci.db"
    monkeypatch.setenv("PERFCI_DB", url)
    monkeypatch.setenv("PERFCI_PROJECT", PROJECT)
    with closing(open_store(url, create=True)) as store:
        with store.begin() as tx:
            ingest_run(tx, a_run(a_result(a_series("secret"), a_process(1.0))), KEY, "body", kind="history")
        yield store


def names(store: Store) -> list[str]:
    with store.read() as tx:
        return [record.series.benchmark.name for record in search_series(tx, PROJECT)]


def test_deletes_a_run_with_its_names(stored: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["delete", "run", KEY, "--yes"]) == 0

    assert capsys.readouterr().out == f"deleted 1 run of {PROJECT}\n"
    assert names(stored) == []
    with stored.read() as tx:
        [project] = load_projects(tx)
        assert [line.action for line in audit_log.list_entries(tx, project.id)] == ["run.delete"]


def test_asks_before_it_deletes(
    stored: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("click.confirm", lambda question: False)

    assert run_cli(["delete", "project", PROJECT]) == 0

    assert capsys.readouterr().out == "nothing was deleted\n"
    assert names(stored) == ["secret"]


def test_says_that_nothing_was_deleted_if_nobody_answers(
    stored: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    assert run_cli(["delete", "project", PROJECT]) == 2

    assert "nothing was deleted, since nobody answered" in capsys.readouterr().err
    assert names(stored) == ["secret"]


def test_deletes_a_project(stored: Store) -> None:
    assert run_cli(["delete", "project", PROJECT, "--yes"]) == 0

    with stored.read() as tx:
        assert load_projects(tx) == []
        assert [line.action for line in audit_log.list_entries(tx, -1)] == ["project.delete"]


@pytest.mark.parametrize("noun", ["run", "series"])
def test_says_what_is_not_there(stored: Store, noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["delete", noun, "0" * 64, "--yes"]) == 2

    assert capsys.readouterr().err == f"perfci: {PROJECT} has no {noun} {'0' * 64}.\n"


def test_says_what_was_deleted_before_what_is_not_there(
    stored: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["delete", "run", KEY, "0" * 64, "--yes"]) == 2

    error = f"perfci: {PROJECT} has no run {'0' * 64}; those named before it are deleted.\n"
    assert capsys.readouterr().err == error
    assert names(stored) == []
