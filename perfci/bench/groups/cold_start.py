"""From nothing to the first output: a fresh interpreter with fresh compile caches, then one with those it left."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfci.bench.readings import Absent, Measured, Reading
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
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
NOT_COMPILED = Absent("nothing was compiled, so that every start is alike")


def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Start the benchmark's module in a fresh interpreter. Files come from the page cache: this process has read them.

    Raises RuntimeError with the child's last line where it does not reach its first output.
    """
    with tempfile.TemporaryDirectory(prefix="perfci-cold-") as caches:
        cold = _start(bench, p, caches)
        warm = _start(bench, p, caches) if cold["compile_s"] else None
    return Measured(
        {
            "cold_start_time": _both(cold, "start"),
            "import_time": _both(cold, "import"),
            "build_time": _both(cold, "build"),
            "first_output_time": _both(cold, "output"),
            "warm_start_time": _both(warm, "start") if warm else NOT_COMPILED,
            "compile_time": Reading((cold["compile_s"],), Clock.WALL) if warm else NOT_COMPILED,
        }
    )


def _both(start: Mapping[str, Any], phase: str) -> Reading:
    wall, cpu = start["spans"][phase]
    return Reading((wall,), Clock.WALL, cpu=(cpu,) if start["kind"] == "cpu" else ())


def _start(bench: ModelBench, p: Mapping[str, Any], caches: str) -> dict[str, Any]:
    module = type(bench).__module__
    root = sys.modules[module.partition(".")[0]]
    folder = os.path.dirname(next(iter(getattr(root, "__path__", [])), "") or str(root.__file__))
    request: dict[str, Any] = {
        "path": [folder, *(os.path.abspath(entry) for entry in sys.path)],
        "module": module,
        "class": type(bench).__qualname__,
        "parameters": repr(dict(p)),
        "started": time.monotonic(),
    }
    child = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import child; child()"],
        input=json.dumps(request), capture_output=True, text=True,
        env={**os.environ, **dict.fromkeys(CACHES, caches), "PYTHONPATH": os.pathsep.join(request["path"])},
    )  # fmt: skip
    if child.returncode:
        lines = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        raise RuntimeError(f"a fresh start did not reach its first output: {lines[-1]}")
    result: dict[str, Any] = json.loads(child.stdout.strip().splitlines()[-1])
    return result


def child() -> None:
    """Run inside the fresh interpreter: import, build, first output, and print when each was done."""
    request = json.load(sys.stdin)
    moments = [(request["started"], 0.0)]
    import torch  # noqa: F401  counted as part of the imports

    module = importlib.import_module(request["module"])
    bench = _named(module, request["class"])()
    p = _parameters(bench, request["parameters"])
    moments.append(_moment())
    model = bench.build(p)
    bench.shim.synchronize()
    moments.append(_moment())
    _first_output(bench, model, p)
    bench.shim.synchronize()
    moments.append(_moment())
    spans = {
        name: [after[0] - before[0], after[1] - before[1]]
        for name, (before, after) in zip(("import", "build", "output"), itertools.pairwise(moments), strict=True)
    }
    spans["start"] = [moments[-1][0] - moments[0][0], moments[-1][1]]
    print(json.dumps({"spans": spans, "compile_s": _compile_seconds(), "kind": bench.shim.kind}))


def _compile_seconds() -> float:
    """What dynamo says it spent on compiling whole frames, backend included."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return float(dynamo.cumulative_time_spent_ns.get("entire_frame_compile", 0) / 1e9) if dynamo else 0.0


def _first_output(bench: ModelBench, model: Any, p: Mapping[str, Any]) -> None:
    if bench.stream is not None:
        next(iter(bench.stream(model, p)), None)
        return
    batch = bench.batch(p, 0)
    with bench.autocast(p):
        loss = bench.loss(model, batch)
    loss.backward()


def _moment() -> tuple[float, float]:
    """Monotonic seconds, which all processes of one boot share, and the CPU seconds of this one."""
    return time.monotonic(), time.process_time()


def _named(module: Any, qualname: str) -> Any:
    found = module
    for name in qualname.split("."):
        found = getattr(found, name)
    return found


def _parameters(bench: ModelBench, wanted: str) -> dict[str, Any]:
    """The cell's parameters, found by their text among all of the grid: values need not be JSON."""
    for values in itertools.product(*bench.params):
        p = dict(zip(bench.param_names, values, strict=True))
        if repr(p) == wanted:
            return p
    return {}
