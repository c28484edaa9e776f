"""Visit every commit of the sample repository in a fork of its own, and print as JSON what its suite does
there.

Run as ``python sample_probe.py FOLDER SHA...`` where FOLDER holds one work tree per sha.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the optimizer imports it at its first step
from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfci.bench import peak_tensor_bytes

TIMED = ("training.Step.time_step", "generation.Generate.time_generate")


class Operators(TorchDispatchMode):  # type: ignore[misc]
    """Count operators with the shapes they see."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = [tuple(a.shape) for a in tree_leaves(args) if isinstance(a, torch.Tensor)]
        self.seen[f"{func} {shapes}"] += 1
        return func(*args, **(kwargs or {}))


def probe(tree: Path) -> dict[str, Any]:
    sys.path.insert(0, str(tree))
    update_sys_path(str(tree / "benchmarks"))
    result = {benchmark.name: benchmark for benchmark in disc_benchmarks(str(tree / "benchmarks"))}
    for benchmark in result.values():
        assert not benchmark.do_setup()
    trainer = importlib.import_module("tinylm.train").Trainer

    def six_steps() -> None:
        mine = trainer(seed=0)
        for _ in range(6):
            mine.step()

    return {
        "cells": sorted(result),
        "operators": {name: operators_of(result[name].func) for name in TIMED},
        "peak_bytes": result["memory.Training.track_peak_bytes"].do_run(),
        "perfci_counts": peak_tensor_bytes(six_steps),
        "from_this_commit": all(
            str(module.__file__).startswith(str(tree))
            for name, module in sys.modules.items()
            if name.partition(".")[0] in ("tinylm", "benchmarks")
        ),
    }


def operators_of(function: Any) -> dict[str, int]:
    with Operators() as operators:
        function()
    return dict(operators.seen)


def in_a_fork(tree: Path) -> Any:
    reader, writer = os.pipe()
    if os.fork() == 0:
        with os.fdopen(writer, "w") as answer:
            json.dump(probe(tree), answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.wait()
    return json.loads(text)


if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    gc.freeze()  # a fork copies every page whose references the collector counts
    print(json.dumps({sha: in_a_fork(Path(sys.argv[1]) / sha) for sha in sys.argv[2:]}))
