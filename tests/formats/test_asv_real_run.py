"""Results that asv measures during the test, in a temporary repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from asv_builders import assert_equal_to_asv, result_files
from foreign_files import read_runs

from perfci.formats.format_registry import detect_format
from perfci.model import Machine, Result, Run, Status
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store, open_store

PROJECT = "acme/model"

SUITE = """
import math

def time_grid(n, kind):
    sum(range(n))
time_grid.params = [[10, 20], ["a", "b"]]
time_grid.param_names = ["n", "kind"]

class Tracked:
    def track_speed(self):
        return 125.5
    track_speed.unit = "tokens/s"
    track_speed.direction = "higher"

    def track_nan(self):
        return math.nan

    def track_infinity(self):
        return math.inf

    def track_object(self):
        return {"p50": 1.0}

class Ending:
    params = [1, 2, 3]
    def setup(self, n):
        if n == 2:
            raise NotImplementedError("needs a GPU")
    def time_ending(self, n):
        if n == 3:
            raise ValueError("no such layer")

class Memory:
    def mem_list(self):
        return [0] * 100
    def peakmem_list(self):
        return [0] * 1000
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of two commits, both measured by asv in the environment of this test."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "suite.py").write_text(SUITE)
    config = {"version": 1, "project": "it", "repo": ".", "branches": ["main"], "benchmark_dir": "benchmarks"}
    places = {"results_dir": "results", "env_dir": "env", "environment_type": "virtualenv"}
    (folder / "asv.conf.json").write_text(json.dumps({**config, **places}))
    git(folder, "init", "-q", "-b", "main")
    for number in (1, 2):
        (folder / "code.py").write_text(f"value = {number}")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"Change {number}")
        measure(folder)
    return folder


def git(folder: Path, *command: str) -> str:
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    return subprocess.run(
        ["git", *author, *command], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


# Nothing like the machine of this test: asv stores only what differs from it.
HARDWARE = {
    "machine": "runner",
    "os": "Linux",
    "arch": "dec_vax",
    "cpu": "KA780",
    "num_cpu": "3",
    "ram": "16424144896",
}


def measure(folder: Path) -> None:
    hardware = [part for name, value in HARDWARE.items() for part in (f"--{name}", value)]
    asv(folder, "machine", "--yes", *hardware)
    quickly = ["--quick", "--record-samples", "--launch-method", "forkserver", "--machine", "runner"]
    label = ["-E", f"existing:{sys.executable}", "--set-commit-hash", git(folder, "rev-parse", "HEAD")]
    assert asv(folder, "run", *quickly, *label) == 2  # a benchmark failed, as it should


def asv(folder: Path, *command: str) -> int:
    """Run asv with its own home folder, where it stores facts about machines."""
    home = {**os.environ, "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "asv", *command], cwd=folder, env=home, capture_output=True
    ).returncode


@pytest.fixture
def runs(repository: Path) -> list[Run]:
    return list(read_runs(repository / "results", "asv", PROJECT))


def cells(run: Run) -> dict[str, Result]:
    return {result.series.cell.removeprefix("suite."): result for result in run.results}


def test_runs_belong_to_the_commits_of_the_repository(repository: Path, runs: list[Run]) -> None:
    assert {run.commit.sha for run in runs} == set(git(repository, "rev-list", "HEAD").split())
    assert detect_format(repository / "results") == "asv"


def test_every_way_to_end_has_its_own_status(runs: list[Run]) -> None:
    ends = {name: result.status for name, result in cells(runs[0]).items() if result.status is not Status.OK}

    assert ends == {
        "Ending.time_ending(2)": Status.SKIPPED,
        "Ending.time_ending(3)": Status.FAILED,
        "Tracked.track_nan": Status.SKIPPED,
        "Tracked.track_infinity": Status.FAILED,
    }


def test_metrics_carry_what_the_suite_declared(runs: list[Run]) -> None:
    run_cells = cells(runs[0])

    speed = run_cells["Tracked.track_speed"]
    assert (speed.series.metric.unit, speed.series.metric.direction) == ("tokens/s", "higher")
    assert speed.summary is not None
    assert speed.summary.value == 125.5
    assert run_cells["time_grid(10, 'b')"].series.parameters == (("n", "10"), ("kind", "'b'"))
    assert run_cells["Memory.mem_list"].series.metric.name == "memory"
    assert run_cells["Memory.peakmem_list"].series.metric.name == "peak_memory"


def test_an_existing_environment_is_identified_by_the_version_in_its_path(runs: list[Run]) -> None:
    chosen = dict(runs[0].variant.values)

    assert chosen["environment_type"] == "existing"
    assert dict(runs[0].environment.values)["interpreter"] == sys.executable


def test_the_machine_is_described(runs: list[Run]) -> None:
    assert runs[0].machine == Machine(cpu="KA780", cores=3, memory_gb=15, name="runner")
    assert dict(runs[0].environment.values)["arch"] == "dec_vax"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        yield store


def test_values_that_cannot_be_compared_are_reported_and_the_rest_is_stored_once(
    repository: Path, store: Store
) -> None:
    report = import_file_or_folder(store, repository / "results", "auto", PROJECT)
    again = import_file_or_folder(store, repository / "results", "auto", PROJECT)

    assert (report.runs_new, again.runs_new, again.runs_known) == (2, 0, 2)
    assert report.warnings == (
        "suite.Tracked.track_object: a value of type dict is not a number that perfci can compare (2 times)",
    )


def test_asvs_own_reader_agrees(repository: Path, runs: list[Run]) -> None:
    for run, file in zip(runs, result_files(repository / "results"), strict=True):
        incomparable = {"suite.Tracked.track_object", "suite.Tracked.track_infinity"}
        assert assert_equal_to_asv(run, file, leaving_out=incomparable) == 8
