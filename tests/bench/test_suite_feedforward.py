"""The feed-forward and loss suites compare what is equal but for what they vary."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from benchmarks import feedforward, losses
from benchmarks.feedforward import FeedForward
from benchmarks.losses import LossOverK
from perfci.bench.parity import ParityFailed

KERNELS = dataclasses.replace(feedforward.KERNELS, timing={"warmup_s": 0.01, "budget_s": 0.02})


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "KERNELS", KERNELS)
    monkeypatch.setattr(losses, "KERNELS", KERNELS)


@pytest.mark.parametrize("kind", ["gelu", "swiglu-equal-expansion", "swiglu-equal-parameters"])
def test_a_pass_takes_two_operations_per_token_and_parameter(kind: str) -> None:
    rows = measured(FeedForward(), "feedforward", kind, 4, "fp32", "smoke")

    parameters = rows["parameter_bytes"]["samples"][0] / 4
    assert rows["flops"]["samples"] == [2 * KERNELS.tokens * parameters]
    assert {"forward_time", "backward_time", "flop_rate"} < {
        name for name in rows if rows[name]["status"] == "ok"
    }


@pytest.mark.parametrize("expansion", [3, 4])
def test_swiglu_has_as_many_parameters_as_gelu_or_half_as_many_more(expansion: int) -> None:
    gelu, wide, equal = (
        sum(weight.numel() for weight in feedforward.build_feedforward(kind, 192, expansion).parameters())
        for kind in ("gelu", "swiglu-equal-expansion", "swiglu-equal-parameters")
    )

    assert wide == 1.5 * gelu
    assert equal == gelu


def test_a_looped_loss_shows_in_the_count_of_operators() -> None:
    terms = KERNELS.losses
    looped = measured(LossOverK(), "loss", "looped", terms, "fp32", "smoke")
    batched = measured(LossOverK(), "loss", "batched", terms, "fp32", "smoke")

    assert looped["operators"]["samples"][0] > batched["operators"]["samples"][0] + 2 * terms
    assert looped["loss_time"]["samples"][0] > 0


def test_a_different_loss_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        losses, "batched_loss", lambda logits, targets: losses.looped_loss(logits, targets) * 1.01
    )

    with pytest.raises(ParityFailed, match="rejected"):
        LossOverK().measure_loss("batched", KERNELS.losses, "fp32", "smoke")


def test_both_forms_of_the_loss_have_the_same_gradient() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(4, 6, 10, requires_grad=True), torch.randint(10, (4, 6))

    gradients = [torch.autograd.grad(form(logits, targets), logits)[0] for form in losses.LOSSES.values()]

    torch.testing.assert_close(*gradients)


def measured(bench: Any, name: str, *parameters: object) -> dict[str, Any]:
    report = getattr(bench, f"measure_{name}")(*parameters)
    return {row["name"]: row for row in report["metrics"]}
