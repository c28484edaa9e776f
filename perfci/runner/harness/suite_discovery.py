"""Discover the benchmarks of a suite by asv's rules, and describe each to the runner."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .declared_costs_and_default_suite import declared_costs, default_suite_cells
from .messages import JsonMessage, build_module_error

CLOCKS = ("wall", "cpu", "device", "exact", "value", "informational")
CPU_TWIN = "cpu_"
METRIC_NAMES = {"time": "time", "peakmemory": "peak_memory", "memory": "memory"}


@dataclass
class LoadedSuite:
    """Benchmarks by name, what they declare for the plan of a run, import errors of modules, and metrics that
    classes omit.
    """

    benchmarks: dict[str, Any] = field(default_factory=dict)
    plans: dict[str, JsonMessage] = field(default_factory=dict)
    errors: list[JsonMessage] = field(default_factory=list)
    omissions: list[JsonMessage] = field(default_factory=list)


def load_suite(request: JsonMessage) -> LoadedSuite:
    """Discover the suite's benchmarks by asv's rules; a failing module costs only its own benchmarks."""
    from asv_runner import _aux, discovery

    from .multi_metric_benchmark_type import register_measure_type

    register_measure_type()
    sys.path[:0] = request["paths"]
    os.environ["PYTHONPATH"] = os.pathsep.join([*request["paths"], os.environ.get("PYTHONPATH", "")]).strip(
        os.pathsep
    )
    os.environ.update(request["variables"])
    # Adds an importer for this one folder; its parent may hold a version of the project itself.
    _aux.update_sys_path(request["suite"])
    suite = LoadedSuite()
    for module in import_suite_modules(os.path.basename(request["suite"]), suite.errors):
        try:
            benchmarks = {b.name: b for b in discover_benchmarks(module, discovery)}
            suite.plans.update((name, describe_costs_and_default_suite(b)) for name, b in benchmarks.items())
            suite.benchmarks.update(benchmarks)
            suite.omissions += list_omitted_metrics(module)
        except Exception as error:
            suite.errors.append(build_module_error(module.__name__, error))
    return suite


def import_suite_modules(name: str, errors: list[JsonMessage]) -> Iterator[Any]:
    error = try_import(name)
    if error is not None:
        errors.append(build_module_error(name, error))
        return
    module = sys.modules[name]
    yield module
    for _, child, _ in pkgutil.iter_modules(getattr(module, "__path__", []), name + "."):
        yield from import_suite_modules(child, errors)


def try_import(name: str) -> BaseException | None:
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        return error
    return None


def discover_benchmarks(module: Any, discovery: Any) -> Iterator[Any]:
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
            if is_handwritten_routine(function):
                benchmark = discovery._get_benchmark(attribute, module, owner, function)
                if benchmark is not None and not lacks_metrics_declaration(benchmark):
                    yield benchmark


def is_handwritten_routine(function: Any) -> bool:
    """Whether this is not a ``track_*`` made by perfci.bench for plain asv; ``measure_*`` runs instead."""
    routine = inspect.isfunction(function) or inspect.ismethod(function)
    return routine and not getattr(function, "perfci_generated", False)


def lacks_metrics_declaration(benchmark: Any) -> bool:
    """Whether a ``measure_*`` declares no metrics, such as a model's own method of that name."""
    return benchmark.type == "measure" and not benchmark.declared_metrics


def list_omitted_metrics(module: Any) -> Iterator[JsonMessage]:
    """Yield the metric groups that a class omits, with the reason (its attribute ``omitted``)."""
    _, _, inside = module.__name__.partition(".")
    for name, value in vars(module).items():
        if inspect.isclass(value) and not name.startswith("_") and not inspect.isabstract(value):
            omitted = getattr(value, "omitted", None)
            owner = ".".join(filter(None, (inside, value.__name__)))
            for group, reason in omitted.items() if isinstance(omitted, Mapping) else ():
                yield {"owner": owner, "omitted_metrics": str(group), "reason": str(reason)}
    yield from list_undeclared_measure_functions(module, inside)


