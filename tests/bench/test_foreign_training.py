"""Five models of others in twenty lines each: the healthy are accepted, faults are seen where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import foreign_models
import pytest
import torch
from fake_device import FakeDevice
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from perfci.bench import ModelBench
from perfci.bench.metric_groups import data_wait
from perfci.bench.parity import ParityFailed

Parameters = Mapping[str, Any]
pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")  # torch.backends.mkldnn.flags

FORMATS = {"dtype": ["fp32", "bf16"]}


class Translation(ModelBench):
    params = {**FORMATS, "dropout": ["seeded", "unseeded"]}
    reference = {"dtype": "fp32"}

    def build(self, p: Parameters) -> nn.Module:
        model = foreign_models.Translator().to(self.device)
        if p["dropout"] == "unseeded":
            model.register_forward_pre_hook(lambda *_: torch.seed() and None)
        return model

    def batch(self, p: Parameters, i: int) -> tuple[Tensor, Tensor]:
        texts = foreign_models.random_tokens(200, 2, 4, 17, seed=i).to(self.device)
        return texts[0], texts[1]

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        source, target = batch
        return functional.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten())


class Photography(ModelBench):
    params = {**FORMATS, "detached": [False, True]}
    reference = {"dtype": "fp32", "detached": False}
    dataset: Callable[[], Any] = foreign_models.Photos

    def build(self, p: Parameters) -> nn.Module:
        return foreign_models.ResNet(detached=p["detached"]).to(self.device)

    def loader(self, p: Parameters) -> Iterable[list[Tensor]]:
        return DataLoader(self.dataset(), batch_size=4, shuffle=True)

    def optimizer(self, model: nn.Module, p: Parameters) -> Any:
        return torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Tensor:
        images, classes = batch
        return functional.cross_entropy(model(images.float() / 255), classes)


class Text(ModelBench):
    params = {**FORMATS, "upcast": [False, True]}
    reference = {"dtype": "fp32"}

    def build(self, p: Parameters) -> nn.Module:
        return foreign_models.LanguageModel(upcast=p["upcast"]).to(self.device)

    def batch(self, p: Parameters, i: int) -> Tensor:
        return foreign_models.random_tokens(300, 4, 17, seed=i).to(self.device)

    def step(self, model: nn.Module, batch: Tensor, optimizer: Any, p: Parameters) -> Tensor:
        # oneDNN has no LSTM in bf16 on CPUs without AVX-512.
        with self.autocast(p), torch.backends.mkldnn.flags(enabled=False):
            loss = foreign_models.next_token_loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss


class Points(ModelBench):
    params = {**FORMATS, "detached": [False, True]}
    reference = {"dtype": "fp32", "detached": False}

    def build(self, p: Parameters) -> nn.Module:
        return foreign_models.Gan().to(self.device)

    def batch(self, p: Parameters, i: int) -> Tensor:
        return torch.randn(32, 2, generator=torch.Generator().manual_seed(i)).to(self.device)

    def optimizer(self, model: Any, p: Parameters) -> tuple[torch.optim.Adam, torch.optim.Adam]:
        return torch.optim.Adam(model.generator.parameters()), torch.optim.Adam(model.critic.parameters())

    def step(self, model: Any, batch: Tensor, optimizer: Any, p: Parameters) -> Tensor:
        generator_optimizer, critic_optimizer = optimizer
        with self.autocast(p):
            points = model.generator(torch.randn(len(batch), 8, device=batch.device))
            critic_loss = (model.critic(points.detach()) - model.critic(batch)).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        with self.autocast(p):
            generator_loss = -model.critic(points.detach() if p["detached"] else points).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        return critic_loss + generator_loss


WIDTH = 64  # of a model whose heads are a quarter as wide: their scores are scaled by one over the root of 16


class Llama(ModelBench):
    params = {**FORMATS, "scale": [None, WIDTH**-0.5], "compile": [None, "eager"]}
    reference = {"dtype": "fp32", "scale": None, "compile": None}

    def build(self, p: Parameters) -> nn.Module:
        return foreign_models.Llama(width=WIDTH, scale=p["scale"]).to(self.device)

    def compile(self, model: nn.Module, p: Parameters) -> nn.Module:
        if p["compile"]:
            model.compile(backend=p["compile"])
        return model

    def batch(self, p: Parameters, i: int) -> Tensor:
        return foreign_models.random_tokens(256, 4, 17, seed=i).to(self.device)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        return foreign_models.next_token_loss(model, batch)


def measure(bench: type[ModelBench], group: str, **parameters: Any) -> dict[str, dict[str, Any]]:
    """Measure the cell with these parameters; the others have the first of their values, which is healthy."""
    names: tuple[str, ...] = bench.param_names
    defaults = {name: values[0] for name, values in zip(names, bench.params, strict=True)}
    p = {**defaults, **parameters}
    report = getattr(bench(), f"measure_{group}")(*(p[name] for name in names))
    return {row["name"]: row for row in report["metrics"]}


BENCHES = [Translation, Photography, Text, Points, Llama]


@pytest.mark.parametrize("bench", BENCHES)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_healthy_model_is_accepted_in_every_format(bench: type[ModelBench], dtype: str) -> None:
    loss = measure(bench, "numerics", dtype=dtype)["loss_at_step_k"]

    assert loss["status"] == "ok"
    assert loss["clock"] == "exact"


def test_a_compiled_model_is_accepted() -> None:
    assert measure(Llama, "numerics", compile="eager")["loss_at_step_k"]["clock"] == "exact"


def test_a_transformer_that_magnifies_rounding_is_accepted_in_bf16() -> None:
    """With embeddings scaled as in "Attention Is All You Need" the largest of 51,200 logits is 2.7 % away."""

    class Scaled(Translation):
        def build(self, p: Parameters) -> nn.Module:
            model = foreign_models.Translator(vocab=400, layers=3)
            with torch.no_grad():
                model.source.weight *= 8.0
                model.target.weight *= 8.0
            return model

        def batch(self, p: Parameters, i: int) -> tuple[Tensor, Tensor]:
            texts = foreign_models.random_tokens(400, 2, 4, 33, seed=i)
            return texts[0], texts[1]

    measured = measure(Scaled, "numerics", dtype="bf16")

    assert measured["max_relative_error"]["samples"][0] > 0.02
    assert measured["loss_at_step_k"]["status"] == "ok"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_attention_scaled_by_the_width_of_the_model_is_rejected(dtype: str) -> None:
    with pytest.raises(ParityFailed, match=r"(outputs|loss|gradient norm) .* the reference"):
        measure(Llama, "numerics", dtype=dtype, scale=WIDTH**-0.5)


@pytest.mark.parametrize("bench", [Photography, Points])
def test_a_detached_graph_is_rejected_by_its_gradients(bench: type[ModelBench]) -> None:
    with pytest.raises(ParityFailed, match="gradient norm at step 0 is"):
        measure(bench, "training", detached=True)


def test_an_upcast_to_fp32_is_counted_in_bytes() -> None:
    healthy, upcast = (measure(Text, "step_counts", dtype="bf16", upcast=upcast) for upcast in (False, True))

    assert upcast["upcast_bytes"]["samples"][0] > healthy["upcast_bytes"]["samples"][0]
    assert upcast["flops"] == healthy["flops"]


def test_a_lost_seed_of_dropout_is_a_loss_that_does_not_repeat() -> None:
    loss = measure(Translation, "numerics", dropout="unseeded")["loss_at_step_k"]

    assert loss["clock"] == "value"
    assert len(set(loss["samples"])) == 2


@pytest.mark.parametrize(("image_s", "low", "high"), [(0.0001, 0.0, 0.1), (0.020, 0.8, 1.0)])
def test_a_starved_loader_is_a_stall(
    monkeypatch: pytest.MonkeyPatch, image_s: float, low: float, high: float
) -> None:
    clock = FakeDevice(kind="cpu")

    class Slow(foreign_models.Photos):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            clock.work(image_s)
            return super().__getitem__(index)

    class Timed(Photography):
        dataset = Slow
        target_device = clock  # type: ignore[assignment]
        budget_s = 0.01

        def loss(self, model: nn.Module, batch: list[Tensor]) -> Tensor:
            clock.work(0.010)  # what a step takes
            return super().loss(model, batch)

    clock.install(monkeypatch, data_wait.__name__)
    (stall,) = measure(Timed, "training")["data_stall"]["samples"]

    assert low < stall < high
