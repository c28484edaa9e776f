"""Check that every written benchmark is measured: source and discovery in, findings out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from perfci.doctor.findings import (
    DoctorFinding,
    format_first_names,
    ok_finding,
    problem_finding,
    warning_finding,
)
from perfci.number_format import format_count

PLUGIN_NAMES = re.compile(r"gpu_?(mem)?_|gen_(ttft|tpot|e2el)_")
"""Prefixes of benchmarks where asv_bench_perfci is installed."""

LOOKALIKE_NAMES = re.compile(r"(test|bench|benchmark|timing|timeit|perf)_")
"""Prefixes of probable benchmarks, by the conventions of other tools."""

SILENT_DECORATORS = frozenset({"staticmethod", "classmethod", "skip_for_params", "skip_benchmark_if"})
"""Decorators that declare no metric; any other may hide a ``@metrics``."""


@dataclass(frozen=True, slots=True)
class WrittenFunction:
    """A function in the source of a suite: at module level, or in a public class."""

    place: str  # module.Class.function
    line: int
    decorators: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.place.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class RecordedSuite:
    """The last recorded run of a suite: its benchmark names with their versions, and the day."""

    versions: Mapping[str, str]
    day: str


def check_module_imports(errors: Iterable[tuple[str, str]]) -> Iterator[DoctorFinding]:
    """Report modules that do not import."""
    for module, error in errors:
        sentence = f"module {module} does not import, so nothing of it is measured: {error}"
        yield problem_finding("suite", sentence, "make it import against the commit that is measured")


def check_benchmark_count(types: Mapping[str, str], cells: int) -> DoctorFinding:
    """Report a suite without benchmarks; ``types`` holds the type of every benchmark by its name."""
    if not types:
        advice = "names that begin with time_, mem_, peakmem_, track_ or measure_ are benchmarks"
        return problem_finding("suite", "there is no benchmark in it", advice)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(types.values()).most_common())
    return ok_finding(
        "suite", f"{format_count(len(types), 'benchmark')} in {format_count(cells, 'cell')}: {kinds}"
    )


def check_lost_or_rewritten_benchmarks(
    versions: Mapping[str, str], recorded: RecordedSuite | None
) -> Iterator[DoctorFinding]:
    """Report benchmarks of the last recorded run that are missing or rewritten."""
    if recorded is None:
        yield ok_finding("history", "no run is recorded yet to compare the suite with")
        return
    lost = sorted(recorded.versions.keys() - versions.keys())
    if lost:
        sentence = f"measured on {recorded.day} and not in the suite any more: {format_first_names(lost)}"
        yield problem_finding("history", sentence, "restore what was not removed on purpose")
    changed = sorted(
        name for name, version in recorded.versions.items() if versions.get(name, version) != version
    )
    if changed:
        sentence = (
            f"rewritten since {recorded.day}, so that its history begins anew: {format_first_names(changed)}"
        )
        yield warning_finding(
            "history", sentence, "set a version attribute where old and new numbers mean the same"
        )
    if not lost and not changed:
        count = format_count(len(recorded.versions), "benchmark")
        sentence = f"all {count} measured on {recorded.day} are still there"
        yield ok_finding("history", sentence)


def exclude_failed_modules(
    functions: Iterable[WrittenFunction], errors: Iterable[tuple[str, str]]
) -> list[WrittenFunction]:
    """Leave out the functions of modules that failed to import, which ``check_module_imports`` reports."""
    failed = [module.partition(".")[2] for module, _ in errors]
    return [
        function
        for function in functions
        if not any(not name or function.place.startswith(f"{name}.") for name in failed)
    ]


def check_unmeasured_functions(
    functions: Iterable[WrittenFunction], discovered: Collection[str]
) -> Iterator[DoctorFinding]:
    """Report functions written to be measured that are not among the ``discovered`` names."""
    names = {name.rpartition(".")[2] for name in discovered}
    for function in functions:
        if function.name.startswith("measure_"):
            # Any other decorator may be, or contain, a @metrics.
            if SILENT_DECORATORS.issuperset(function.decorators):
                place = f"{function.place} (line {function.line})"
                sentence = f"{place} declares no metric, so it fails when it is measured"
                advice = "put @metrics(Metric(name, unit), ...) above it, from perfci.bench"
                yield problem_finding("suite", sentence, advice)
        elif function.name not in names:
            yield from _check_overlooked(function)


def _check_overlooked(function: WrittenFunction) -> Iterator[DoctorFinding]:
    place = f"{function.place} (line {function.line})"
    if PLUGIN_NAMES.match(function.name):
        sentence = f"{place} is not measured: its type comes with a plugin that is not registered there"
        yield problem_finding("suite", sentence, "pip install asv_bench_perfci in the measured environment")
    elif LOOKALIKE_NAMES.match(function.name):
        rest = function.name.partition("_")[2]
        sentence = f"{place} looks like a benchmark and matches no type"
        yield warning_finding(
            "suite", sentence, f"call it time_{rest} to have it timed, or _{function.name} to keep it apart"
        )


def check_imported_benchmarks(imports: Iterable[str], discovered: Collection[str]) -> Iterator[DoctorFinding]:
    """Report names that asv takes for benchmarks of a module that only imports them."""
    for place in sorted(set(imports) & set(discovered)):
        sentence = f"{place} is measured as a benchmark of its own, because that module imports the name"
        yield warning_finding(
            "suite",
            sentence,
            "import the module it is from instead, or set its attribute skip_benchmark = True",
        )


def check_omitted_metrics(omissions: Iterable[tuple[str, str, str]]) -> Iterator[DoctorFinding]:
    """List the metric groups that each class omits, which is no fault: (class, group, reason)."""
    left_out: dict[str, dict[str, list[str]]] = {}
    for owner, group, reason in omissions:
        left_out.setdefault(owner, {}).setdefault(reason, []).append(group)
    for owner, reasons in left_out.items():
        parts = [f"{', '.join(groups)}: {reason}" for reason, groups in reasons.items()]
        yield ok_finding("suite", f"{owner} leaves out {'; '.join(parts)}")


def list_written_functions(source: str, module: str) -> list[WrittenFunction]:
    """The public functions of a module and of its public classes; nothing for source that does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    functions = list(_iterate_functions(tree.body, module))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            functions += _iterate_functions(node.body, f"{module}.{node.name}")
    return functions


def list_names_from_imports(source: str, module: str) -> list[str]:
    """The names a module imports at its top level, as ``module.name``.

    Empty for source that does not parse.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    return [
        f"{module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def _iterate_functions(body: Iterable[ast.stmt], owner: str) -> Iterator[WrittenFunction]:
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            decorators = tuple(_get_decorator_name(decorator) for decorator in node.decorator_list)
            yield WrittenFunction(f"{owner}.{node.name}", node.lineno, decorators)


def _get_decorator_name(decorator: ast.expr) -> str:
    """``metrics`` for ``@metrics(...)`` and ``@perfci.bench.metrics(...)``."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