def list_undeclared_measure_functions(module: Any, module_path: str) -> Iterator[JsonMessage]:
    """Yield each ``measure_*`` written in this module that declares no metrics."""
    owners = [module, *(value for value in vars(module).values() if inspect.isclass(value))]
    for owner in owners:
        for name, function in inspect.getmembers(owner, inspect.isfunction):
            written_here = function.__module__ == module.__name__
            if written_here and name.startswith("measure_") and not hasattr(function, "metrics"):
                place = ".".join(filter(None, (module_path, function.__qualname__)))
                yield {"owner": place, "omitted_metrics": "declared", "reason": UNDECLARED_REASON}


UNDECLARED_REASON = "it lacks @metrics(Metric(name, unit), ...) of perfci.bench; it is not run"


def describe_benchmark(benchmark: Any) -> JsonMessage:
    """Describe a benchmark as the runner needs it to plan cells and name series."""
    return {
        "name": benchmark.name,
        "version": benchmark.version,
        "type": benchmark.type,
        "metrics": list_metrics(benchmark),
        "param_names": [str(name) for name in benchmark.param_names],
        "params": benchmark.params,
        "timeout_s": benchmark.timeout,
        "setup_cache_key": benchmark.setup_cache_key,
        "setup_cache_timeout_s": benchmark.setup_cache_timeout,
    }


def describe_costs_and_default_suite(benchmark: Any) -> JsonMessage:
    """Describe what a benchmark declares of its cells: their costs, and which are of the default suite."""
    return {"costs_s": declared_costs(benchmark), "in_default": default_suite_cells(benchmark)}


def list_metrics(benchmark: Any) -> list[JsonMessage]:
    """List every metric of a benchmark, each name once: a failed process has failed in all of them.

    A measuring function reads CPU seconds beside a metric only on some devices, so they are not listed.
    """
    declared = getattr(benchmark, "declared_metrics", ())
    if declared:
        rows = [describe_declared_metric(metric) for metric in declared]
        return list({row["name"]: row for row in reversed(rows)}.values())[::-1]
    metric = describe_metric_from_attributes(benchmark)
    twin = (
        [{**metric, "name": CPU_TWIN + metric["name"], "clock": "cpu"}]
        if uses_default_timer(benchmark)
        else []
    )
    return [metric, *twin]


def describe_declared_metric(metric: Any) -> JsonMessage:
    """Describe one declared metric; something that is no metric fails when it is called, not here."""
    direction = getattr(metric, "direction", "lower")
    unit = getattr(metric, "unit", "unit")
    return {
        "name": str(getattr(metric, "name", metric)),
        "unit": str(unit),
        "direction": "higher" if direction == "higher" else "lower",
        "clock": "value",
    }


def describe_metric_from_attributes(benchmark: Any) -> JsonMessage:
    """Describe the metric of a benchmark that gives one number, from its attributes."""
    attribute = create_attribute_reader(benchmark)
    clock = declared_clock(benchmark)
    higher = attribute("direction") == "higher" or (
        not attribute("direction") and attribute("higher_is_better")
    )
    return {
        "name": str(attribute("metric") or METRIC_NAMES.get(benchmark.type, "value")),
        "unit": str(benchmark.unit),
        "direction": "higher" if higher else "lower",
        "clock": clock if clock in CLOCKS else "value",
    }


def declared_clock(benchmark: Any) -> str:
    return str(
        create_attribute_reader(benchmark)("clock") or ("wall" if benchmark.type == "time" else "value")
    )


def create_attribute_reader(benchmark: Any) -> Callable[[str], Any]:
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


def describe_wrong_commit_module(request: JsonMessage) -> str:
    """Describe a loaded module of the project that is not of the measured commit; empty if none."""
    own_roots = [os.path.realpath(path) + os.sep for path in [*request["own_paths"], request["suite"]]]
    for name in request["modules"]:
        module = sys.modules.get(name)
        origin = module_file_path(module) if module is not None else ""
        if origin and not any(origin.startswith(root) for root in own_roots):
            return f"the code measured is not this commit's: module {name} was imported from {origin}"
    return ""


def module_file_path(module: Any) -> str:
    path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
    return os.path.realpath(path) if path else ""
