"""``perfci doctor`` in repositories with problems."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from perfci.cli import run_cli
from perfci.cli.doctor import format_doctor_finding, format_problem_counts
from perfci.config import Settings, load_config
from perfci.doctor import collect_facts
from perfci.doctor.findings import ok_finding, problem_finding, warning_finding
from perfci.doctor.noise_check import measure_aa_pairs
from perfci.doctor.software_checks import SoftwareFacts
from perfci.runner.git_repository import GitRepository
from perfci.runner.locks import machine_lock
from tests.support.git_project import GitProject

HEALTHY = """
    def track_bytes():
        return 7
    track_bytes.clock = "exact"

    def time_nothing():
        pass
"""


@functools.cache
def seen_once(python: str, path: str | None) -> SoftwareFacts:
    """What an interpreter has installed: seconds to ask, and the same for every test with the same path."""
    return ASK(python)


ASK = collect_facts.probe_environment


@pytest.fixture(autouse=True)
def probe_each_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        collect_facts, "probe_environment", lambda python: seen_once(python, os.environ.get("PYTHONPATH"))
    )


def findings(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    code = run_cli(["doctor", "--quick", "--json", *options])
    return code, json.loads(capsys.readouterr().out)["findings"]


def about(entries: list[dict[str, Any]], subject: str) -> list[tuple[str, str]]:
    return [(finding["level"], finding["sentence"]) for finding in entries if finding["subject"] == subject]


def test_reports_no_problem_in_a_working_suite(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    sha = project.commit("First", benchmarks__suite=HEALTHY)
    assert run_cli(["run", "--rounds", "1"]) == 0

    code, result = findings(capsys)

    assert code == (1 if any(finding["level"] == "problem" for finding in result) else 0)
    assert about(result, "repository") == [("ok", f"{working_folder} at {sha[:10]} First")]
    assert about(result, "suite") == [("ok", "2 benchmarks in 2 cells: 1 track, 1 time")]
    assert about(result, "history")[0][0] == "ok"
    assert about(result, "database") == [("ok", f"{working_folder}/.perfci/perfci.db has the current schema")]
    assert about(result, "Python") == [("ok", f"{sys.version.split()[0]} at {sys.executable}")]
    assert about(result, "lock") == [("ok", "nobody else measures on this machine")]
    assert [f["subject"] for f in result if f["subject"] in ("cores", "load", "memory", "clock", "disk")] == [
        "cores",
        "load",
        "memory",
        "clock",
        "disk",
    ]


def test_reports_benchmarks_that_would_silently_be_skipped(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    suite = """
        from perfci.bench import ModelBench

        class Chat(ModelBench):
            def build(self, p): ...
            def stream(self, model, p): yield 1

        class Kernels:
            def gpu_matmul(self): ...
            def bench_softmax(self): ...
            def measure_layer(self): ...
    """
    project.commit("First", benchmarks__serving=suite, benchmarks__broken="import no_such_module\n")

    code, result = findings(capsys)

    report = about(result, "suite")
    assert code == 1
    assert report[0] == (
        "problem",
        "module benchmarks.broken does not import, so nothing of it is measured: ModuleNotFoundError: No "
        "module named "
        "'no_such_module'",
    )
    assert [sentence.partition(" is ")[0].partition(" looks ")[0] for _, sentence in report[2:5]] == [
        "serving.Kernels.gpu_matmul (line 9)",
        "serving.Kernels.bench_softmax (line 10)",
        "serving.Kernels.measure_layer (line 11) declares no metric, so it fails when it",
    ]
    assert [
        level for level, sentence in report if sentence.startswith("serving.Chat leaves out training")
    ] == ["ok"]


def test_reports_cells_missing_since_the_last_run(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    project.commit("First", benchmarks__suite=HEALTHY)
    assert run_cli(["run", "--rounds", "1"]) == 0
    project.commit(
        "Second", benchmarks__suite=HEALTHY.replace("time_nothing", "_time_nothing").replace("7", "8")
    )

    code, result = findings(capsys)

    history = [sentence.split(" ", 3) for _, sentence in about(result, "history")]
    assert code == 1
    assert [(words[0], words[3].rpartition(" ")[2]) for words in history] == [
        ("measured", "suite.time_nothing"),
        ("rewritten", "suite.track_bytes"),
    ]


def test_reports_plugins_that_asv_does_not_load(
    working_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    GitProject(working_folder).commit("First", benchmarks__suite=HEALTHY)
    for name in ("asv-bench-hyphens", "asv_bench_broken"):
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (tmp_path / "asv_bench_broken.py").write_text("import no_such_module\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    code, result = findings(capsys)

    ours = sorted(report for report in about(result, "plugin") if report[0] == "problem")
    assert code == 1
    assert ours == [
        (
            "problem",
            "asv-bench-hyphens 1.0 is installed and never discovered: asv looks for names that begin "
            "with asv_bench",
        ),
        (
            "problem",
            "asv_bench_broken 1.0 does not import, so its benchmarks do not exist: ModuleNotFoundError: "
            "No module "
            "named 'no_such_module'",
        ),
    ]


def test_checks_the_rest_outside_a_repository(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = findings(capsys)

    assert code == 1
    assert about(result, "repository") == [("problem", "this folder is not inside a git repository")]
    assert about(result, "suite") == []
    assert about(result, "asv")[0][0] in ("ok", "warning")


def test_reports_an_interpreter_that_does_not_run(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml = '[environment]\npython = "/no/such/python"\nrequirements = ["torch"]\n'
    GitProject(working_folder).commit("First", benchmarks__suite=HEALTHY, **{"perfci.toml": toml})

    code, result = findings(capsys)

    assert code == 1
    assert about(result, "build") == [
        ("problem", "[environment] python: '/no/such/python' does not run; give the path of a Python 3.11+")
    ]
    assert about(result, "Python")[0][1].startswith("the interpreter /no/such/python does not run: ")
    assert about(result, "disk") != []


def test_explains_how_to_create_a_missing_suite(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    project.commit("First", thing="X = 1\n")

    code, result = findings(capsys)

    assert code == 1
    assert about(result, "suite") == [
        (
            "problem",
            f"there is no suite folder {working_folder}/benchmarks; make one with `perfci init`, "
            "or name yours with --suite",
        )
    ]


def test_rejects_a_missing_suite_folder(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GitProject(working_folder).commit("First", benchmarks__suite=HEALTHY)

    code = run_cli(["doctor", "--quick", "--suite", "nowhere"])

    assert code == 2
    assert capsys.readouterr().err == (
        "perfci: there is no suite folder nowhere; name the folder of the benchmarks with --suite\n"
    )


def test_does_not_disturb_a_running_measurement(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit("First", benchmarks__suite=HEALTHY)

    with machine_lock(load_config(working_folder).lock_path, owner="perfci run in /elsewhere"):
        run_cli(["doctor", "--json"])

    result = json.loads(capsys.readouterr().out)["findings"]
    assert about(result, "noise") == [("warning", "not measured, so as not to disturb who measures")]
    assert "perfci run in /elsewhere" in about(result, "lock")[0][1]


@pytest.mark.slow
def test_measures_aa_pairs_like_a_comparison(working_folder: Path) -> None:
    GitProject(working_folder).commit("First", thing="X = 1\n")
    repository = GitRepository(working_folder)

    equals = measure_aa_pairs(repository, Settings(), repository.list_commit_or_range("HEAD")[0], seconds=0.0)

    assert len(equals.log_ratios) == equals.shift.pairs == 5
    assert equals.series.startswith("steady.measure_training_step")
    assert 0 < equals.shift.error < 1
    assert not (working_folder / ".perfci" / "perfci.db").exists()


def test_shows_level_subject_sentence_and_advice() -> None:
    finding = warning_finding("cores", "the control group allows only the time of 1", "end " * 30)

    assert click.unstyle(format_doctor_finding(finding)).splitlines() == [
        "warning  cores        the control group allows only the time of 1",
        f"                      -> {' '.join(['end'] * 24)}",
        f"                         {' '.join(['end'] * 6)}",
    ]


def test_ends_with_the_number_of_problems() -> None:
    nothing, little, much = (
        ok_finding("git", "2.39"),
        warning_finding("load", "5", "wait"),
        problem_finding("disk", "full", "free some"),
    )

    assert format_problem_counts([nothing]) == "no problems found"
    assert format_problem_counts([nothing, little, much, much]) == "2 problems, 1 warning"
