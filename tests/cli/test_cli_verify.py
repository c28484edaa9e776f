"""``perfci export --format evidence`` and ``perfci verify``: what a user reads, and the exit codes."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.cli.results.verify import name_apart
from perfci.store import open_store
from tests.support.builders import PROJECT, a_series, a_variant
from tests.support.confirmed_step import store_confirmed_step
from tests.support.databases import fresh_database


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence")
    with fresh_database("sqlite", folder) as url:
        with closing(open_store(url, create=False)) as store:
            store_confirmed_step(store)
        about = ["--db", url, "--project", PROJECT, "--output", str(folder / "incident-1.tar.gz")]
        assert run_cli(["export", "--format", "evidence", "--incident", "1", *about]) == 0
    return folder / "incident-1.tar.gz"


def test_no_two_series_read_alike() -> None:
    listed = [a_series(variant=a_variant(python=version)) for version in ("3.12", "3.13")]

    names = list(map(name_apart(listed), listed))

    assert names == [
        "training.Step.time_step · time (py3.12)",
        "training.Step.time_step · time (py3.13)",
    ]


def test_states_what_stands(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["verify", str(evidence)]) == 0

    assert capsys.readouterr().out == (
        "Incident 1 of acme/model: Step.time_step(1) and 1 more series got worse, up to +31.0 %, "
        "at 0000000dcc Change number 13 (2 Mar 2026)\n"
        "  training.Step.time_step(1) · time  +31.0 %  0000000ccc..0000000dcc: stands, "
        "measured on 12 fresh pairs of 0000000ccc..0000000dcc\n"
        "  training.Step.time_step(2) · time  +30.0 %  0000000ccc..0000000dcc: stands, found in its history\n"
        "  verdict 1: training.Step.time_step(1) · time  0000000ccc..0000000dcc  "
        "regression (confirmation): identical\n"
        "Computed again: 48 levels from samples, 2 change points of 2 histories, 1 verdict.\n"
        "The evidence stands: everything came out as it was stored, bit for bit.\n"
    )


def test_the_same_as_json(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["verify", str(evidence), "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert (document["stands"], document["levels_from_samples"]) == (True, 48)
    assert [member["basis"] for member in document["members"]] == [
        "measured on 12 fresh pairs of 0000000ccc..0000000dcc",
        "found in its history",
    ]
    assert [verdict["differences"] for verdict in document["verdicts"]] == [[]]


def test_refuses_a_file_that_was_changed(
    evidence: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "changed.tar.gz"
    content = gzip.decompress(evidence.read_bytes())
    changed.write_bytes(gzip.compress(content.replace(b'"cores":2', b'"cores":4')))

    assert run_cli(["verify", str(changed)]) == 2

    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err.startswith(
        f"perfci: {changed} was changed after it was written: series.jsonl is not the file that its manifest "
        "lists (SHA-256 "
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["export", "--format", "evidence"],
            "--format evidence and --incident N go together: evidence is that of one incident",
        ),
        (["export", "--incident", "3"], "--format evidence and --incident N go together"),
        (["verify", "nowhere.tar.gz"], "Cannot read nowhere.tar.gz: No such file or directory."),
    ],
)
def test_states_what_is_missing(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(arguments) == 2
    assert sentence in capsys.readouterr().err
