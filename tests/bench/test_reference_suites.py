"""The suites in ``benchmarks/``: every theme is there, importing them starts nothing, and their cells are
named.
"""

from __future__ import annotations

import json
import math
import os
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
