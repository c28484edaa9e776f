"""A step of the author's own, gradient scalers that skip their first steps, and losses that do not repeat."""

from __future__ import annotations

import contextlib
import gc
import re
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from fake_device import FakeDevice
from torch import Tensor, nn

from perfci.bench import ModelBench
from perfci.bench.metric_groups import cold_start
from perfci.bench.metric_groups.numerics_recording import record_training_numerics
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.parity import ParityFailed
from perfci.model import PerfciError

Report = dict[str, Any]


class Net(ModelBench):
    """Adam with clipped gradients, two halves of a batch, a schedule and averaged weights, in one step."""

    params = {"dtype": ["fp32", "bf16", "fp16"]}
    reference = {"dtype": "fp32"}
    target_device = FakeDevice(kind="cpu")  # type: ignore[assignment]
    budget_s = 0.01
    clip_at = 0.5

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.randn(4, 8, generator=torch.Generator().manual_seed(i))

    def optimizer(self, model: nn.Module, p: Mapping[str, Any]) -> Any:
        adam = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return adam, torch.optim.lr_scheduler.LinearLR(adam, 0.1), torch.optim.swa_utils.AveragedModel(model)

    def step(self, model: nn.Module, batch: Tensor, optimizer: Any, p: Mapping[str, Any], scaler: Any) -> Any:
        adam, schedule, average = optimizer
        adam.zero_grad()
        for half in batch.chunk(2):
            with self.autocast(p):
                loss = (model(half) - 1).square().mean() / 2
            scaler.scale(loss).backward()
        scaler.unscale_(adam)
        nn.utils.clip_grad_norm_(model.parameters(), self.clip_at)
        scaler.step(adam)
        scaler.update()
        schedule.step()
        average.update_parameters(model)
        return loss


def rows(report: Report) -> dict[str, Report]:
    return {row["name"]: row for row in report["metrics"]}


def measure(bench: type[ModelBench], group: str, *values: Any) -> dict[str, Report]:
    return rows(getattr(bench(), f"measure_{group}")(*values))


def test_a_step_of_the_authors_own_is_timed_with_its_phases() -> None:
    readings = measure(Net, "training", "bf16")

    names = ("step_time", "forward_time", "backward_time", "optimizer_time")
    assert {readings[name]["status"] for name in names} == {"ok"}


def test_finds_the_phases_of_a_step_in_the_order_in_which_they_run() -> None:
    entered: list[str] = []
    training = TrainingLoop(Net().bind_hooks({"dtype": "fp32"}))

    @contextlib.contextmanager
    def mark(phase: str) -> Iterator[None]:
        entered.append(phase)
        yield
        entered.append(f"end of {phase}")

    training.train_on_batch(training.next_resident_batch(), mark)

    half = ["backward", "end of backward"]
    assert entered == ["forward", *half, *half, "optimizer", "end of optimizer", "end of forward"]


def test_a_cold_start_of_an_own_step_ends_with_its_first_step() -> None:
    hooks = Net().bind_hooks({"dtype": "fp32"})
    model = hooks.build_ready_model()
    before = [weight.clone() for weight in model.parameters()]

    cold_start.produce_output(hooks, model)

    assert not any(map(torch.equal, before, model.parameters()))


def test_a_step_of_the_authors_own_is_counted() -> None:
    readings = measure(Net, "step_counts", "fp32")

    forward_and_backward = 2 * 4 * (2 * 8 * 16 + 3 * 16 * 4)  # the first layer's input needs no gradient
    assert readings["flops"]["samples"] == [forward_and_backward]
    assert readings["optimizer_state_bytes"]["samples"] == [2 * 4 * (8 * 16 + 16 + 16 * 4 + 4) + 4 * 4]
    assert readings["graph_breaks"]["reason"] == "it defines no loss, which is what dynamo would read"


# What a schedule says of an update that a gradient scaler skipped.
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_step_of_the_authors_own_agrees_with_its_reference(dtype: str) -> None:
    assert measure(Net, "numerics", dtype)["loss_at_step_k"]["status"] == "ok"


