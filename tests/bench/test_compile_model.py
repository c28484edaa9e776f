"""A model is compiled by a benchmark's parameter as a whole, or the benchmark says that it was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from asv_runner.benchmarks.mark import SkipNotImplemented
from torch import Tensor, nn
from torch._dynamo.utils import counters

from perfci.bench import ModelBench
from perfci.bench.compilers.compile_model import compile_model, missing_compiler_as_skip
from perfci.model import PerfciError


@pytest.fixture(autouse=True)
def without_inductor(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dynamo reads the code; what it read runs as it is."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    counters.clear()


class Half(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / 2


@pytest.mark.parametrize(
    "model",
    [nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.Sequential(Half(), Half(), nn.Linear(4, 4)), Half()],
    ids=["of torch's parts", "of one's own parts", "one's own"],
)
def test_compiles_one_graph_of_the_whole_model(model: nn.Module) -> None:
    compiled = compile_model(model, True)

    expected = model._call_impl(torch.ones(2, 4))
    assert torch.equal(compiled(torch.ones(2, 4)), expected)
    assert counters["stats"]["unique_graphs"] == 1


class Answering(ModelBench):
    """Logits of 8 tokens for each token."""

    params = {"compile": [True], "call": ["forward", "method"]}
    requests, budget_s = 1, 0.05

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return torch.arange(8)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(batch), batch)

    def stream(self, model: nn.Module, p: Mapping[str, Any]) -> Iterator[Tensor]:
        call = model if p["call"] == "forward" else model.forward
        yield call(torch.arange(1)).argmax(dim=-1)


@pytest.mark.parametrize("group", ["training", "generation"])
def test_measures_a_compiled_model(group: str) -> None:
    getattr(Answering(), f"measure_{group}")(True, "forward")

    assert counters["stats"]["unique_graphs"] > 0


def test_rejects_a_compiled_cell_that_compiled_nothing() -> None:
    with pytest.raises(PerfciError, match=r"^compile True compiled nothing: calls of the model are compiled"):
        Answering().measure_generation(True, "method")  # type: ignore[attr-defined]


def test_skips_where_inductor_has_no_compiler() -> None:
    error = "InvalidCxxCompiler: No working C++ compiler found in (None, 'g++')\n\nSet TORCHDYNAMO_VERBOSE=1"
    with (
        pytest.raises(SkipNotImplemented, match=r"^inductor has no compiler here: .*\(None, 'g\+\+'\)$"),
        missing_compiler_as_skip(),
    ):
        raise RuntimeError(error)
