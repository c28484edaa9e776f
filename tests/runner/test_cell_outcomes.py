"""Every way a benchmark process can end, each its own status with a reason."""

from __future__ import annotations

import os
import venv
from pathlib import Path

import pytest
from runner.conftest import a_runner, measured

from perfci.config import EnvironmentTable, Settings
from perfci.model import Clock, PerfciError, Status
from perfci.runner.suite_cells import expand_cells
from tests.support.git_project import GitProject
from tests.support.waiting import until

SUITE = """
    import ctypes, os, subprocess, sys, time
    import thing

    class Grid:
        params = [[1, 2], ["a", "b"]]
        param_names = ["size", "kind"]
        def setup(self, size, kind):
            if (size, kind) == (2, "b"):
                raise NotImplementedError
        def time_work(self, size, kind):
            thing.work(size)

    class Cached:
        def setup_cache(self):
            with open(os.environ["CALLS"], "a") as calls:
                calls.write("x")
            return {"value": 3}
        def track_one(self, cache):
            return cache["value"]
        def track_two(self, cache):
            return cache["value"] + 1

    def time_raises(): raise ValueError("boom")
    def time_segfaults(): ctypes.string_at(0)
    def time_is_killed(): os.kill(os.getpid(), 9)
    def time_exits(): os._exit(3)
    def time_leaves(): sys.exit(0)
    def time_needs_memory(): raise MemoryError("no room")
    def time_talks():
        while True:
            print("still here", flush=True)
            time.sleep(0.05)
    time_talks.timeout = 0.5
    def track_leaves_a_grandchild():
        subprocess.Popen(["sleep", os.environ["MARK"]], start_new_session=True)
        return 1
    def track_samples(): return {"samples": [3.0, 1.0, 2.0], "number": 4}
    track_samples.unit, track_samples.direction, track_samples.metric = "tokens/s", "higher", "speed"
    def track_exact(): return 5
    track_exact.clock = "exact"
    def track_nan(): return float("nan")
    def track_text(): return "fast"
    def track_bad_clock(): return 1
    track_bad_clock.clock = "sundial"
    def peakmem_block(): return bytearray(50_000_000)
    def mem_list(): return [0] * 1000
    def timeraw_import(): return "import thing; thing.work(1)"
    timeraw_import.number, timeraw_import.repeat, timeraw_import.rounds = 1, 2, 1
"""

