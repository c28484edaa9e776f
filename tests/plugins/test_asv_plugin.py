"""`asv_bench_perfci` as asv meets it: installed by pip, found by asv itself, measured by asv and by perfci
alike.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asv_runner.benchmarks  # noqa: F401  (before the plugin, which it imports half-way otherwise)
import pytest
from asv_bench_perfci.benchmark_base import PerfciBenchmark
from asv_bench_perfci.benchmarks.gpu_benchmarks import GpuMemoryBenchmark, GpuTimeBenchmark
from asv_bench_perfci.benchmarks.stream_latency import E2elBenchmark, TpotBenchmark, TtftBenchmark
from asv_runner.benchmarks.mark import SkipNotImplemented
from bench.fake_device import FakeDevice

from perfci.cli import run_cli
from perfci.doctor import collect_facts
from tests.support.git_project import GitProject

TYPES = (GpuTimeBenchmark, GpuMemoryBenchmark, TtftBenchmark, TpotBenchmark, E2elBenchmark)

SUITE = """
    import torch  # once, in the process that asv forks its benchmarks from

    class OnCpu:
        on_cpu = True
        params, param_names = [10, 1000], ["size"]

        def setup(self, size):
            self.numbers = list(range(size))

        def gpu_sum(self, size):
            sum(self.numbers)

    class OnGpu:
        def setup(self):
            raise RuntimeError("a setup that needs a GPU was run without one")

        def teardown(self):
            raise RuntimeError("so was its teardown")

        def gpu_step(self): ...
        def gpumem_step(self): ...

    class Reply:
        def gen_ttft_reply(self):
            for word in "one two three four".split():
                sum(range(20_000))
                yield word

        gen_tpot_reply = gen_e2el_reply = gen_ttft_reply
