"""Files of hyperfine 1.15.0, as it wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_files import FILES, named, read

from perfci.model import Clock, PerfciError, ProcessBoundaries, Status

FOLDER = FILES / "hyperfine"


def test_every_run_of_a_command_is_a_process() -> None:
    results = named(read(FOLDER / "parameters.json", "hyperfine")[0])

    time = results["count {size}(10) · time"]
    assert time.boundaries is ProcessBoundaries.PROCESS
    assert [len(process.samples) for process in time.processes] == [1] * 5


def test_cells_of_a_parameter_are_one_benchmark() -> None:
    run = read(FOLDER / "parameters.json", "hyperfine")[0].run

    assert {result.series.benchmark.name for result in run.results} == {"count {size}"}
    assert {result.series.parameters for result in run.results} == {(("size", "10"),), (("size", "1000"),)}


def test_cpu_seconds_are_only_shown() -> None:
    results = named(read(FOLDER / "parameters.json", "hyperfine")[0])

    [process] = results["count {size}(10) · mean_cpu_time"].processes
    assert (process.samples, process.clock) == ((0.0010642,), Clock.INFORMATIONAL)


def test_a_command_that_failed_has_no_time() -> None:
    results = named(read(FOLDER / "failed.json", "hyperfine")[0])

    failed = results["/bin/false · time"]
    assert (failed.status, failed.reason) == (Status.FAILED, "the command ended with exit code 1")
    assert results["/bin/true · time"].status is Status.OK


def test_a_list_is_needed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"results": 7}))

    with pytest.raises(PerfciError, match="is not a file of hyperfine: it has no list of results"):
        read(tmp_path / "x.json", "hyperfine")
