"""`perfci archive`: a benchmark leaves lists and incidents, is listed, and comes back."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.store import open_store
from tests.support.builders import PROJECT, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

NAME = a_series().benchmark.name


@pytest.fixture
def stored(working_folder: Path) -> Path:
    with (
        closing(open_store(f"sqlite:///{working_folder}/perfci.db", create=True)) as store,
        store.begin() as tx,
    ):
        ingest_run(tx, a_run(a_result()), "key", "body", kind="history")
    return working_folder


def archive(*arguments: str) -> int:
    return run_cli(["archive", *arguments, "--db", "perfci.db", "--project", PROJECT])


def test_a_benchmark_is_archived_listed_and_back(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert archive("benchmark", NAME, "--reason", "replaced") == 0
    assert archive("list") == 0
    assert archive("list", "--json") == 0
    assert archive("benchmark", NAME, "--undo") == 0
    assert archive("list") == 0

    first, listed, *document, back, empty = capsys.readouterr().out.splitlines()
    assert first == f"benchmark {NAME}: 1 series archived"
    assert f"  {NAME} " in listed
    assert ": replaced (local, " in listed
    assert json.loads("\n".join(document))[0]["reason"] == "replaced"
    assert (back, empty) == (f"benchmark {NAME}: 1 series back", "nothing is archived by hand")


def test_refuses_without_a_reason_and_unknown_names(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert archive("machine", "no such box", "--reason", "sold") == 2
    assert archive("benchmark", NAME) == 2

    assert capsys.readouterr().err.splitlines() == [
        f"perfci: {PROJECT} has no machine no such box; nothing was changed.",
        "perfci: --reason is needed: whoever misses it later will ask why.",
    ]
