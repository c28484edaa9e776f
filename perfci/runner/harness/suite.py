"""The suite as asv's discovery sees it, and what perfci has to know of each benchmark."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
import timeit
from collections.abc import Callable, Iterator
from typing import Any

from .messages import Json, error_of

METRIC_NAMES = {"time": "time", "peakmemory": "peak_memory", "memory": "memory"}


def load_suite(request: Json) -> tuple[dict[str, Any], list[Json]]:
    """Discover the suite's benchmarks by asv's own rules; a module that does not import costs only its own."""
    from asv_runner import _aux, discovery

    sys.path[:0] = request["paths"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*request["paths"], os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    os.environ.update(request["env"])
    _aux.update_sys_path(request["suite"])
    errors: list[Json] = []
    found: dict[str, Any] = {}
    for module in suite_modules(os.path.basename(request["suite"]), errors):
        try:
            found.update((b.name, b) for b in module_benchmarks(module, discovery))
        except Exception as error:
            errors.append(error_of(module.__name__, error))
    return found, errors


def suite_modules(name: str, errors: list[Json]) -> Iterator[Any]:
    error = try_import(name)
    if error is not None:
        errors.append(error_of(name, error))
        return
    module = sys.modules[name]
    yield module
    for _, child, _ in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        yield from suite_modules(child, errors)


def try_import(name: str) -> BaseException | None:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        return error
    return None


def module_benchmarks(module: Any, discovery: Any) -> Iterator[Any]:
    """Yield asv benchmarks of one module (the inner loops of ``asv_runner.discovery.disc_benchmarks``)."""
    candidates: list[tuple[str, Any, Any]]
    for name, value in [(k, v) for k, v in vars(module).items() if not k.startswith("_")]:
        if inspect.isclass(value) and not inspect.isabstract(value):
            candidates = [(n, value, f) for n, f in inspect.getmembers(value) if inspect.isroutine(f)]
        elif inspect.isfunction(value):
            candidates = [(name, None, value)]
        else:
            continue
        for attribute, owner, function in candidates:
            if inspect.isfunction(function) or inspect.ismethod(function):
                benchmark = discovery._get_benchmark(attribute, module, owner, function)
                if benchmark is not None:
                    yield benchmark


def describe(benchmark: Any) -> Json:
    """Tell what perfci has to know of a benchmark to plan its cells and name its series."""
    attribute = first_attribute(benchmark)
    direction = attribute("direction") or ("higher" if attribute("higher_is_better") else "lower")
    return {
        "name": benchmark.name,
        "version": benchmark.version,
        "type": benchmark.type,
        "unit": benchmark.unit,
        "direction": direction,
        "metric": attribute("metric") or METRIC_NAMES.get(benchmark.type, "value"),
        "clock": attribute("clock"),
        "two_clocks": uses_default_timer(benchmark),
        "param_names": [str(name) for name in benchmark.param_names],
        "params": benchmark.params,
        "timeout_s": benchmark.timeout,
        "setup_cache_key": benchmark.setup_cache_key,
        "setup_cache_timeout_s": benchmark.setup_cache_timeout,
    }


def first_attribute(benchmark: Any) -> Callable[[str], Any]:
    """Read an attribute from the function, then its class, then its module, as asv does."""

    def read(name: str) -> Any:
        for source in benchmark._attr_sources:
            value = getattr(source, name, None)
            if value is not None and not callable(value):
                return value
        return None

    return read


def uses_default_timer(benchmark: Any) -> bool:
    return benchmark.type == "time" and getattr(benchmark, "timer", None) is timeit.default_timer


def foreign_code(request: Json) -> str:
    """Say which loaded module of the project did not come from the commit that is being measured."""
    own = [os.path.realpath(path) + os.sep for path in [*request["own"], request["suite"]]]
    for name in request["modules"]:
        module = sys.modules.get(name)
        origin = module_origin(module) if module is not None else ""
        if origin and not any(origin.startswith(root) for root in own):
            return f"the code measured is not this commit's: module {name} was imported from {origin}"
    return ""


def module_origin(module: Any) -> str:
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
    return os.path.realpath(path) if path else ""
