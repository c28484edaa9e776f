"""Dropout masks that depend on the number format, as on a GPU, are no reason to reject; other dropout is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from fake_device import FakeDevice
from torch import Tensor, nn

from perfci.bench import ModelBench
from perfci.bench.metric_groups.disable_dropout import disable_dropout, dropout_probabilities
from perfci.bench.parity import ParityFailed


class VectorisedDropout(nn.Dropout):
    """Takes its random numbers in another order under autocast, as vectors of eight do instead of four."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            torch.rand(1)
        return super().forward(x)


class Net(ModelBench):
    params = {"dtype": ["fp32", "bf16"], "dropout": [0.1, 0.3], "gain": [1.0, 1.5]}
    reference = {"dtype": "fp32", "dropout": 0.1, "gain": 1.0}
    target_device = FakeDevice()  # type: ignore[assignment]

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        self.gain = p["gain"]
        return nn.Sequential(nn.Linear(16, 64), VectorisedDropout(p["dropout"]), nn.Linear(64, 4))

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.randn(8, 16, generator=torch.Generator().manual_seed(i))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return (self.gain * model(batch) - 1).square().mean()  # type: ignore[no-any-return]


def measure(bench: type[ModelBench], *values: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in bench().measure_numerics(*values)["metrics"]}  # type: ignore[attr-defined]


def test_masks_of_another_format_are_no_other_computation_on_a_gpu() -> None:
    measured = measure(Net, "bf16", 0.1, 1.0)

    assert measured["loss_at_step_k"]["clock"] == "exact"
    assert measured["max_relative_error"]["samples"][0] < 0.02


def test_a_cpu_draws_the_same_masks_in_every_format() -> None:
    class OnCpu(Net):
        target_device = FakeDevice(kind="cpu")  # type: ignore[assignment]

    with pytest.raises(ParityFailed):
        measure(OnCpu, "bf16", 0.1, 1.0)


@pytest.mark.parametrize(("dropout", "gain"), [(0.3, 1.0), (0.1, 1.5)])
def test_another_probability_or_computation_is_rejected(dropout: float, gain: float) -> None:
    with pytest.raises(ParityFailed):
        measure(Net, "bf16", dropout, gain)


def test_finds_dropout_of_attention_and_recurrent_layers() -> None:
    attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    model = nn.Sequential(attention, nn.LSTM(8, 8, num_layers=2, dropout=0.3), nn.LayerNorm(8))

    probabilities = dropout_probabilities(model)
    disable_dropout(model)

    assert sorted(probabilities) == [0.2, 0.2, 0.2, 0.2, 0.3]
    assert dropout_probabilities(model) == ()
