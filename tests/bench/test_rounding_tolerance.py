"""A model that magnifies rounding is allowed what rounding does to it, and others no more than before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from perfci.bench import ModelBench
from perfci.bench.metric_groups.numerics_recording import record_training_numerics
from perfci.bench.metric_groups.rounding_tolerance import round_weights, widen_tolerance_for_rounding
from perfci.bench.parity import ParityFailed, Tolerance, default_tolerance


@pytest.mark.parametrize(("bits", "dtype"), [(8, torch.bfloat16), (11, torch.float16)])
def test_rounds_weights_as_torch_does(bits: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 64)
    nn.init.uniform_(layer.weight, 0.5, 3.0)  # above what fp16 keeps with fewer bits
    expected = layer.weight.detach().to(dtype).float()

    round_weights(layer, bits)

    assert torch.equal(layer.weight, expected)


class Difference(nn.Module):
    """The difference of two nearly equal layers: rounding is a large part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(16, 16, bias=False) for _ in range(2))
        with torch.no_grad():
            self.second.weight.copy_(self.first.weight + 0.003 * self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) - self.second(x)  # type: ignore[no-any-return]


class Net(ModelBench):
    params = {"dtype": ["fp32", "bf16"], "model": [nn.Linear, Difference]}
    reference = {"dtype": "fp32"}

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        model: nn.Module = Difference() if p["model"] is Difference else nn.Linear(16, 16)
        return model

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.randn(8, 16, generator=torch.Generator().manual_seed(i))

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return (model(batch) - 1).square().mean()  # type: ignore[no-any-return]


def widened_tolerance(model: Any) -> Tolerance:
    reference = Net().bind_hooks({"dtype": "fp32", "model": model})
    recorded = record_training_numerics(reference)
    return widen_tolerance_for_rounding(default_tolerance("bf16"), reference, recorded, "bf16")


def test_a_model_that_magnifies_rounding_is_accepted() -> None:
    report = Net().measure_numerics("bf16", Difference)  # type: ignore[attr-defined]

    readings = {row["name"]: row for row in report["metrics"]}
    assert readings["max_relative_error"]["samples"][0] > default_tolerance("bf16").outputs
    assert widened_tolerance(Difference).outputs > readings["max_relative_error"]["samples"][0]


def test_another_model_is_allowed_no_more_than_its_format_is() -> None:
    widened, table = widened_tolerance(nn.Linear), default_tolerance("bf16")

    assert (widened.outputs, widened.loss) == (table.outputs, (table.loss,) * 3)


def test_the_authors_own_tolerance_is_never_widened() -> None:
    class Strict(Net):
        tolerance = default_tolerance("bf16")

    with pytest.raises(ParityFailed, match="outputs are up to"):
        Strict().measure_numerics("bf16", Difference)  # type: ignore[attr-defined]
