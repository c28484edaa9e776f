"""An existing asv suite, as projects have them: it runs unchanged under asv and under perfci alike."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from perfci.runner import frozen_suite as suites

SUITE = Path(__file__).parents[1] / "asv_suite"
CELLS = 49
SOME, SOME_CELLS = r"fp32.*4.*full|Optimizer|\(128, 1,", 10  # what the slow tests run
TINY = {**os.environ, "PERFCI_TEST_SIZES": "tiny"}  # of whom it is only asked that they run
CLOCKS = {"exact", "cpu", "wall", "device", "value"}

DISCOVER = """
import json, sys, timeit
from asv_runner.discovery import disc_benchmarks
from asv_runner._aux import update_sys_path
update_sys_path(sys.argv[1])
found = {}
for b in disc_benchmarks(sys.argv[1]):
    about = {k: v for k, v in vars(b).items() if isinstance(v, (int, float, str))}
    functions = [s for s in b._attr_sources if callable(s)]
    about |= {k: v for s in functions for k, v in vars(s).items() if isinstance(v, str)}
    default_timer = getattr(b, "timer", None) is timeit.default_timer
    found[b.name] = about | {"params": b.params, "default_timer": default_timer}
import torch
assert not torch.cuda.is_initialized(), "importing the suite started CUDA"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def discovered() -> dict[str, Any]:
    """What asv_runner discovers with PERFCI_SMOKE=1, in a process that fails if importing starts CUDA."""
    done = subprocess.run(
        [sys.executable, "-c", DISCOVER, str(SUITE)],
        env={**os.environ, "PERFCI_SMOKE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_contains_training_generation_and_memory_at_smoke_sizes(discovered: dict[str, Any]) -> None:
    assert {name: about["type"] for name, about in discovered.items()} == {
        "generation.Generate.time_generate": "time",
        "generation.Generate.time_ttft": "time",
        "generation.Generate.track_tpot": "track",
        "memory.TrainingMemory.peakmem_training": "peakmemory",
        "memory.TrainingMemory.track_peak_allocated": "track",
        "memory.TrainingMemory.track_peak_tensors": "track",
        "training.Forward.time_loss": "time",
        "training.Optimizer.time_update": "time",
        "training.Step.time_step": "time",
    }
    assert all(about["params"][-1] == ["'smoke'"] for about in discovered.values())
    assert sum(math.prod(len(axis) for axis in about["params"]) for about in discovered.values()) == CELLS


def test_takes_a_fixed_number_of_samples(discovered: dict[str, Any]) -> None:
    timed = [about for about in discovered.values() if about["type"] == "time"]

    for about in timed:
        assert about["number"] in (1, 10)
        assert (about["warmup_time"], about["min_run_count"], about["rounds"]) == (0, 1, 2)
        assert about["repeat"] >= 10


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="with a GPU the timer waits for the device")
def test_leaves_asvs_own_timer_where_there_is_no_gpu(discovered: dict[str, Any]) -> None:
    assert all(about["default_timer"] for about in discovered.values() if about["type"] == "time")


def test_declares_the_units_of_its_own_numbers(discovered: dict[str, Any]) -> None:
    tracks = [about for about in discovered.values() if about["type"] == "track"]

    for about in tracks:
        assert about["unit"] in {"seconds", "bytes"}
        assert about["direction"] == "lower"
        assert about.get("clock", "value") in CLOCKS


@pytest.mark.slow
def test_runs_under_plain_asv(tmp_path: Path) -> None:
    repository = _copy_in_a_repository(tmp_path)
    asv = [sys.executable, "-m", "asv"]
    asv_options = {
        "cwd": repository / "benchmarks",
        "env": {**TINY, "HOME": str(tmp_path), "PERFCI_SMOKE": "1"},
    }
    sha = _git(repository, "rev-parse", "HEAD")
    subprocess.run(
        [*asv, "machine", "--yes", "--machine", "here"], check=True, capture_output=True, **asv_options
    )

    options = [
        "--set-commit-hash",
        sha,
        "--machine",
        "here",
        "--record-samples",
        "--launch-method",
        "forkserver",
    ]
    done = subprocess.run(
        [*asv, "run", "-E", f"existing:{sys.executable}", *options, "-a", "rounds=1", "--bench", SOME],
        capture_output=True,
        text=True,
        **asv_options,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    results = repository / "benchmarks" / ".asv" / "results" / "here"
    values = _asv_results(results, "result")
    skipped = values.pop("memory.TrainingMemory.track_peak_allocated")
    assert all(math.isnan(value) for value in skipped) or torch.cuda.is_available()
    measured = [value for row in values.values() for value in row if not math.isnan(value)]
    assert len(measured) == SOME_CELLS - 1
    assert all(value > 0 for value in measured)
    assert [
        len(samples) for samples in _asv_results(results, "samples")["training.Optimizer.time_update"]
    ] == [12] * 3


@pytest.mark.slow
def test_runs_under_perfci(tmp_path: Path) -> None:
    repository = _copy_in_a_repository(tmp_path)

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "perfci.cli",
            "run",
            "HEAD",
            "--suite",
            "benchmarks",
            "--smoke",
            "--rounds",
            "1",
            "--bench",
            SOME,
        ],
        cwd=repository,
        env=TINY,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SOME_CELLS} processes measured" in done.stdout + done.stderr


def test_is_a_suite_folder_perfci_accepts() -> None:
    assert suites.resolve_suite_folder(SUITE) == SUITE


def _copy_in_a_repository(folder: Path) -> Path:
    repository = folder / "repository"
    ignored = shutil.ignore_patterns("__pycache__", ".asv")
    shutil.copytree(SUITE, repository / "benchmarks", ignore=ignored)
    _git(repository, "init", "--quiet", "--initial-branch=main")
    _git(repository, "add", "--all")
    _git(
        repository,
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "commit",
        "--quiet",
        "--message",
        "Start",
    )
    return repository


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def _asv_results(folder: Path, column: str) -> dict[str, Any]:
    (file,) = [path for path in folder.glob("*.json") if path.name != "machine.json"]
    document = json.loads(file.read_text())
    at = document["result_columns"].index(column)
    return {
        name: row[at] for name, row in document["results"].items() if len(row) > at
    }  # asv cuts trailing nulls
