"""What compiling costs: counts by hand, the moment it is over, and caches that are empty once."""

from __future__ import annotations

import shutil
from pathlib import Path

import compiling
import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from fake_device import FakeDevice

from perfci.bench.compilers import compile_cost
from perfci.bench.compilers.compile_cost import compile_in_this_process, compile_twice

TIMING = {"warmup_s": 0.01, "budget_s": 0.02}


@pytest.fixture
def plain_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare g++ what no test here looks at: trying out the vectors of this CPU, and headers for many
    kernels more.
    """
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "0")
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")


@pytest.mark.parametrize("breaks", [0, 1, 2])
def test_counts_graph_breaks_and_nothing_else(breaks: int) -> None:
    compiled = compile_in_this_process(compiling.broken, breaks)

    assert compiled.graph_breaks == breaks
    assert compiled.recompiles == 0
    assert compiled.value == 6


def test_counts_what_is_compiled_again() -> None:
    compiled = compile_in_this_process(compiling.growing, [4, 5, 6])

    assert (compiled.recompiles, compiled.graphs, compiled.graph_breaks) == (2, 3, 0)


def test_compilation_ends_when_no_call_compiles_any_more() -> None:
    at_once, at_the_third = (
        compile_in_this_process(compiling.growing, [4]),
        compile_in_this_process(compiling.growing, [4, 5, 6]),
    )

    assert (at_once.calls, at_the_third.calls) == (1, 3)
    assert at_once.seconds > 0


def test_endless_compilation_has_no_steady_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_cost, "MAX_CALLS", 6)

    with pytest.raises(RuntimeError, match="something is compiled even after 6 calls"):
        compile_in_this_process(compiling.growing, list(range(4, 40)))


def test_a_second_compilation_counts_from_nothing() -> None:
    counts = [
        (c.graphs, c.graph_breaks, c.recompiles)
        for c in (compile_in_this_process(compiling.broken, 1) for _ in range(2))
    ]

    assert counts[0] == counts[1]


def test_subtracts_the_time_of_steady_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeDevice(kind="cpu").install(monkeypatch, "perfci.bench.compilers.compile_cost")
    events: list[str] = []
    costs = iter([(30.0, 1), (0.5, 0), (7.0, 1), *[(0.5, 0)] * 3])

    def step() -> float:
        seconds, compiled = next(costs)
        host.work(seconds)
        events.extend(["compiled"] * compiled)
        return 2.0

    calls, value = compile_cost._call_until_steady(step, events, host)

    assert [wall for wall, _, _ in calls] == pytest.approx([30, 0.5, 7, 0.5, 0.5, 0.5])
    assert compile_cost._excess_over_steady([wall for wall, _, _ in calls], 3) == pytest.approx(36)
    assert value == 2.0


def test_cpu_seconds_are_judged_only_where_there_is_no_gpu() -> None:
    compiled = compile_in_this_process(compiling.growing, [4])

    assert compiled.reading(FakeDevice(kind="cpu")).cpu == (compiled.cpu_seconds,)
    assert compiled.reading(FakeDevice(kind="cuda")).cpu == ()


def test_ends_a_compilation_that_takes_too_long() -> None:
    with pytest.raises(TimeoutError, match=r"^the cold compilation did not end within 0\.1 s"):
        compile_twice(compiling.endless, timing=TIMING, cap_s=0.1)


def test_skips_inductor_where_it_has_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")

    with pytest.raises(
        SkipNotImplemented, match=r"inductor has no compiler here: the cold compilation: .*No working"
    ):
        compile_twice(compiling.activated, str(tmp_path / "diary"), timing=TIMING)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_kernels")
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_a_warm_compilation_finds_all_that_the_cold_one_made(tmp_path: Path) -> None:
    cold, warm = compile_twice(compiling.activated, str(tmp_path / "diary"), timing=TIMING)

    (pid, cache, before), (other_pid, other_cache, _) = map(
        str.split, (tmp_path / "diary").read_text().splitlines()
    )
    assert pid != other_pid
    assert before == "0"
    assert cache == other_cache
    assert not Path(cache).exists()
    assert cold.cache_misses > 0
    assert warm.cache_misses == 0
    assert (cold.value, cold.generated_kernels, cold.fingerprint) == (warm.value, 1, warm.fingerprint)


def test_leaves_dynamo_as_it_was() -> None:
    compile_in_this_process(compiling.broken, 1)

    assert float(torch.compile(torch.Tensor.sum, backend="eager")(torch.ones(3))) == 3
