"""``measure_*`` functions: many metrics from one process, and each way in which one can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from asv_runner.benchmarks import benchmark_types
from runner.conftest import a_runner, measured
from runner.test_cell_outcomes import MARK, runs

from perfci.config import Settings
from perfci.model import Clock, Status
from perfci.runner.cell_outcomes import Discovery, MeasuredMetric
from tests.support.git_project import GitProject
from tests.support.waiting import until

SUITE = """
    import os, subprocess
    from pathlib import Path
    from perfci.bench import Absent, Bench, Clock, Measurement, Metric, Reading, exact, metrics, informational

    RUNS = Path(os.environ["RUNS"])

    class Model(Bench):
        params = {"size": [1, 2], "kind": ["a", "b"]}
        omitted = {
            "generation": "it defines no stream",
            "stages": "it defines no stream",
            "training": "it defines no loss",
        }

        def setup(self, size, kind):
            if (size, kind) == (2, "b"):
                raise NotImplementedError("two of b do not fit")
            self.size = size

        @metrics(
            Metric("ttft", "seconds"),
            Metric("bytes", "bytes"),
            Metric("tokens_per_second", "tokens/s", "higher"),
            Metric("reserved", "bytes"),
        )
        def measure_all(self, size, kind):
            with RUNS.open("a") as runs:
                runs.write(f"{size}{kind} ")
            return Measurement({
                "ttft": Reading((0.5, 0.75), Clock.WALL, 4, cpu=(0.25, 0.5)),
                "bytes": exact(1000 * self.size),
                "tokens_per_second": informational(20.0),
                "reserved": Absent("this machine has no accelerator"),
            }, flags=("throttled: SM clock at 60 %",))

    class Cached:
        def setup_cache(self):
            return 3
        @metrics(Metric("value", "count"))
        def measure_cached(self, cache):
            return {"value": cache}

    @metrics(Metric("loss", "loss"), Metric("norm", "norm"))
    def measure_nan():
        return {"loss": float("nan"), "norm": 1.0}

    @metrics(Metric("a", "seconds"))
    def measure_too_little():
        return {}

    @metrics(Metric("speed", "parsecs"))
    def measure_in_parsecs():
        return {"speed": 1.0}

    @metrics(Metric("a", "seconds"), Metric("a", "bytes"))
    def measure_twice_a():
        return {"a": 1.0}

    @metrics(Metric("a", "seconds"), Metric("cpu_a", "seconds"))
    def measure_twin_of_its_own():
        return {"a": Reading((1.0,), Clock.WALL, cpu=(0.5,)), "cpu_a": 0.5}

    @metrics("a", "b")
    def measure_by_names():
        return {"a": 1.0, "b": 2.0}

    @metrics(Metric("a", "seconds"), Metric("b", "bytes"))
    def measure_nothing_here():
        return {"a": Absent("no clock"), "b": Absent("no memory")}

    @metrics(Metric("a", "seconds"), Metric("b", "bytes"))
    def measure_leaks():
        subprocess.Popen(["sleep", os.environ["MARK"]])
        return {"a": 1.0, "b": 2.0}

    @metrics(Metric("a", "seconds"))
    def measure_ends_in_time():
        subprocess.Popen(["sleep", "0.2"])
        return {"a": 1.0}

    def measure_undecorated():
        return {"a": 1.0}

    def track_one():
        return 1
