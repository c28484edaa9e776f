"""``perfci ingest`` of asv results, and ``perfci export`` as CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from tests.support.builders import a_result, a_run

BENCHMARKS = {
    "version": 2,
    "suite.time_step": {
        "code": "",
        "name": "suite.time_step",
        "param_names": [],
        "params": [],
        "type": "time",
        "unit": "seconds",
        "version": "1",
    },
}


def asv_results(folder: Path, values: list[float | None]) -> Path:
    """An asv results folder with one benchmark and one commit per value."""
    machine = folder / "results" / "box"
    machine.mkdir(parents=True)
    (folder / "results" / "benchmarks.json").write_text(json.dumps(BENCHMARKS))
    (machine / "machine.json").write_text(json.dumps({"machine": "box", "version": 1}))
    for number, value in enumerate(values):
        result = {
            "commit_hash": f"{number:040x}",
            "env_name": "virtualenv-py3.11",
            "date": 1_700_000_000_000 + number * 1000,
            "params": {"machine": "box", "python": "3.11"},
            "python": "3.11",
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version", "started_at", "duration"],
            "results": {"suite.time_step": [[value], [], "1", 1_700_000_000_000, 0.5]},
            "durations": {},
            "version": 2,
        }
        (machine / f"{number:08x}-virtualenv-py3.11.json").write_text(json.dumps(result))
    return folder / "results"


def test_imports_asv_results_and_detects_the_step_in_their_history(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = [0.0, 0.001, -0.001, 0.002, -0.002]
    results = asv_results(working_folder, [(1.0 if n < 20 else 1.3) * (1 + noise[n % 5]) for n in range(40)])

    assert run_cli(["ingest", str(results), "--project", "box"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{results}: 40 new runs, 0 already stored, 40 values, 0 samples into project box",
        "1 change point in the histories of box",
    ]

    assert run_cli(["ingest", str(results), "--project", "box"]) == 0
    assert (
        capsys.readouterr().out == f"{results}: 0 new runs, 40 already stored, 0 values, 0 samples into "
        "project box\n"
    )


def test_exports_imported_results(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = asv_results(working_folder, [1.5, None])
    assert run_cli(["ingest", str(results), "--project", "box", "--json", "report.json"]) == 0
    capsys.readouterr()

    assert run_cli(["export", "--project", "box"]) == 0

    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["commit"], row["status"], row["value"]) for row in rows] == [
        (f"{0:040x}", "ok", "1.5"),
        (f"{1:040x}", "failed", ""),
    ]
    assert json.loads((working_folder / "report.json").read_text())[0]["values"] == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"results": ' + "[" * 5000, "\0\1\2"])
def test_rejects_a_file_of_unknown_format(
    working_folder: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (working_folder / "broken.json").write_text(content)

    assert run_cli(["ingest", "broken.json"]) == 2
    assert capsys.readouterr().err.startswith("perfci: ")


def test_rejects_a_process_that_a_run_holds_twice(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(run_document.dump_run(a_run(a_result())))
    content["results"][0]["processes"] *= 2
    (working_folder / "twice.json").write_text(json.dumps(content))

    assert run_cli(["ingest", "twice.json", "--project", content["project"]]) == 2
    assert "two of its processes have the same role, pair, round, order and index" in capsys.readouterr().err


def test_rejects_a_missing_path(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["ingest", "gone"]) == 2
    assert "gone" in capsys.readouterr().err
