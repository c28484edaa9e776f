"""A model described by its hooks gives every metric they allow, and says what they do not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from fake_device import FakeDevice
from torch import Tensor, nn

from perfci.bench import ModelBench, Reading
from perfci.bench.parity import ParityFailed
from perfci.bench.processes.run_in_child_processes import ChildFailed
from perfci.bench.timers.timed_blocks import Timing
from perfci.model import PerfciError

Report = dict[str, Any]


class Net(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.out = nn.Linear(8, 16)
        self.factor = factor

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.embedding(tokens) * self.factor
        logits: Tensor = self.out(hidden)
        return logits


class Trained(ModelBench):
    params = {"batch": [2], "dtype": ["fp32", "bf16"]}
    tokens_per_batch = 10
    budget_s = 0.02

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return Net().to(self.device)

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.randint(16, (p["batch"], 6), generator=torch.Generator().manual_seed(i))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


class Served(ModelBench):
    params = {"tokens": [4]}
    requests = 3

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return Net().to(self.device)

    def stream(self, model: nn.Module, p: Mapping[str, Any]) -> Iterator[Tensor]:
        token = torch.zeros(1, 1, dtype=torch.long)
        for _ in range(p["tokens"]):
            token = model(token).argmax(dim=-1)
            yield token


def rows(report: Report) -> dict[str, Report]:
    return {row["name"]: row for row in report["metrics"]}


def measure(bench: type[ModelBench], group: str, *values: Any) -> dict[str, Report]:
    parameters = values or tuple(next(iter(axis)) for axis in bench.params)
    return rows(getattr(bench(), f"measure_{group}")(*parameters))


def test_asv_does_not_run_the_base_class() -> None:
    assert inspect.isabstract(ModelBench)
    assert not inspect.isabstract(Trained)


def test_reports_the_metric_groups_whose_hooks_are_missing() -> None:
    assert Trained.omitted == {
        "generation": "it defines no stream",
        "stream_counts": "it defines no stream",
        "stages": "it defines no stream",
    }
    assert Served.omitted["training"] == "it defines no batch or loader and no loss or step"
    assert not [name for name in dir(Served) if name.startswith("track_training")]


def test_measures_only_the_groups_a_class_names() -> None:
    class Only(Trained):
        groups = ("numerics",)

    assert Only.omitted == {}
    assert Only.measure_training is None  # type: ignore[attr-defined]


def test_gives_step_phases_and_rates_from_one_run() -> None:
    readings = measure(Trained, "training")

    measured = {name for name, row in readings.items() if row["status"] == "ok"}
    assert {"step_time", "cpu_step_time", "forward_time", "backward_time", "optimizer_time"} <= measured
    assert {"tokens_per_s", "flop_per_s", "data_time", "data_stall"} <= measured


def test_rates_are_informational_and_times_are_judged() -> None:
    readings = measure(Trained, "training")

    assert {name for name, row in readings.items() if row.get("clock") == "informational"} >= {
        "tokens_per_s",
        "flop_per_s",
    }
    assert readings["cpu_step_time"]["clock"] == "cpu"


def test_without_an_allocator_memory_is_absent_and_not_zero() -> None:
    readings = measure(Trained, "training")

    assert readings["peak_allocated_bytes"]["status"] == "skipped"
    assert readings["peak_allocated_bytes"]["reason"].endswith("has no caching allocator to ask")
    assert readings["step_energy"]["status"] == "skipped"


def test_tokens_per_second_are_tokens_over_the_time_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two threads compute: a step of 1 s costs 2 s of CPU time.
    timing = Timing((1.0,) * 7, (2.0,) * 7, (), 1, 3, True)
    monkeypatch.setattr("perfci.bench.metric_groups.training_step.time_blocks", lambda *_, **__: timing)

    readings = measure(Trained, "training")

    assert readings["tokens_per_s"]["samples"] == [10.0]
    assert readings["flop_per_s"]["samples"] == measure(Trained, "step_counts")["flops"]["samples"]


def test_tokens_per_batch_may_depend_on_the_parameters() -> None:
    class Counted(Trained):
        def tokens_per_batch(self, p: Mapping[str, Any]) -> int:  # type: ignore[override]
            return 5 * int(p["batch"])

    assert measure(Counted, "training")["tokens_per_s"]["status"] == "ok"


def test_agrees_with_the_counts_of_a_step_by_hand() -> None:
    readings = measure(Trained, "step_counts")

    # One linear layer: 2 * rows * in * out forward, the same for the gradients of its weight and of its
    # input.
    assert readings["flops"]["samples"] == [3 * 2 * (2 * 5) * 8 * 16]
    assert readings["parameter_bytes"]["samples"] == [4 * (16 * 8 + 8 * 16 + 16)]
    assert readings["graph_breaks"]["samples"] == [0]


def test_repeats_its_counts_and_its_loss() -> None:
    first, again = measure(Trained, "numerics"), measure(Trained, "numerics")

    assert first["loss_at_step_k"] == again["loss_at_step_k"]
    assert first["loss_at_step_k"]["clock"] == "exact"


def test_compares_the_outputs_of_a_model_with_its_reference() -> None:
    class Checked(Trained):
        reference = {"dtype": "fp32"}

    alone, compared = measure(Trained, "numerics"), measure(Checked, "numerics", 2, "bf16")

    assert alone["max_error"]["reason"] == "no reference was given"
    assert 0 < compared["max_relative_error"]["samples"][0] < 0.02


def test_streams_give_latencies_and_stages() -> None:
    latencies, stages = measure(Served, "generation"), measure(Served, "stages")

    assert [len(latencies[name]["samples"]) for name in ("ttft", "tpot", "e2el", "itl")] == [3, 3, 3, 9]
    assert stages["prefill"]["status"] == stages["decode"]["status"] == "ok"
    assert stages["postprocess"]["reason"] == "it defines no postprocess"


def test_divides_the_joules_of_a_request_by_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def joules(request: Any, **_: Any) -> Reading:
        request()
        return Reading([8.0, 10.0])

    monkeypatch.setattr("perfci.bench.metric_groups.generation_latency.joules_per_call", joules)

    assert measure(Served, "generation")["token_energy"]["samples"] == [2.0, 2.5]


def test_starts_cold_in_a_fresh_interpreter() -> None:
    readings = measure(Served, "cold_start")

    parts = [readings[name]["samples"][0] for name in ("import_time", "build_time", "first_output_time")]
    assert readings["cold_start_time"]["samples"][0] == pytest.approx(sum(parts))
    assert (
        readings["warm_start_time"]["reason"] == "nothing was compiled, so cold and warm starts do not differ"
    )


class Compiled(Served):
    def build(self, p: Mapping[str, Any]) -> Any:
        return torch.compile(Net(), backend="aot_eager")


@pytest.mark.slow
def test_starts_again_with_the_caches_of_the_first_start_where_something_was_compiled() -> None:
    readings = measure(Compiled, "cold_start")

    assert readings["warm_start_time"]["status"] == "ok"
    assert 0 < readings["compile_time"]["samples"][0] < readings["cold_start_time"]["samples"][0]


def test_reports_why_the_fresh_interpreter_crashed() -> None:
    class Inner(Served):
        """Only this function knows it: a fresh interpreter does not find it."""

    with pytest.raises(ChildFailed, match=r"^a cold start: AttributeError: .*<locals>"):
        measure(Inner, "cold_start")


def test_a_variant_that_agrees_with_its_reference_is_timed() -> None:
    class Checked(Trained):
        reference = {"dtype": "fp32"}

    assert measure(Checked, "training", 2, "bf16")["step_time"]["status"] == "ok"


def test_a_variant_that_computes_something_else_is_rejected() -> None:
    class Wrong(Trained):
        params = {"batch": [2], "fast": [False, True]}
        reference = {"fast": False}

        def build(self, p: Mapping[str, Any]) -> nn.Module:
            return Net(factor=3.0 if p["fast"] else 1.0)

    with pytest.raises(ParityFailed, match=r"^rejected: parity failed: "):
        measure(Wrong, "training", 2, True)
    with pytest.raises(ParityFailed, match=r"^rejected: parity failed: "):
        measure(Wrong, "numerics", 2, True)


def test_a_changed_hook_changes_the_version_and_a_changed_value_does_not() -> None:
    class Same(Trained):
        params = {"batch": [4], "dtype": ["fp32"]}

    class Other(Trained):
        def build(self, p: Mapping[str, Any]) -> nn.Module:
            return Net(2.0)

    def version(bench: type[ModelBench]) -> str:
        return str(bench.measure_training.pretty_source)  # type: ignore[attr-defined]

    assert version(Same) == version(Trained)
    assert version(Other) != version(Trained)


def test_reads_a_device_through_the_device_interface() -> None:
    stats = {"allocated_bytes.all.peak": 700, "active_bytes.all.peak": 800, "reserved_bytes.all.peak": 1000}
    device = FakeDevice(stats=stats)

    class OnDevice(Trained):
        target_device = device  # type: ignore[assignment]

        def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
            device.kernel(0.001)
            return super().loss(model, batch)

    readings = measure(OnDevice, "training")

    assert readings["step_time"]["clock"] == "device"
    assert "cpu_step_time" not in readings
    assert readings["peak_allocated_bytes"]["samples"] == [700]
    assert readings["fragmentation"]["samples"] == [pytest.approx(0.2)]


def bench_with(**hooks: Any) -> type[ModelBench]:
    return type("Bad", (Trained,), {"__module__": __name__, **hooks})


@pytest.mark.parametrize(
    ("hooks", "sentence"),
    [
        ({"build": lambda self, p: 3}, "build returned int; a torch module with parameters was expected"),
        (
            {"loss": lambda self, model, batch: model(batch)},
            r"loss returned a tensor of shape \(2, 6, 16\); a scalar tensor was expected",
        ),
        ({"loss": lambda self, model, batch: 0.5}, "loss returned float; a scalar tensor was expected"),
        (
            {"loss": lambda self, model, batch: model(batch).mean().detach()},
            "the loss does not depend on any parameter that requires a gradient: nothing is trained",
        ),
        (
            {"loss": lambda self, model, batch: model(batch).mean() * float("nan")},
            "the loss is nan before the first step: its timing is meaningless",
        ),
    ],
)
def test_explains_what_a_hook_returned_wrongly(hooks: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{sentence}$"):
        measure(bench_with(**hooks), "training")


def test_detects_a_loss_that_becomes_nan_in_between() -> None:
    steps = iter(range(1000))
    late = bench_with(
        loss=lambda self, model, batch: model(batch).mean() * (float("nan") if next(steps) > 5 else 1)
    )

    with pytest.raises(ValueError, match=r"^the loss is nan after \d+ steps: its timing is meaningless$"):
        measure(late, "training")


def test_a_stream_that_yields_nothing_fails() -> None:
    class Silent(Served):
        def stream(self, model: nn.Module, p: Mapping[str, Any]) -> Iterator[Tensor]:
            yield from ()

    with pytest.raises(ValueError, match=r"^the stream yielded nothing; "):
        measure(Silent, "generation")


def test_an_unknown_precision_is_rejected_with_the_valid_ones() -> None:
    class Odd(Trained):
        params = {"batch": [2], "dtype": ["fp12"]}

    with pytest.raises(PerfciError, match=r"^precision 'fp12' is unknown; known are fp32, tf32, bf16, fp16$"):
        measure(Odd, "training")


def test_a_format_the_device_only_emulates_is_skipped_with_its_reason() -> None:
    class OnOldDevice(Trained):
        target_device = FakeDevice(refused={torch.bfloat16: "this GPU has no bfloat16"})  # type: ignore[assignment]

    with pytest.raises(SkipNotImplemented, match=r"^this GPU has no bfloat16$"):
        measure(OnOldDevice, "training", 2, "bf16")


def test_only_training_and_generation_are_profiled() -> None:
    seen: list[str] = []

    def mark(phase: str) -> Any:
        seen.append(phase)
        return torch.autograd.profiler.record_function(phase)

    Trained.measure_training.build_profiled_work(Trained(), 2, "fp32")(mark)  # type: ignore[attr-defined]

    assert seen == ["optimizer", "forward", "backward", "optimizer"]
    with pytest.raises(SkipNotImplemented, match="the group numerics cannot be profiled"):
        Trained.measure_numerics.build_profiled_work(Trained(), 2, "fp32")  # type: ignore[attr-defined]