MARK = f"1000.{os.getpid()}25"
"""So many seconds that nobody else on the machine sleeps for."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("outcomes")
    project = GitProject(folder / "project")
    project.commit("One of each", thing="def work(n): return sum(range(1000 * n))\n", benchmarks__suite=SUITE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLS", str(folder / "calls"))
        patch.setenv("MARK", MARK)
        return {**measured(project), "calls": (folder / "calls").read_text()}


@pytest.mark.parametrize(
    ("cell", "status", "reason"),
    [
        (
            "suite.Grid.time_work(2, 'b')",
            Status.SKIPPED,
            "setup raised NotImplementedError, or its parameters are skipped",
        ),
        ("suite.time_raises", Status.FAILED, "ValueError: boom"),
        ("suite.time_segfaults", Status.CRASHED, "ended by SIGSEGV (signal 11)"),
        ("suite.time_is_killed", Status.CRASHED, "ended by SIGKILL (signal 9)"),
        ("suite.time_exits", Status.FAILED, "exited with code 3 before it returned a result"),
        ("suite.time_leaves", Status.FAILED, "SystemExit: 0"),
        ("suite.time_needs_memory", Status.OOM, "MemoryError: no room"),
        ("suite.time_talks", Status.TIMEOUT, "did not end within 0.5 s"),
        ("suite.track_nan", Status.SKIPPED, "returned NaN, which means not applicable here"),
        (
            "suite.track_text",
            Status.FAILED,
            "TypeError: returned str; a number or a mapping with samples was expected",
        ),
        (
            "suite.track_bad_clock",
            Status.FAILED,
            "ValueError: clock = 'sundial' is unknown; known are wall, cpu, device, exact, "
            "value, informational",
        ),
    ],
)
def test_classifies_each_way_to_fail(outcomes: dict, cell: str, status: Status, reason: str) -> None:
    assert (outcomes[cell].status, outcomes[cell].reason) == (status, reason)


def test_keeps_the_end_of_what_a_failing_benchmark_printed(outcomes: dict) -> None:
    assert outcomes["suite.time_raises"].stderr_tail.rstrip().endswith("ValueError: boom")
    assert "still here" in outcomes["suite.time_talks"].stderr_tail


def test_times_with_both_clocks(outcomes: dict) -> None:
    wall, cpu = outcomes["suite.Grid.time_work(1, 'a')"].metrics

    assert (wall.name, wall.clock, wall.unit) == ("time", Clock.WALL, "seconds")
    assert (cpu.name, cpu.clock) == ("cpu_time", Clock.CPU)
    assert len(wall.samples) == len(cpu.samples) > 1


def test_reads_samples_units_and_directions_a_suite_declares(outcomes: dict) -> None:
    (metric,) = outcomes["suite.track_samples"].metrics

    assert (metric.name, metric.unit, metric.direction) == ("speed", "tokens/s", "higher")
    assert (metric.samples, metric.number) == ((3.0, 1.0, 2.0), 4)
    assert outcomes["suite.track_exact"].metrics[0].clock is Clock.EXACT


def test_counts_peak_memory_from_the_start_of_the_process(outcomes: dict) -> None:
    (metric,) = outcomes["suite.peakmem_block"].metrics

    assert (metric.name, metric.unit) == ("peak_memory", "bytes")
    assert 49_000_000 <= metric.samples[0] < 60_000_000  # the kernel counts resident pages in batches


def test_runs_the_other_kinds_of_asv(outcomes: dict) -> None:
    assert outcomes["suite.mem_list"].metrics[0].samples[0] > 8000
    assert len(outcomes["suite.timeraw_import"].metrics[0].samples) == 2
    assert [m.name for m in outcomes["suite.timeraw_import"].metrics] == ["time"]


def test_runs_setup_cache_once_and_hands_it_to_each_benchmark(outcomes: dict) -> None:
    values = [outcomes[f"suite.Cached.track_{name}"].metrics[0].samples[0] for name in ("one", "two")]

    assert values == [3.0, 4.0]
    assert outcomes["calls"] == "x"


def test_leaves_no_grandchild_behind(outcomes: dict) -> None:
    outcome = outcomes["suite.track_leaves_a_grandchild"]

    assert outcome.status is Status.FAILED
    assert outcome.reason == f"left a process running after it returned: sleep {MARK}"
    assert until(lambda: not runs(MARK))


def test_behaves_the_same_in_spawned_processes(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "project")
    suite = """
        import os, thing
        def track_answer(): return thing.ANSWER
        def time_work(): sum(range(1000))
        def time_raises(): raise ValueError("boom")
        def time_hangs(): import time; time.sleep(60)
        time_hangs.timeout = 1
    """
    project.commit("Spawned", thing="ANSWER = 42\n", benchmarks__suite=suite)

    outcomes = measured(project, launch="spawn")

    assert outcomes["suite.track_answer"].metrics[0].samples == (42.0,)
    assert outcomes["suite.time_raises"].reason == "ValueError: boom"
    assert outcomes["suite.time_hangs"].status is Status.TIMEOUT
    assert outcomes["suite.time_work"].status is Status.OK


def test_spawns_where_the_suite_started_threads(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "project")
    suite = """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        def track_one(): return 1
    """
    project.commit("Threads", benchmarks__suite=suite)

    outcome = measured(project)["suite.track_one"]

    assert outcome.status is Status.OK
    assert outcome.flags == ("spawned: 2 threads are running after the imports",)


def runs(argument: str) -> bool:
    """Whether any process has this argument."""
    return any(argument in _command_line(entry) for entry in os.listdir("/proc") if entry.isdigit())


def _command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_goes_on_after_a_commit_parent_died(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "project")
    suite = """
        import os, signal
        def track_kills_its_supervisor(): os.kill(os.getppid(), signal.SIGKILL)
        def track_one(): return 1
    """
    project.commit("Patricide", benchmarks__suite=suite)

    with a_runner(project) as runner:
        commit = runner.repository.list_commit_or_range("HEAD")[0]
        runner.prepare_commits([commit])
        cells = expand_cells(runner.discover_suite(commit.sha).benchmarks.values(), "", 10)
        first = [outcome for outcome, _ in runner.visit_commit(commit.sha, cells)]
        again = [outcome for outcome, _ in runner.visit_commit(commit.sha, cells[1:])]

    assert [o.status for o in first] == [Status.FAILED, Status.FAILED]
    assert first[0].reason == "the process that supervised this cell ended (status 9)"
    assert again[0].metrics[0].samples == (1.0,)


def test_explains_why_an_interpreter_cannot_measure(tmp_path: Path) -> None:
    project = GitProject(tmp_path / "project")
    project.commit("One", benchmarks__suite="def track_one(): return 1\n")
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    settings = Settings(environment=EnvironmentTable(python=str(bare / "bin" / "python")))

    with a_runner(project, settings) as runner:
        commit = runner.repository.list_commit_or_range("HEAD")[0]
        runner.prepare_commits([commit])
        with pytest.raises(PerfciError) as caught:
            runner.discover_suite(commit.sha)

    assert str(caught.value).endswith("cannot measure: ModuleNotFoundError: No module named 'asv_runner'")
