"""asv and perfci take every function with a benchmark's name for one, also where a suite only imports it."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import perfci.bench

BENCHMARK = re.compile(r"(time|timeraw|mem|peakmem|track|measure|gpu|gpumem|gen_ttft|gen_tpot|gen_e2el)_.+")


def test_no_helper_of_perfci_is_measured_where_it_is_imported() -> None:
    root = Path(perfci.bench.__file__).parent
    helpers = [
        (f"perfci.bench.{'.'.join(path.relative_to(root).with_suffix('').parts)}", node.name)
        for path in root.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and BENCHMARK.match(node.name)
    ]

    taken = [place for place in helpers if not skipped(*place)]

    assert ("perfci.bench.timers.timed_blocks", "time_blocks") in helpers
    assert taken == []


def skipped(module: str, function: str) -> bool:
    return getattr(getattr(importlib.import_module(module), function), "skip_benchmark", False)
