"""The compilation suite: exact counts of the model, what a CPU skips, and CUDA graphs on a GPU that only
notes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from benchmarks import compilation
from benchmarks.compilation import (
    Compile,
    CudaGraphs,
    FrontEnd,
    LaunchBoundStep,
    Lengths,
    capture_graph,
    pool_bytes,
)
from benchmarks.workload_sizes import DEVICE

on_cpu = pytest.mark.skipif(DEVICE != "cpu", reason="asks for what only a CPU refuses")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_model_is_one_graph(backend: str) -> None:
    counts = counted(FrontEnd().measure_front_end(backend, "smoke"))

    assert counts == {"graph_breaks": 0, "recompiles": 0, "graphs": 1}


@pytest.mark.parametrize(
    ("shapes", "recompiles"),
    [("automatic", 1), ("static", len(compilation.COMPILED.lengths) - 1), ("dynamic", 0)],
)
def test_sequence_lengths_recompile_only_as_often_as_dynamo_needs(shapes: str, recompiles: int) -> None:
    counts = counted(Lengths().measure_lengths(shapes, "smoke"))

    assert counts == {"graph_breaks": 0, "recompiles": recompiles, "graphs": recompiles + 1}


def test_one_more_graph_break_moves_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compilation.loss

    def loss(model: Any, text: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return whole(model, text)

    monkeypatch.setattr(compilation, "loss", loss)

    counts = counted(FrontEnd().measure_front_end("eager", "smoke"))

    assert counts["graph_breaks"] > 0  # torch counts it where it is and where it is called from
    assert counts["recompiles"] == 0


def test_eager_mode_has_a_step_time_and_no_compilation() -> None:
    rows = {row["name"]: row for row in Compile().measure_compile("eager", "smoke")["metrics"]}

    assert {name for name, row in rows.items() if row["status"] == "ok"} - {"cpu_step_time"} == {"step_time"}
    assert rows["compile_cold"]["reason"] == "eager mode compiles nothing"


def test_rejects_a_compiled_step_that_computes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        value = 1e9

    monkeypatch.setattr(compilation, "compile_twice", lambda *_, **__: (Wrong, Wrong))

    with pytest.raises(Exception, match="rejected: parity failed: loss at step 0 is 1e\\+09 against"):
        Compile().measure_compile("default", "smoke")


@on_cpu
@pytest.mark.parametrize(
    ("mode", "reason"), [("reduce-overhead", "CUDA graphs"), ("max-autotune", "on a GPU")]
)
def test_skips_gpu_modes_on_a_cpu(mode: str, reason: str) -> None:
    with pytest.raises(NotImplementedError, match=reason):
        Compile().setup(mode, "smoke")


@on_cpu
def test_skips_cuda_graphs_without_a_gpu() -> None:
    with pytest.raises(NotImplementedError, match="need an NVIDIA or AMD GPU"):
        CudaGraphs().setup("capture", "smoke")


@on_cpu
def test_warms_up_on_a_side_stream_then_captures_and_replays_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder()
    recorder.install(monkeypatch)
    launched = LaunchBoundStep()
    step = launched.step
    monkeypatch.setattr(launched, "step", lambda: (recorder.say("step"), step())[1])

    replay, pool = capture_graph(launched)
    first, second = replay(), replay()

    warming = ["wait", "aside", *["step"] * 3, "back", "wait"]
    assert recorder.said == [*warming, "record", "step", "recorded", "replay", "replay"]
    assert first is second
    assert pool == (0, 7)


def test_counts_the_segments_of_its_own_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [
        {"segment_pool_id": pool, "total_size": size}
        for pool, size in [((0, 0), 1), ((0, 7), 20), ((0, 7), 300)]
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)

    assert pool_bytes((0, 7)) == 320


class Recorder:
    """Stands for CUDA's streams and graphs, and notes in which order they are used."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, what: str) -> None:
        self.said.append(what)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, fake in {
            "Stream": lambda: self,
            "current_stream": lambda: self,
            "stream": lambda _: self.between("aside", "back"),
            "CUDAGraph": lambda: self,
            "graph": lambda _: self.between("record", "recorded"),
        }.items():
            monkeypatch.setattr(torch.cuda, name, fake)

    @contextlib.contextmanager
    def between(self, before: str, after: str) -> Iterator[None]:
        self.say(before)
        yield
        self.say(after)

    def wait_stream(self, _: object) -> None:
        self.say("wait")

    def replay(self) -> None:
        self.say("replay")

    def pool(self) -> tuple[int, int]:
        return 0, 7


def counted(report: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["samples"][0] for row in report["metrics"] if row["clock"] == "exact"}
