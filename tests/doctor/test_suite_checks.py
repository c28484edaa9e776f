"""What the doctor says of a suite: what does not import, what is overlooked, what was lost."""

from __future__ import annotations

import textwrap

import pytest

from perfci.doctor.findings import DoctorFinding, ok_finding, problem_finding, warning_finding
from perfci.doctor.suite_checks import (
    RecordedSuite,
    WrittenFunction,
    check_benchmark_count,
    check_imported_benchmarks,
    check_lost_or_rewritten_benchmarks,
    check_module_imports,
    check_omitted_metrics,
    check_unmeasured_functions,
    exclude_failed_modules,
    list_names_from_imports,
    list_written_functions,
)

SOURCE = textwrap.dedent("""
    from perfci.bench import Metric, metrics

    def time_step(): pass
    def bench_step(): pass
    def _bench_helper(): pass

    class Model:
        def setup(self): pass
        def gpu_forward(self): pass

        @metrics(Metric("time", "seconds"))
        def measure_step(self):
            def test_inner(): pass

        def measure_nothing(self): pass

    class _Base:
        def bench_shared(self): pass
""")


def overlooked(name: str, *decorators: str, discovered: tuple[str, ...] = ()) -> list[DoctorFinding]:
    return list(check_unmeasured_functions([WrittenFunction(f"suite.{name}", 7, decorators)], discovered))


def test_reads_the_public_functions_of_a_module() -> None:
    functions = {
        function.place: (function.line, function.decorators)
        for function in list_written_functions(SOURCE, "suite")
    }

    assert functions == {
        "suite.time_step": (4, ()),
        "suite.bench_step": (5, ()),
        "suite.Model.setup": (9, ()),
        "suite.Model.gpu_forward": (10, ()),
        "suite.Model.measure_step": (13, ("metrics",)),
        "suite.Model.measure_nothing": (16, ()),
    }


@pytest.mark.parametrize("source", ["def (", "\0"])
def test_leaves_source_that_does_not_parse_to_the_import(source: str) -> None:
    assert list_written_functions(source, "suite") == []
    assert list_names_from_imports(source, "suite") == []


def test_knows_a_decorator_by_its_last_name() -> None:
    source = "import perfci.bench as b\n@b.metrics()\n@b.other\n@(lambda f: f)\ndef measure_x(): pass"

    (function,) = list_written_functions(source, "suite")

    assert function.decorators == ("metrics", "other", "")


@pytest.mark.parametrize("name", ["gpu_forward", "gpumem_forward", "gpu_mem_forward", "gen_ttft_reply"])
def test_reports_the_missing_plugin_of_a_name(name: str) -> None:
    assert overlooked(name) == [
        problem_finding(
            "suite",
            f"suite.{name} (line 7) is not measured: its type comes with a plugin that is not "
            f"registered there",
            "pip install asv_bench_perfci in the measured environment",
        )
    ]


@pytest.mark.parametrize("name", ["test_step", "bench_step", "benchmark_step", "timing_step", "timeit_step"])
def test_reports_names_of_other_tools_as_possible_benchmarks(name: str) -> None:
    assert overlooked(name) == [
        warning_finding(
            "suite",
            f"suite.{name} (line 7) looks like a benchmark and matches no type",
            f"call it time_step to have it timed, or _{name} to keep it apart",
        )
    ]


@pytest.mark.parametrize("decorators", [(), ("staticmethod",)])
def test_finds_a_measuring_function_without_metrics(decorators: tuple[str, ...]) -> None:
    assert overlooked("measure_step", *decorators, discovered=("suite.measure_step",)) == [
        problem_finding(
            "suite",
            "suite.measure_step (line 7) declares no metric, so it fails when it is measured",
            "put @metrics(Metric(name, unit), ...) above it, from perfci.bench",
        )
    ]


@pytest.mark.parametrize("decorator", ["metrics", "our_metrics"])
def test_trusts_a_decorator_that_may_declare_metrics(decorator: str) -> None:
    assert overlooked("measure_step", decorator) == []


@pytest.mark.parametrize("name", ["setup", "helper", "generate_data", "gen_batches", "gpus", "measured"])
def test_ignores_helper_functions(name: str) -> None:
    assert overlooked(name) == []


