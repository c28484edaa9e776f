"""The suites in ``benchmarks/``: every theme is there, importing them starts nothing, and their cells are
named.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
THEMES = {
    "architectures",
    "attention",
    "audio",
    "compilation",
    "counts",
    "data",
    "distributed",
    "feedforward",
    "float8_training",
    "generation",
    "ladder",
    "losses",
    "memory",
    "numerics",
    "pipeline",
    "profiles",
    "training",
}

DISCOVER = """
import importlib, inspect, json, os, pkgutil, sys
sys.path.insert(0, os.getcwd())
import benchmarks, torch
found = {}
for module in pkgutil.iter_modules(benchmarks.__path__):
    names = vars(importlib.import_module("benchmarks." + module.name)).values()
    for cls in names:
        own = inspect.isclass(cls) and cls.__module__ == "benchmarks." + module.name
        if own and not inspect.isabstract(cls):
            for name in dir(cls):
                if name.startswith("measure_") and getattr(cls, name) and not cls.__name__.startswith("_"):
                    metrics = [metric.name for metric in getattr(cls, name).metrics]
                    key = f"{module.name}.{cls.__name__}.{name}"
                    params = [[str(v) for v in axis] for axis in cls.params]
                    found[key] = {"params": params, "metrics": metrics}
assert not torch.cuda.is_initialized(), "importing the suites started CUDA"
print(json.dumps(found))
"""


PLAN = """
import json, os, sys
import torch
suite_folder, sizes = os.path.abspath("benchmarks"), {"smoke": 0, "real": 1}
from perfci.runner.harness.suite_discovery import load_suite
for name, gpus in sizes.items():
    if os.fork() == 0:
        torch.cuda.device_count = lambda: gpus
        suite = load_suite({"paths": [], "variables": {}, "suite": suite_folder})
        plan = {"errors": suite.errors, "plans": suite.plans}
        with open(os.path.join(sys.argv[1], name), "w") as file:
            json.dump(plan, file)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What every benchmark declares for the plan of a run, at the sizes of a CPU and of a GPU."""
    folder = tmp_path_factory.mktemp("plans")
    done = subprocess.run([sys.executable, "-c", PLAN, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    documents = {name: json.loads((folder / name).read_text()) for name in ("smoke", "real")}
    assert [document["errors"] for document in documents.values()] == [[], []]
    return {name: document["plans"] for name, document in documents.items()}


def test_every_benchmark_states_its_cost(plans: dict[str, dict[str, Any]]) -> None:
    without = {name for plan in plans.values() for name, declared in plan.items() if not declared["costs_s"]}

    assert without == set()


@pytest.mark.parametrize("sizes", ["smoke", "real"])
def test_the_default_suite_fits_into_ten_minutes(sizes: str, plans: dict[str, dict[str, Any]]) -> None:
    planned_s = sum(
        cost_s
        for declared in plans[sizes].values()
        for cost_s, in_default in zip(declared["costs_s"], declared["in_default"], strict=True)
        if in_default
    )

    assert planned_s <= 600


def rows_of_the_reports() -> dict[str, tuple[list[str], set[str], str]]:
    """Each row of the table in docs/suites.md: its benchmarks, metrics, and the expression of its command."""
    rows = {}
    for line in (ROOT / "docs" / "suites.md").read_text().splitlines():
        columns = line.strip("| ").replace("\\|", "/OR/").split(" | ")
        if re.fullmatch(r"S\d\.\d", columns[0]):
            benchmarks = re.findall(r"`(\w+\.\w+\.measure_\w+)`", columns[2])
            metrics = set(re.findall(r"`(\w+)`", columns[4]))
            rows[columns[0]] = benchmarks, metrics, columns[5].split("'")[1].replace("/OR/", "|")
    return rows


def test_every_row_of_the_reports_has_a_guard_in_the_default_suite(
    plans: dict[str, dict[str, Any]], discovered: dict[str, Any]
) -> None:
    rows = rows_of_the_reports()
    counts = {"S0": 5, "S1": 4, "S2": 3, "S3": 2, "S4": 4}
    assert list(rows) == [f"{report}.{n}" for report, top in counts.items() for n in range(1, top + 1)]

    for row, (benchmarks, metrics, expression) in rows.items():
        assert benchmarks, row
        declared = {metric for name in benchmarks for metric in discovered[name]["metrics"]}
        assert metrics, row
        assert metrics <= declared, row
        matched = {name for name in plans["real"] if re.search(expression, name)}
        assert matched >= set(benchmarks), row
        for plan in plans.values():
            assert any(any(plan[name]["in_default"]) for name in benchmarks), row


@pytest.fixture(scope="module")
def discovered() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", DISCOVER],
        cwd=ROOT,
        env={**os.environ, "PERFCI_SMOKE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_has_a_file_for_every_topic(discovered: dict[str, Any]) -> None:
    assert {name.split(".")[0] for name in discovered} == THEMES


def test_stays_small_at_smoke_sizes(discovered: dict[str, Any]) -> None:
    cells = sum(math.prod(len(axis) for axis in about["params"]) for about in discovered.values())

    assert 100 <= cells <= 250


def test_never_mixes_smoke_and_real_sizes_in_one_series(discovered: dict[str, Any]) -> None:
    for name, about in discovered.items():
        assert any("smoke" in value for axis in about["params"] for value in axis), name


def test_gives_every_metric_the_catalogue_requires(discovered: dict[str, Any]) -> None:
    metrics = {metric for about in discovered.values() for metric in about["metrics"]}

    assert metrics >= {
        "step_time",
        "tokens_per_s",
        "mfu",
        "hfu",
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "peak_active_bytes",
        "fragmentation",
        "num_alloc_retries",
        "num_ooms",
        "data_time",
        "data_stall",
        "loader_startup",
        "copy_time",
        "exposed_copy_time",
        "recompute_overhead",
        "optimizer_time",
        "compile_cold",
        "compile_warm",
        "graph_breaks",
        "recompiles",
        "generated_kernels",
        "forward_time",
        "backward_time",
        "realised_sparsity",
        "ttft",
        "ttfb",
        "tpot",
        "itl",
        "e2el",
        "e2el_p50",
        "e2el_p90",
        "e2el_p99",
        "sla_attainment",
        "goodput",
        "rtf",
        "load",
        "first_call",
        "prefill",
        "decode",
        "postprocess",
        "cold_start_time",
        "step_energy",
        "token_energy",
        "busy_share",
        "sm_active",
        "power",
        "loss_at_step_k",
        "grad_norm",
        "max_error",
        "steps_to_target_loss",
        "max_batch_fit",
        "kernel_launches",
        "flops",
        "operators",
        "fake_peak_bytes",
        "kv_cache_bytes",
        "instructions",
        "matmul_share",
    }
