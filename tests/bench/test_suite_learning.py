"""Suites that train: variants are compared by what they learn, and one that learns worse is rejected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented

from perfci.bench.parity import ParityFailed

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def suites_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def readings(report: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["samples"][0] for row in report["metrics"] if row["status"] == "ok"}


def test_an_architecture_is_judged_by_its_validation_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import architectures

    swiglu = architectures.variant_architecture("swiglu", architectures.LEARNING.model)
    losses = {architectures.BASELINE: 2.0, swiglu: 1.9}
    monkeypatch.setattr(architectures, "learn_topics", lambda kind, seed: losses.get(kind, 2.2))
    suite = architectures.ValidationLoss()

    rows = readings(suite.measure_validation_loss("swiglu", "smoke"))

    assert (rows["validation_loss"], rows["baseline_loss"], rows["loss_ratio"]) == (1.9, 2.0, 0.95)
    with pytest.raises(ParityFailed, match=r"multi-query learns worse .* 1.100 times that, allowed are 1.05"):
        suite.measure_validation_loss("multi-query", "smoke")


def test_every_variant_differs_from_the_baseline_in_both_models() -> None:
    from benchmarks import architectures

    for sizes in (architectures.SIZES, architectures.LEARNING.model):
        built = [architectures.variant_architecture(name, sizes) for name in architectures.VARIANTS]
        assert len(set(built)) == len(architectures.VARIANTS)
        assert all(architecture.kv_heads != sizes.heads for architecture in built)


def test_a_mask_that_hides_more_learns_less(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import architectures
    from benchmarks.gpt_model import Architecture

    dense, narrow = (
        architectures.learn_topics(architectures.BASELINE, seed=0),
        architectures.learn_topics(Architecture(attention="blocks-90"), seed=0),
    )

    assert narrow > dense + 0.1


def test_the_same_seed_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import architectures

    short = replace(architectures.LEARNING, validated_steps=3)
    monkeypatch.setattr(architectures, "LEARNING", short)

    first, second = (architectures.learn_topics(architectures.BASELINE, seed=1) for _ in range(2))

    assert first == second


@pytest.mark.skipif(torch.cuda.device_count() > 0, reason="a GPU has kernels that a CPU lacks")
def test_a_kernel_that_torch_lacks_here_is_skipped_in_its_words() -> None:
    from benchmarks.attention_kernels import require_attention

    with pytest.raises(SkipNotImplemented, match="torch refuses efficient attention here: No viable backend"):
        require_attention("efficient", dtype=torch.float32, device="cpu")


def test_float8_products_are_as_far_off_as_their_format_rounds() -> None:
    from benchmarks.float8_training import BACKWARD, FORWARD, multiply_in_float8

    torch.manual_seed(0)
    left, right = torch.randn(32, 64), torch.randn(64, 16)

    for dtype, steps in ((FORWARD, 2**-4), (BACKWARD, 2**-3)):
        product = multiply_in_float8(left, right, dtype).float()
        error = (product - left @ right).norm() / (left @ right).norm()
        assert 0 < float(error) < steps


def test_a_float8_layer_has_gradients_close_to_those_of_the_layer_it_replaces() -> None:
    from benchmarks.float8_training import Float8Linear

    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 32)
    x = torch.randn(8, 64, requires_grad=True)
    target = torch.randn(8, 32)
    (linear(x) * target).sum().backward()
    expected = linear.weight.grad.clone(), linear.bias.grad.clone(), x.grad.clone()
    linear.zero_grad(), x.grad.zero_()

    (Float8Linear(linear)(x) * target).sum().backward()

    for gradient, wanted in zip((linear.weight.grad, linear.bias.grad, x.grad), expected, strict=True):
        assert float((gradient - wanted).norm() / wanted.norm()) < 0.1


def test_a_float8_step_that_learns_worse_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import float8_training

    losses = {"float8": 2.1, "bf16": 2.0}
    monkeypatch.setattr(float8_training, "loss_after_steps", lambda products, steps: losses[products])

    with pytest.raises(ParityFailed, match=r"the loss in float8 is 1.050 times that in bf16"):
        float8_training.Float8Step().measure_float8_step("float8", 20, "smoke")


def test_an_epoch_is_projected_from_steps_with_their_batches() -> None:
    from benchmarks.ladder import LADDER, SIZES, Ladder

    rows = {
        row["name"]: row["samples"]
        for row in Ladder().measure_epoch("fp32", "automatic", "none", "smoke")["metrics"]
    }

    steps = LADDER.epoch_tokens / (SIZES.batches[0] * SIZES.length)
    assert rows["projected_epoch_time"] == pytest.approx([steps * s for s in rows["loaded_step_time"]])