def test_ignores_methods_measured_under_a_subclass() -> None:
    assert overlooked("Base.gpu_forward", discovered=("suite.Large.gpu_forward",)) == []


def test_counts_benchmarks_by_type() -> None:
    types = {"suite.time_a": "time", "suite.time_b": "time", "suite.track_c": "track"}

    assert check_benchmark_count(types, 12) == ok_finding(
        "suite", "3 benchmarks in 12 cells: 2 time, 1 track"
    )
    assert check_benchmark_count({}, 0) == problem_finding(
        "suite",
        "there is no benchmark in it",
        "names that begin with time_, mem_, peakmem_, track_ or measure_ are benchmarks",
    )


def test_names_the_modules_that_do_not_import() -> None:
    errors = [("benchmarks.kernels", "ModuleNotFoundError: No module named 'triton'")]

    assert list(check_module_imports(errors)) == [
        problem_finding(
            "suite",
            "module benchmarks.kernels does not import, so nothing of it is measured: ModuleNotFoundError: "
            "No module named 'triton'",
            "make it import against the commit that is measured",
        )
    ]


def test_does_not_look_into_what_failed_to_import() -> None:
    functions = [
        WrittenFunction(place, 1) for place in ("kernels.gpu_a", "kernels_too.gpu_b", "serving.gpu_c")
    ]

    remaining = exclude_failed_modules(functions, [("benchmarks.kernels", "ImportError")])

    assert [function.place for function in remaining] == ["kernels_too.gpu_b", "serving.gpu_c"]
    assert exclude_failed_modules(functions, [("benchmarks", "ImportError")]) == []


def test_finds_a_helper_that_is_measured_because_it_is_imported() -> None:
    source = (
        "from timers import time_call as call, wait\nimport time_travel\ndef f(): from timers "
        "import time_late"
    )

    imports = list_names_from_imports(source, "suite")

    assert imports == ["suite.time_call", "suite.wait"]
    assert list(check_imported_benchmarks(imports, ["suite.time_call", "suite.time_step"])) == [
        warning_finding(
            "suite",
            "suite.time_call is measured as a benchmark of its own, because that module imports the name",
            "import the module it is from instead, or set its attribute skip_benchmark = True",
        )
    ]


def test_lists_what_each_class_omits_and_why() -> None:
    no_hooks, no_stream = "it defines no batch and no loss", "it defines no stream"
    omissions = [
        ("a.Chat", "training", no_hooks),
        ("a.Chat", "stages", no_stream),
        ("a.Chat", "numerics", no_hooks),
    ]

    findings = list(check_omitted_metrics([*omissions, ("a.Train", "stages", no_stream)]))

    assert findings == [
        ok_finding(
            "suite",
            "a.Chat leaves out training, numerics: it defines no batch and no loss; stages: it "
            "defines no stream",
        ),
        ok_finding("suite", "a.Train leaves out stages: it defines no stream"),
    ]


RECORDED = RecordedSuite({"a.time_x": "v1", "a.time_y": "v1"}, "2026-03-01")


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (
            {"a.time_x": "v1", "a.time_y": "v1", "a.time_new": "v1"},
            [ok_finding("history", "all 2 benchmarks measured on 2026-03-01 are still there")],
        ),
        (
            {"a.time_x": "v1"},
            [
                problem_finding(
                    "history",
                    "measured on 2026-03-01 and not in the suite any more: a.time_y",
                    "restore what was not removed on purpose",
                )
            ],
        ),
        (
            {"a.time_x": "v2", "a.time_y": "v1"},
            [
                warning_finding(
                    "history",
                    "rewritten since 2026-03-01, so that its history begins anew: a.time_x",
                    "set a version attribute where old and new numbers mean the same",
                )
            ],
        ),
    ],
)
def test_compares_the_suite_with_the_last_recorded_run(
    versions: dict[str, str], expected: list[DoctorFinding]
) -> None:
    assert list(check_lost_or_rewritten_benchmarks(versions, RECORDED)) == expected


def test_reports_no_lost_benchmarks_before_the_first_run() -> None:
    assert list(check_lost_or_rewritten_benchmarks({"a.time_x": "v1"}, None)) == [
        ok_finding("history", "no run is recorded yet to compare the suite with")
    ]