"""


@pytest.fixture(scope="module", params=["fork", "spawn"])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("measure")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNS", str(folder / "runs"))
        patch.setenv("MARK", MARK)
        result = measured(a_project(folder, SUITE), launch=request.param)
    return {**result, "runs": (folder / "runs").read_text()}


def a_project(folder: Path, suite: str, **code: str) -> GitProject:
    project = GitProject(folder / "project")
    project.commit("One of each", benchmarks__models=suite, **code)
    return project


def discovered(folder: Path, suite: str, **code: str) -> Discovery:
    with a_runner(a_project(folder, suite, **code), Settings()) as runner:
        commit = runner.repository.list_commit_or_range("HEAD")[0]
        runner.prepare_commits([commit])
        return runner.discover_suite(commit.sha)


def test_one_process_gives_all_metrics(outcomes: dict) -> None:
    ttft, cpu_ttft, size, tokens, reserved = outcomes["models.Model.measure_all(2, 'a')"].metrics

    assert ttft == MeasuredMetric("ttft", "seconds", "lower", Clock.WALL, 4, (0.5, 0.75))
    assert cpu_ttft == MeasuredMetric("cpu_ttft", "seconds", "lower", Clock.CPU, 4, (0.25, 0.5))
    assert size == MeasuredMetric("bytes", "bytes", "lower", Clock.EXACT, 1, (2000.0,))
    assert tokens == MeasuredMetric(
        "tokens_per_second", "tokens/s", "higher", Clock.INFORMATIONAL, 1, (20.0,)
    )
    assert (reserved.name, reserved.status, reserved.samples) == ("reserved", Status.SKIPPED, ())
    assert reserved.reason == "this machine has no accelerator"


def test_each_cell_is_measured_once_and_by_perfci_alone(outcomes: dict) -> None:
    assert sorted(outcomes["runs"].split()) == ["1a", "1b", "2a"]
    assert not [name for name in outcomes if "track_" in name and name != "models.track_one"]


def test_asv_does_not_run_measure_functions() -> None:
    assert not any(kind.name_regex.match("measure_all") for kind in benchmark_types)


def test_keeps_the_flags_of_a_measuring_function(outcomes: dict) -> None:
    assert outcomes["models.Model.measure_all(1, 'a')"].flags == ("throttled: SM clock at 60 %",)


def test_hands_the_cache_to_a_measuring_method(outcomes: dict) -> None:
    assert outcomes["models.Cached.measure_cached"].metrics[0].samples == (3.0,)


@pytest.mark.parametrize(
    ("cell", "status", "reason"),
    [
        ("Model.measure_all(2, 'b')", Status.SKIPPED, "two of b do not fit"),
        ("measure_nan", Status.FAILED, "ValueError: metric 'loss' is (nan,); finite numbers were expected"),
        (
            "measure_too_little",
            Status.FAILED,
            "ValueError: the benchmark did not return a; return Absent(reason) for a metric "
            "that cannot be read",
        ),
        (
            "measure_in_parsecs",
            Status.FAILED,
            "ValueError: metric 'speed' has the unknown unit 'parsecs'; known: FLOP",
        ),
        (
            "measure_twice_a",
            Status.FAILED,
            "ValueError: two metrics are called 'a'; every metric of one benchmark needs its own name",
        ),
        (
            "measure_twin_of_its_own",
            Status.FAILED,
            "ValueError: two metrics are called 'cpu_a'; every metric of one process needs its own name",
        ),
        (
            "measure_by_names",
            Status.FAILED,
            "ValueError: @metrics was given 'a'; a Metric(name, unit) was expected",
        ),
        ("measure_nothing_here", Status.SKIPPED, "no clock; no memory"),
        ("measure_leaks", Status.FAILED, "left a process running after it returned: sleep 1000."),
    ],
)
def test_classifies_each_way_to_fail(outcomes: dict, cell: str, status: Status, reason: str) -> None:
    outcome = outcomes["models." + cell]

    assert outcome.status is status
    assert outcome.reason.startswith(reason)


def test_a_failure_is_that_of_its_cell_alone(outcomes: dict) -> None:
    assert outcomes["models.track_one"].status is Status.OK
    assert until(lambda: not runs(MARK))


def test_a_process_that_ends_by_itself_is_not_a_leak(outcomes: dict) -> None:
    assert outcomes["models.measure_ends_in_time"].status is Status.OK


def test_workers_that_an_exiting_interpreter_ends_are_not_a_leak(tmp_path: Path) -> None:
    suite = """
        import multiprocessing
        def track_pool():
            global pool
            pool = multiprocessing.Pool(1)
            return sum(pool.map(abs, [-1, -2]))
        def track_daemon():
            import time
            multiprocessing.Process(target=time.sleep, args=(1000,), daemon=True).start()
            return 1
        def track_child():
            import time
            multiprocessing.Process(target=time.sleep, args=(1000,)).start()
            return 1
    """

    result = measured(a_project(tmp_path, suite))

    assert result["models.track_pool"].metrics[0].samples == (3.0,)
    assert result["models.track_daemon"].status is Status.OK
    assert (
        result["models.track_child"].reason
        == "left a process running after it returned: a fork of the benchmark"
    )


def test_discovery_lists_every_metric_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    timing = """
    def time_one(): pass
    def track_speed(): return 1
    track_speed.metric, track_speed.unit = "v", "m/s"
    track_speed.direction, track_speed.clock = "higher", "exact"
    """

    discovery = discovered(tmp_path, SUITE + timing)

    descriptions = {
        name.removeprefix("models."): [
            (m.metric.name, m.metric.unit, m.metric.direction, m.clock) for m in item.metrics
        ]
        for name, item in discovery.benchmarks.items()
    }
    assert descriptions["time_one"] == [
        ("time", "seconds", "lower", Clock.WALL),
        ("cpu_time", "seconds", "lower", Clock.CPU),
    ]
    assert descriptions["track_speed"] == [("v", "m/s", "higher", Clock.EXACT)]
    assert descriptions["Model.measure_all"] == [
        ("ttft", "seconds", "lower", Clock.VALUE),
        ("bytes", "bytes", "lower", Clock.VALUE),
        ("tokens_per_second", "tokens/s", "higher", Clock.VALUE),
        ("reserved", "bytes", "lower", Clock.VALUE),
    ]
    assert descriptions["measure_twice_a"] == [("a", "seconds", "lower", Clock.VALUE)]
    assert "measure_undecorated" not in descriptions


def test_discovery_lists_the_metrics_a_class_omits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))

    discovery = discovered(tmp_path, SUITE)

    descriptions = [str(omission) for omission in discovery.omissions]
    assert descriptions == [
        "models.Model: no generation or stages metrics, because it defines no stream",
        "models.Model: no training metrics, because it defines no loss",
        "models.measure_undecorated: no declared metrics, because it lacks "
        "@metrics(Metric(name, unit), ...) of "
        "perfci.bench; it is not run",
    ]


def test_a_method_of_the_measured_code_is_no_benchmark_for_its_name(tmp_path: Path) -> None:
    code = """
        class Trainer:
            def measure_accuracy(self, batch): return 0.5
    """
    suite = """
        from trainer import Trainer
        def track_one(): return 1
    """

    discovery = discovered(tmp_path, suite, trainer=code)

    assert list(discovery.benchmarks) == ["models.track_one"]
    assert not discovery.omissions


def test_the_cpu_metric_of_a_renamed_timing_is_renamed_with_it(tmp_path: Path) -> None:
    suite = """
        def time_step(): sum(range(1000))
        time_step.metric = "step"
    """

    (outcome,) = measured(a_project(tmp_path, suite)).values()

    assert [metric.name for metric in outcome.metrics] == ["step", "cpu_step"]