def test_the_gradients_of_an_own_step_are_compared_as_its_optimizer_uses_them() -> None:
    class Unclipped(Net):
        params = {"clip": [True, False]}
        reference = {"clip": True}

        def build(self, p: Mapping[str, Any]) -> nn.Module:
            self.clip_at = 0.05 if p["clip"] else 1e9
            return super().build(p)

    with pytest.raises(ParityFailed, match=r"gradient norm at step 0 is .* against 0\.05 of the reference"):
        measure(Unclipped, "numerics", False)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "step returned NoneType; a scalar tensor was expected"),
        (torch.ones(2), "step returned a tensor of shape (2,); a scalar tensor was expected"),
    ],
)
def test_explains_what_a_step_returned_wrongly(returned: Any, message: str) -> None:
    class Wrong(Net):
        def step(self, model: nn.Module, batch: Tensor) -> Any:  # type: ignore[override]
            return returned

    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        measure(Wrong, "training", "fp32")


def test_a_step_that_asks_for_something_else_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(
        PerfciError, match=r"step asks for 'optimiser', which no step is given; did you mean 'optimizer'\?$"
    ):

        class Misspelt(Net):
            def step(self, model: nn.Module, batch: Tensor, optimiser: Any) -> Any:  # type: ignore[override]
                return model(batch).sum()


class Half(ModelBench):
    """The gradient of its loss is about 4, so that scaled by torch's first 65536 it overflows fp16."""

    params = {"dtype": ["fp32", "fp16"]}
    reference = {"dtype": "fp32"}
    target_device = FakeDevice(kind="cpu")  # type: ignore[assignment]

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return nn.Linear(8, 4)

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.randn(4, 8, generator=torch.Generator().manual_seed(i))

    def optimizer(self, model: nn.Module, p: Mapping[str, Any]) -> Any:
        return torch.optim.AdamW(model.parameters(), lr=1e-2, fused=self.is_fused)

    is_fused = False

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return model(batch).square().sum().float()  # type: ignore[no-any-return]


class HalfFused(Half):
    is_fused = True


@pytest.mark.parametrize("bench", [Half, HalfFused])
def test_fp16_is_accepted_although_its_scaler_skips_the_first_steps(bench: type[ModelBench]) -> None:
    half, full = (measure(bench, "numerics", dtype) for dtype in ("fp16", "fp32"))

    assert half["grad_norm"]["samples"][0] == pytest.approx(full["grad_norm"]["samples"][0], rel=1e-2)
    assert half["loss_at_step_k"]["samples"][0] == pytest.approx(
        full["loss_at_step_k"]["samples"][0], rel=1e-3
    )


def test_counts_an_fp16_step_that_updates_the_model() -> None:
    half, full = (measure(Half, "step_counts", dtype) for dtype in ("fp16", "fp32"))

    assert half["optimizer_state_bytes"] == full["optimizer_state_bytes"]


def test_fp16_gradients_that_overflow_at_any_scale_are_rejected() -> None:
    class Infinite(Half):
        reference = {}

        def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
            nothing = (model(batch) * 0).sum().float()
            return nothing + torch.sqrt(nothing)  # its slope there is infinite

    with pytest.raises(ParityFailed, match="the gradients overflow in fp16 even at a scale of"):
        measure(Infinite, "numerics", "fp16")


def test_models_that_were_compared_are_freed() -> None:
    built: list[weakref.ref[nn.Module]] = []

    class Watched(HalfFused):
        def build(self, p: Mapping[str, Any]) -> nn.Module:
            model = super().build(p)
            built.append(weakref.ref(model))
            return model

    gc.disable()
    try:
        record_training_numerics(Watched().bind_hooks({"dtype": "fp32"}))
        assert [model() for model in built] == [None]
    finally:
        gc.enable()


def test_a_reference_that_is_not_finite_is_named() -> None:
    class BrokenReference(Half):
        def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
            return super().loss(model, batch) / (torch.is_autocast_enabled("cpu") or torch.zeros(()))

    with pytest.raises(ParityFailed, match=r"loss of the reference at step 0 is inf$"):
        measure(BrokenReference, "numerics", "fp16")


def test_a_loss_that_does_not_repeat_is_not_called_exact() -> None:
    runs = iter(range(1, 100))

    class Unordered(Half):
        def build(self, p: Mapping[str, Any]) -> nn.Module:
            model = super().build(p)
            with torch.no_grad():
                model.weight *= 1 + 1e-6 * next(runs)  # type: ignore[operator,arg-type,misc]
            return model

    repeated, unordered = measure(Half, "numerics", "fp32"), measure(Unordered, "numerics", "fp32")

    assert repeated["loss_at_step_k"]["clock"] == "exact"
    assert unordered["loss_at_step_k"]["clock"] == "value"
    assert len(set(unordered["loss_at_step_k"]["samples"])) == 2
