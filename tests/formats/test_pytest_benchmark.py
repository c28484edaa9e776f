"""Files of pytest-benchmark 5.3.1, as it wrote them (host name and CPU flags taken out)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from foreign_files import FILES, named, read

from perfci.formats.format_registry import detect_format
from perfci.model import Clock, Machine, Metric, PerfciError, ProcessBoundaries, Status

FOLDER = FILES / "pytest-benchmark"


def test_rounds_become_samples_of_one_process() -> None:
    document, warnings = read(FOLDER / "with_data.json", "pytest-benchmark")

    [join] = [result for label, result in named(document).items() if "join" in label]
    assert [(p.clock, len(p.samples)) for p in join.processes] == [(Clock.WALL, 5)]
    assert (join.number, join.boundaries) == (3, ProcessBoundaries.PROCESS)
    assert warnings == []


def test_numbers_of_extra_info_are_metrics() -> None:
    document, warnings = read(FOLDER / "recorded-1.json", "pytest-benchmark")

    peak = named(document)["test_sort.py::test_sort(500) · peak"]
    assert (peak.series.metric, peak.processes[0].samples) == (Metric("peak", "bytes"), (4000.0,))
    assert [(item.metric, item.result.processes[0].samples) for item in document.unresolved] == [
        ("sorted_numbers", (500.0,)),
        ("sorted_numbers", (2000.0,)),
    ]
    assert warnings == ["extra_info 'order' is no number: not kept"] * 2


def test_names_and_parameters_come_from_the_test() -> None:
    document, _ = read(FOLDER / "with_data.json", "pytest-benchmark")

    assert list(named(document)) == [
        "test_sort.py::test_sort(10) · time",
        "test_sort.py::test_sort(100) · time",
        "test_sort.py::TestJoin::test_join · time",
    ]
    assert document.run.results[0].series.parameters == (("size", "10"),)


def test_commit_machine_and_python_are_those_of_the_file() -> None:
    run = read(FOLDER / "with_data.json", "pytest-benchmark")[0].run

    assert run.commit.sha == "d62fcb84f09ab2c13a5450bc6dc2a458bc3596ac"
    assert (run.machine, run.variant.values) == (Machine(cpu="AMD EPYC", cores=2), (("python", "3.11"),))
    assert dict(run.environment.values)["pytest-benchmark"] == "5.3.1"


def test_a_file_without_rounds_keeps_the_median_and_reports_it() -> None:
    document, warnings = read(FOLDER / "without_data.json", "pytest-benchmark")

    result = document.run.results[0]
    assert (result.processes, result.boundaries) == ((), ProcessBoundaries.UNKNOWN)
    assert result.summary is not None
    assert result.summary.value == pytest.approx(2.8545e-7)
    assert (
        "rounds were not saved: give --benchmark-save-data, or no pair of commits can be compared" in warnings
    )


def changed(tmp_path: Path, **content: object) -> Path:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(json.loads((FOLDER / "with_data.json").read_text()) | content))
    return path


def test_a_dirty_tree_is_not_its_commit(tmp_path: Path) -> None:
    path = changed(tmp_path, commit_info={"id": "d62fcb84f09ab2c13a5450bc6dc2a458bc3596ac", "dirty": True})

    document, warnings = read(path, "pytest-benchmark")

    assert document.run.commit.dirty
    assert "measured with uncommitted changes: stored, but excluded from the history" in warnings


def test_cpu_timers_give_cpu_seconds(tmp_path: Path) -> None:
    entry = {"fullname": "test_it", "options": {"timer": "process_time"}, "stats": {"data": [1.0]}}

    document, _ = read(changed(tmp_path, benchmarks=[entry]), "pytest-benchmark")

    [result] = document.run.results
    assert (result.series.metric.name, result.processes[0].clock) == ("cpu_time", Clock.CPU)


def test_a_benchmark_without_numbers_failed(tmp_path: Path) -> None:
    document, _ = read(
        changed(tmp_path, benchmarks=[{"fullname": "test_it", "stats": {}}]), "pytest-benchmark"
    )

    [result] = document.run.results
    assert (result.status, result.reason) == (Status.FAILED, "the benchmark has no numbers")


def test_another_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PerfciError, match="is not a file of pytest-benchmark: it has no list of benchmarks"):
        read(changed(tmp_path, benchmarks={}), "pytest-benchmark")


def test_the_installed_tool_writes_what_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
    (tmp_path / "test_it.py").write_text(
        "def test_it(benchmark):\n    benchmark.pedantic(len, args=((),), rounds=3)\n"
    )
    plugins = ["-p", "no:cacheprovider", "-p", "pytest_benchmark.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "--benchmark-json=out.json"]
    alone = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }  # no worker of ours
    alone["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

    subprocess.run(command, cwd=tmp_path, env=alone, check=True, capture_output=True)

    assert detect_format(tmp_path / "out.json") == "pytest-benchmark"
    assert len(read(tmp_path / "out.json", "pytest-benchmark")[0].run.results[0].processes[0].samples) == 3