"""

CONFIG = {
    "version": 1,
    "project": "tiny",
    "repo": ".",
    "branches": ["main"],
    "benchmark_dir": "benchmarks",
    "environment_type": "virtualenv",
    "results_dir": "results",
    "env_dir": "env",
    "html_dir": "html",
}


@pytest.fixture
def project(working_folder: Path, installed_plugin: Path, monkeypatch: pytest.MonkeyPatch) -> GitProject:
    """A suite in an environment in which the plugin is installed, on a machine without an accelerator."""
    monkeypatch.setenv("PYTHONPATH", str(installed_plugin))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    project = GitProject(working_folder)
    project.write("benchmarks/__init__.py", "")
    project.commit("First", benchmarks__tiny=SUITE)
    return project


def a_benchmark(
    kind: type[PerfciBenchmark], function: Callable[[], Any], **attributes: Any
) -> PerfciBenchmark:
    class Attributes:
        pass

    for name, value in attributes.items():
        setattr(Attributes, name, staticmethod(value) if callable(value) else value)
    return kind("suite.benchmark", function, [function, Attributes])


def taken(benchmark: PerfciBenchmark) -> dict[str, Any]:
    assert benchmark.do_setup() is False
    result: dict[str, Any] = benchmark.do_run()
    benchmark.do_teardown()
    return result


# ------------------------------------------------------------------ in the hands of asv and of perfci


@pytest.mark.slow
def test_asv_measures_and_stores_all_samples(
    project: GitProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (project.folder / "asv.conf.json").write_text(json.dumps(CONFIG))
    asv = [sys.executable, "-m", "asv"]
    subprocess.run([*asv, "machine", "--yes", "--machine", "here"], check=True, capture_output=True)

    done = subprocess.run(
        [
            *asv,
            "run",
            "-E",
            f"existing:{sys.executable}",
            "--set-commit-hash",
            project.git("rev-parse", "HEAD"),
            "--machine",
            "here",
            "--no-pull",
            "--record-samples",
            "--launch-method",
            "forkserver",
            "--show-stderr",
            "-a",
            "repeat=4",
            "-a",
            "warmup_time=0",
            "-a",
            "rounds=2",
        ],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (stored,) = (project.folder / "results" / "here").glob("*-existing*.json")
    report = json.loads(stored.read_text())
    row = {
        name: dict(zip(report["result_columns"], values, strict=False))
        for name, values in report["results"].items()
    }
    assert [len(samples) for samples in row["tiny.OnCpu.gpu_sum"]["samples"]] == [8, 8]
    assert [len(row[f"tiny.Reply.gen_{kind}_reply"]["samples"][0]) for kind in ("ttft", "tpot", "e2el")] == [
        8,
        8,
        8,
    ]
    assert row["tiny.Reply.gen_ttft_reply"]["result"][0] < row["tiny.Reply.gen_e2el_reply"]["result"][0]
    assert all(str(row[f"tiny.OnGpu.{name}_step"]["result"]) == "[nan]" for name in ("gpu", "gpumem"))
    about = json.loads((project.folder / "results" / "benchmarks.json").read_text())
    assert about["tiny.OnCpu.gpu_sum"]["unit"] == "seconds"
    assert {name.rpartition(".")[2]: item["type"] for name, item in about.items() if name != "version"} == {
        "gpu_sum": "gputime",
        "gpu_step": "gputime",
        "gpumem_step": "gpumemory",
        "gen_ttft_reply": "ttft",
        "gen_tpot_reply": "tpot",
        "gen_e2el_reply": "e2el",
    }


@pytest.mark.slow
def test_perfci_measures_the_same_suite(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "--rounds", "1"]) == 0

    query = """
        select b.name, s.metric, s.unit, p.status, p.clock, p.reason from processes p
        join results r on p.result_id = r.id join series s on r.series_id = s.id
        join benchmarks b on s.benchmark_id = b.id order by b.name, s.metric
    """
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        rows = {(name, metric): rest for name, metric, *rest in database.execute(query)}
    assert rows["tiny.OnCpu.gpu_sum", "time"] == ["seconds", "ok", "wall", ""]
    assert rows["tiny.Reply.gen_tpot_reply", "tpot"] == ["seconds", "ok", "wall", ""]
    assert rows["tiny.OnGpu.gpu_step", "time"][1:] == [
        "skipped",
        "device",
        "torch sees no accelerator here, and the benchmark does not set on_cpu = True",
    ]
    assert rows["tiny.OnGpu.gpumem_step", "peak_allocated_bytes"][3] == "torch sees no accelerator here"


def test_the_doctor_finds_it_registered(installed_plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed_plugin))

    facts = collect_facts.probe_environment(sys.executable)

    (ours,) = [plugin for plugin in facts.plugins if plugin.name == "asv_bench_perfci"]
    assert (sorted(ours.types), ours.errors) == (["e2el", "gpumemory", "gputime", "tpot", "ttft"], ())
    assert set(ours.types) < set(facts.types)


def test_looking_for_plugins_imports_neither_torch_nor_perfci(installed_plugin: Path) -> None:
    code = "import sys, asv_runner.benchmarks; print([m for m in ('torch', 'perfci') if m in sys.modules])"
    command, env = [sys.executable, "-c", code], {"PYTHONPATH": str(installed_plugin)}

    report = subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    assert report.stdout.strip() == "[]"


# ------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gpu_step", GpuTimeBenchmark),
        ("gpu_time_step", GpuTimeBenchmark),
        ("gpu_memory_bound", GpuTimeBenchmark),
        ("gpumem_step", GpuMemoryBenchmark),
        ("gpu_mem_step", GpuMemoryBenchmark),
        ("gen_ttft_reply", TtftBenchmark),
        ("gen_tpot_reply", TpotBenchmark),
        ("gen_e2el_reply", E2elBenchmark),
        ("gen_reply", None),
        ("time_gpu_step", None),
        ("gpu_", None),
    ],
)
def test_a_name_belongs_to_one_type_at_most(name: str, kind: type[PerfciBenchmark] | None) -> None:
    assert [each_type for each_type in TYPES if re.match(each_type.name_regex, name)] == (
        [kind] if kind else []
    )


def test_the_version_knows_how_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    before = a_benchmark(GpuTimeBenchmark, print_nothing).version

    monkeypatch.setattr("asv_bench_perfci.benchmark_base.METHOD_VERSION", "2")

    assert a_benchmark(GpuTimeBenchmark, print_nothing).version != before
    assert a_benchmark(GpuTimeBenchmark, print_nothing, version="mine").version == "mine"


def print_nothing() -> None:
    print(end="")


# ------------------------------------------------------------------ on an accelerator that is only arithmetic


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    device = FakeDevice()
    for module in ("devices.torch_devices", "timers.timed_blocks"):
        monkeypatch.setattr(f"perfci.bench.{module}.this_device", lambda: device)
    monkeypatch.setattr("asv_bench_perfci.benchmarks.stream_latency.perf_counter", lambda: device.host_s)
    return device.install(monkeypatch, "perfci.bench.timers.timed_blocks", "perfci.bench.timers.warmup")


def test_times_what_the_device_did_between_two_events(gpu: FakeDevice) -> None:
    benchmark = a_benchmark(GpuTimeBenchmark, gpu.launching(0.002), number=5, repeat=7)

    result = taken(benchmark)

    assert result["number"] == 5
    assert result["samples"] == pytest.approx([0.002] * 7, rel=0.01)
    assert benchmark._declaration.clock == "device"


def test_prepares_each_block_untimed(gpu: FakeDevice) -> None:
    prepared = []
    benchmark = a_benchmark(
        GpuTimeBenchmark,
        gpu.launching(0.002),
        number=5,
        repeat=3,
        prepare=lambda: prepared.append(gpu.kernel(1.0)),
    )

    samples = taken(benchmark)["samples"]

    assert len(prepared) == 3
    assert samples == pytest.approx([0.002] * 3, rel=0.01)


def test_reads_the_allocator_after_one_call_that_fills_it(gpu: FakeDevice) -> None:
    gpu.stats = {"allocated_bytes.all.peak": 4096}
    calls = []

    result = taken(a_benchmark(GpuMemoryBenchmark, lambda: calls.append(1), repeat=2))

    assert result == {"samples": [4096.0, 4096.0], "number": 1}
    assert len(calls) == 1 + 2 * 2  # each reading takes a call for the peaks and one for the events


def test_skips_where_the_allocator_keeps_no_peak(gpu: FakeDevice) -> None:
    gpu.stats = {"allocated_bytes.all.current": 4096}

    with pytest.raises(
        SkipNotImplemented, match=r"the allocator of Fake H100 keeps no allocated_bytes\.all\.peak"
    ):
        taken(a_benchmark(GpuMemoryBenchmark, print_nothing))


@pytest.mark.parametrize(
    ("kind", "seconds"), [(TtftBenchmark, 0.3), (TpotBenchmark, 0.1), (E2elBenchmark, 0.6)]
)
def test_a_token_is_visible_when_the_device_is_done_with_it(
    gpu: FakeDevice, kind: type[PerfciBenchmark], seconds: float
) -> None:
    def reply() -> Iterator[int]:
        for token, work in enumerate((0.3, 0.1, 0.1, 0.1)):
            gpu.kernel(work)
            yield token

    result = taken(a_benchmark(kind, reply, repeat=3))

    assert result["samples"] == pytest.approx([seconds] * 3, rel=0.001)


def test_a_chunk_may_hold_several_tokens(gpu: FakeDevice) -> None:
    def reply() -> Iterator[str]:
        for chunk in ("a", "bcde", "fghi"):
            gpu.kernel(0.4)
            yield chunk

    result = taken(a_benchmark(TpotBenchmark, reply, repeat=1, tokens_of=len))

    assert result["samples"] == pytest.approx([0.1], rel=0.001)


@pytest.mark.parametrize(
    ("kind", "chunks", "message"),
    [
        (TtftBenchmark, 0, "the request has no output"),
        (TpotBenchmark, 1, "suite.benchmark came in one chunk: time per token needs at least two"),
    ],
)
def test_refuses_a_stream_without_an_answer(
    gpu: FakeDevice, kind: type[PerfciBenchmark], chunks: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        taken(a_benchmark(kind, lambda: iter(range(chunks))))


def test_repeats_as_asv_does(gpu: FakeDevice) -> None:
    def of(repeat: Any) -> tuple[int, int, float]:
        return a_benchmark(GpuTimeBenchmark, print_nothing, repeat=repeat).repeat_limits(7, 50, 2.0)

    assert [of(0), of(3), of((2, 9, 1.5))] == [(7, 50, 2.0), (3, 3, float("inf")), (2, 9, 1.5)]
