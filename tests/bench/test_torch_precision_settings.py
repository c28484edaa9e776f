"""What products of fp32 tensors are under each number format: in backward passes, in cuDNN, afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from fake_device import FakeDevice
from torch import Tensor, nn

from perfci.bench import ModelBench
from perfci.bench.devices.torch_precision_settings import Float32Switches, float32_precision

GPU = FakeDevice()


@pytest.fixture(autouse=True)
def restored_switches() -> Iterator[None]:
    before = Float32Switches.read()
    yield
    before.apply()


def read_switches() -> tuple[str, str, str]:
    """Of products, convolutions and recurrent layers; older switches that contradict them raise here."""
    assert torch.backends.cuda.matmul.allow_tf32 == (torch.get_float32_matmul_precision() != "highest")
    assert torch.backends.cudnn.allow_tf32 in (True, False)
    cudnn: Any = torch.backends.cudnn
    matmul: Any = torch.backends.cuda.matmul
    return matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision


def test_fp32_switches_off_the_tf32_of_cudnn_too() -> None:
    torch.backends.cudnn.allow_tf32 = True

    with float32_precision("fp32", GPU):
        assert read_switches() == ("ieee", "ieee", "ieee")


def test_tf32_is_one_for_newer_and_older_switches() -> None:
    torch.backends.cudnn.allow_tf32 = False

    with float32_precision("tf32", GPU):
        assert read_switches() == ("tf32", "tf32", "tf32")


def test_bf16_leaves_products_of_fp32_tensors_as_they_are() -> None:
    torch.set_float32_matmul_precision("high")

    with float32_precision("bf16", GPU):
        assert read_switches()[0] == "tf32"


@pytest.mark.parametrize("name", ["fp32", "tf32"])
def test_everything_is_restored(name: str) -> None:
    torch.set_float32_matmul_precision("medium")
    torch.backends.cudnn.allow_tf32 = False
    before = Float32Switches.read()

    with pytest.raises(KeyError), float32_precision(name, GPU):
        raise KeyError

    assert Float32Switches.read() == before
    assert torch.get_float32_matmul_precision() == "medium"


def test_switches_that_contradict_each_other_are_restored() -> None:
    matmul: Any = torch.backends.cuda.matmul
    matmul.fp32_precision = "tf32"  # torch's older switch still says the contrary, and raises when it is read

    with float32_precision("fp32", GPU):
        assert read_switches()[0] == "ieee"

    assert matmul.fp32_precision == "tf32"


def test_a_machine_without_tf32_skips_the_cell() -> None:
    cpu = FakeDevice(kind="cpu")

    with pytest.raises(SkipNotImplemented, match="tf32 is a mode of NVIDIA"), float32_precision("tf32", cpu):
        pass


seen: dict[str, list[str]] = {}


class Recorded(torch.autograd.Function):
    """The identity, which writes down what a product would be in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        seen.setdefault("forward", []).append(read_switches()[0])
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        seen.setdefault("backward", []).append(read_switches()[0])
        return gradients[0]


class Net(ModelBench):
    params = {"dtype": ["fp32", "tf32"]}
    groups = ("numerics",)
    target_device = GPU  # type: ignore[assignment]

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return nn.Linear(4, 4)

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.ones(2, 4)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return Recorded.apply(model(batch)).square().mean()  # type: ignore[no-any-return,no-untyped-call]


class NamesNoFormat(Net):
    params = {}


@pytest.mark.parametrize(("dtype", "expected"), [("fp32", {"ieee"}), ("tf32", {"tf32"})])
def test_a_step_computes_forward_and_backward_in_one_format(dtype: str, expected: set[str]) -> None:
    seen.clear()

    Net().measure_numerics(dtype)  # type: ignore[attr-defined]

    assert set(seen["forward"]) == set(seen["backward"]) == expected


def test_a_benchmark_that_names_no_format_keeps_the_choice_of_its_author() -> None:
    seen.clear()
    torch.set_float32_matmul_precision("high")

    NamesNoFormat().measure_numerics()  # type: ignore[attr-defined]

    assert set(seen["forward"]) == set(seen["backward"]) == {"tf32"}
