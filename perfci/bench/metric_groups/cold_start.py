"""Cold start: a fresh interpreter to its first output, with empty and then with filled compile caches."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
import tempfile
import time
from typing import Any

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.devices.torch_precision_settings import create_gradient_scaler
from perfci.bench.metric_groups.model_requests import infer_in_precision, make_request_inputs, open_request
from perfci.bench.processes.run_in_child_processes import kill_children_on_exit, spawn_child, wait_for_results
from perfci.bench.readings import Absent, Measurement, Reading
from perfci.model import Clock, Metric

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
NOT_COMPILED_READING = Absent("nothing was compiled, so cold and warm starts do not differ")


def measure(hooks: BoundModelHooks) -> Measurement:
    """Run the benchmark to its first output in a fresh interpreter. Files come from a warm page cache.

    Raises ``ChildFailed`` with the reason where the fresh interpreter does not reach its first output.
    """
    with tempfile.TemporaryDirectory(prefix="perfci-cold-") as caches:
        cold = _run_cold_start(hooks, caches)
        warm = _run_cold_start(hooks, caches) if cold["compile"] else None
    judges_cpu = hooks.device.kind == "cpu"

    def read_span(span: tuple[float, float]) -> Reading:
        return Reading((span[0],), Clock.WALL, cpu=(span[1],) if judges_cpu else ())

    return Measurement(
        {
            "cold_start_time": read_span(cold["start"]),
            "import_time": read_span(cold["import"]),
            "build_time": read_span(cold["build"]),
            "first_output_time": read_span(cold["output"]),
            "warm_start_time": read_span(warm["start"]) if warm else NOT_COMPILED_READING,
            "compile_time": Reading((cold["compile"],), Clock.WALL) if warm else NOT_COMPILED_READING,
        }
    )


def _run_cold_start(hooks: BoundModelHooks, caches: str) -> dict[str, Any]:
    module = hooks.source.module
    # The folder to import from: the one that holds the package, or the file of a module without one.
    root = sys.modules[module.partition(".")[0]]
    folder = os.path.dirname(next(iter(getattr(root, "__path__", [])), "") or str(root.__file__))
    parameters = repr(dict(hooks.parameters))
    # The clock starts here, so that creating the process counts.
    start = functools.partial(
        run_to_first_output, folder, module, hooks.source.qualname, parameters, time.monotonic()
    )
    child = spawn_child("a cold start", start, dict.fromkeys(CACHE_VARIABLES, caches))
    with kill_children_on_exit([child]):
        (spans,) = wait_for_results([child], START_LIMIT_S)
    return dict(spans)


def run_to_first_output(
    folder: str, module: str, qualname: str, parameters: str, started_at: float
) -> dict[str, Any]:
    """In the fresh interpreter: import, build, produce the first output, and return when each was done.

    Spans are pairs of wall and CPU seconds; ``started_at`` is a moment of the parent's monotonic clock,
    which all processes of one boot share.
    """
    moments = [(started_at, 0.0)]
    import torch  # counted as part of the imports

    sys.path.insert(0, folder)
    owner: Any = importlib.import_module(module)
    benchmark = functools.reduce(getattr, qualname.split("."), owner)()
    p = _find_parameters(benchmark, parameters)
    moments.append(_read_clocks())
    hooks: BoundModelHooks = benchmark.bind_hooks(p)
    with torch.set_grad_enabled(hooks.stream is None):  # a model that streams is never trained here
        model = hooks.build_ready_model()
    hooks.device.synchronize()
    moments.append(_read_clocks())
    with hooks.float32_precision():
        produce_output(hooks, model)
    hooks.device.synchronize()
    moments.append(_read_clocks())
    pairs = zip(("import", "build", "output"), itertools.pairwise(moments), strict=True)
    spans: dict[str, Any] = {
        name: (after[0] - before[0], after[1] - before[1]) for name, (before, after) in pairs
    }
    spans["start"] = (moments[-1][0] - started_at, moments[-1][1])
    # Seconds that dynamo recorded for compiling whole frames, backend included.
    dynamo = sys.modules.get("torch._dynamo.utils")
    compile_ns = dynamo.cumulative_time_spent_ns.get("entire_frame_compile", 0) if dynamo else 0
    return {**spans, "compile": float(compile_ns / 1e9)}


def _find_parameters(benchmark: Any, parameters_text: str) -> dict[str, Any]:
    """The cell's parameters, found by their text among all of the grid: values need not be picklable."""
    for values in itertools.product(*benchmark.params):
        p = dict(zip(benchmark.param_names, values, strict=True))
        if repr(p) == parameters_text:
            return p
    raise LookupError(
        f"the fresh interpreter finds no parameters {parameters_text} in {type(benchmark).__qualname__}"
    )


def _read_clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


def produce_output(hooks: BoundModelHooks, model: Any) -> None:
    """Compute the first output: a first chunk, or the first step of training."""
    if hooks.stream is not None:
        with infer_in_precision(hooks, model):
            inputs = make_request_inputs(hooks)
            next(iter(open_request(hooks, model, inputs)), None)
    elif hooks.step is not None:
        batch = hooks.require_batch_hook()(0)
        scaler = create_gradient_scaler(hooks.precision(), hooks.device.torch_device)
        hooks.step(model, batch, hooks.optimizer(model), scaler)
    elif hooks.loss is not None:
        with hooks.autocast():
            loss = hooks.loss(model, hooks.require_batch_hook()(0))
        loss.backward()
