"""From nothing to the first output: a fresh interpreter with fresh compile caches, then one with those it left."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfci.bench.processes.child_processes import ending_children, start_child, wait_for_results
from perfci.bench.readings import Absent, Measurement, Reading
from perfci.model import Clock, Metric

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = (
    Metric("cold_start_time", "seconds"),  # from starting python to the first output
    Metric("import_time", "seconds"),  # of torch and of the module that holds the benchmark
    Metric("build_time", "seconds"),
    Metric("first_output_time", "seconds"),  # the first token, or the first training step; compiling is in it
    Metric("warm_start_time", "seconds"),  # like cold_start_time, with the compile caches of an earlier start
    Metric("compile_time", "seconds"),  # what torch.compile took of the cold start
)
CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
START_LIMIT_S = 600.0
NOT_COMPILED_READING = Absent("nothing was compiled, so that every start is alike")


def measure(context: ModelBench, p: Mapping[str, Any]) -> Measurement:
    """Start the benchmark's module in a fresh interpreter. Files come from the page cache: this process has read them.

    Raises ``ChildFailed`` with what the fresh interpreter said where it does not reach its first output.
    """
    with tempfile.TemporaryDirectory(prefix="perfci-cold-") as caches:
        cold = _run_cold_start(context, p, caches)
        warm = _run_cold_start(context, p, caches) if cold["compile"] else None
    both = functools.partial(_span_reading, host=context.target_device.kind == "cpu")
    return Measurement(
        {
            "cold_start_time": both(cold["start"]),
            "import_time": both(cold["import"]),
            "build_time": both(cold["build"]),
            "first_output_time": both(cold["output"]),
            "warm_start_time": both(warm["start"]) if warm else NOT_COMPILED_READING,
            "compile_time": Reading((cold["compile"],), Clock.WALL) if warm else NOT_COMPILED_READING,
        }
    )


def _span_reading(span: tuple[float, float], *, host: bool) -> Reading:
    return Reading((span[0],), Clock.WALL, cpu=(span[1],) if host else ())


def _run_cold_start(context: ModelBench, p: Mapping[str, Any], caches: str) -> dict[str, Any]:
    module = type(context).__module__
    root = sys.modules[module.partition(".")[0]]
    folder = os.path.dirname(next(iter(getattr(root, "__path__", [])), "") or str(root.__file__))
    start = functools.partial(
        run_to_first_output, folder, module, type(context).__qualname__, repr(dict(p)), time.monotonic()
    )
    child = start_child("a cold start", start, dict.fromkeys(CACHE_VARIABLES, caches))
    with ending_children([child]):
        (spans,) = wait_for_results([child], START_LIMIT_S)
    return dict(spans)


def run_to_first_output(
    folder: str, module: str, qualname: str, parameters: str, started_at: float
) -> dict[str, Any]:
    """Be the fresh interpreter: import, build, give the first output, and say when each was done.

    Spans are pairs of wall and CPU seconds; ``started`` is the moment of the asking process's monotonic clock, which
    all processes of one boot share.
    """
    moments = [(started_at, 0.0)]
    import torch  # noqa: F401  counted as part of the imports

    sys.path.insert(0, folder)
    bench = _find_class(importlib.import_module(module), qualname)()
    p = _find_parameters(bench, parameters)
    moments.append(_read_clocks())
    model = bench.build(p)
    bench.shim.synchronize()
    moments.append(_read_clocks())
    _produce_output(bench, model, p)
    bench.shim.synchronize()
    moments.append(_read_clocks())
    pairs = zip(("import", "build", "output"), itertools.pairwise(moments), strict=True)
    spans: dict[str, Any] = {
        name: (after[0] - before[0], after[1] - before[1]) for name, (before, after) in pairs
    }
    return {**spans, "start": (moments[-1][0] - started_at, moments[-1][1]), "compile": _compile_seconds()}


def _compile_seconds() -> float:
    """What dynamo says it spent on compiling whole frames, backend included."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return float(dynamo.cumulative_time_spent_ns.get("entire_frame_compile", 0) / 1e9) if dynamo else 0.0


def _produce_output(context: ModelBench, model: Any, p: Mapping[str, Any]) -> None:
    if context.stream is not None:
        next(iter(context.stream(model, p)), None)
    elif context.loss is not None:
        with context.autocast(p):
            loss = context.loss(model, context.batch(p, 0))
        loss.backward()


def _read_clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def _find_class(module: Any, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), module)


def _find_parameters(bench: ModelBench, parameters_text: str) -> dict[str, Any]:
    """The cell's parameters, found by their text among all of the grid: values need not be written as data."""
    for values in itertools.product(*bench.params):
        p = dict(zip(bench.param_names, values, strict=True))
        if repr(p) == parameters_text:
            return p
    raise LookupError(
        f"the fresh interpreter finds no parameters {parameters_text} in {type(bench).__qualname__}"
    )
