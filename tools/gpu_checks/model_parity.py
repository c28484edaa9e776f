"""Checks of parity: healthy models in fp16 and bf16 pass, a wrong one does not, and losses repeat."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.gpt_model import GPT, ModelCache, decode, prefill
from benchmarks.workload_sizes import SIZES
from perfci.bench import ModelBench
from perfci.bench.metric_groups.training_numerics import require_parity
from perfci.bench.parity import ParityFailed
from tools.gpu_checks.check_definition import CheckGroup, CheckResult, GpuCheck
from tools.gpu_checks.training_steps import make_step

MODELS_FILE = Path(__file__).parents[2] / "tests" / "bench" / "foreign_models.py"
FORMATS = ("fp16", "bf16")
BATCH, LENGTH = 8, 64
PARITY_STEPS = 5

Parameters = Mapping[str, Any]


def load_foreign_models() -> Any:
    """The models of the tests, which their authors wrote without a thought of perfci."""
    spec = importlib.util.spec_from_file_location("foreign_models", MODELS_FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class VisionTransformer(nn.Module):  # type: ignore[misc]
    """Patches of an image through torch's own encoder."""

    def __init__(self, width: int = 192, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.positions = nn.Parameter(torch.randn(1, 64, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, 32, 32) -> (batch, classes)"""
        tokens = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.encoder(tokens).mean(dim=1))


class ParityBench(ModelBench):
    """A model of a name in a number format, and in fp32 as its reference."""

    params = {"dtype": ["fp32", *FORMATS], "model": ["gpt2"]}
    groups = ("numerics",)
    reference = {"dtype": "fp32", "model": "gpt2"}
    steps = PARITY_STEPS

    def build(self, p: Parameters) -> nn.Module:
        return build_model(p["model"]).to(self.device)

    def batch(self, p: Parameters, i: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(i)
        if p["model"] in ("resnet", "vit"):
            images = torch.rand(BATCH, 3, 32, 32, generator=generator)
            return images.to(self.device), torch.arange(BATCH, device=self.device)
        return (torch.randint(200, (BATCH, LENGTH + 1), generator=generator).to(self.device),)

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        if len(batch) == 2:
            return functional.cross_entropy(model(batch[0]), batch[1])
        read, expected = batch[0][:, :-1], batch[0][:, 1:]
        logits = model(read, read) if hasattr(model, "transformer") else model(read)
        return functional.cross_entropy(logits.flatten(0, 1), expected.flatten())


def build_model(name: str) -> nn.Module:
    foreign = load_foreign_models()
    models = {
        "gpt2": lambda: GPT(SIZES),
        "resnet": foreign.ResNet,
        "vit": VisionTransformer,
        "nn.Transformer": foreign.Translator,
        "llama": foreign.Llama,
        "wrong-scale": lambda: foreign.Llama(scale=0.5),
    }
    built: nn.Module = models[name]()
    return built


def find_parity_fault(model: str, dtype: str, trusted_model: str | None = None) -> str:
    """What parity has against a model in a format, or nothing."""

    class Bench(ParityBench):
        params = {"dtype": [dtype], "model": [model]}
        reference = {"dtype": "fp32", "model": trusted_model or model}

    bench = Bench()
    try:
        require_parity(bench.bind_hooks({"dtype": dtype, "model": model}))
    except ParityFailed as error:
        return str(error)
    return ""


def check_healthy_models() -> CheckResult:
    """Each of the five in fp16 and bf16 against itself in fp32."""
    names = ("gpt2", "resnet", "vit", "nn.Transformer", "llama")
    faults = {f"{name} {dtype}": find_parity_fault(name, dtype) for name in names for dtype in FORMATS}
    rejected = [f"{name}: {fault}" for name, fault in faults.items() if fault]
    return CheckResult(f"{len(faults) - len(rejected)} of {len(faults)} accepted; {rejected}", not rejected)


def check_wrong_scale() -> CheckResult:
    """A softmax scale of 0.5 where a head of 16 has 0.25."""
    faults = [find_parity_fault("wrong-scale", dtype, trusted_model="llama") for dtype in ("fp32", *FORMATS)]
    return CheckResult(f"rejected in {sum(map(bool, faults))} of {len(faults)} formats", all(faults))


def check_loss_repeats() -> CheckResult:
    """Losses of five steps from one seed, twice: equal bits, or the metric may not be exact."""
    runs = [record_losses() for _ in range(2)]
    equal = sum(ours == theirs for ours, theirs in zip(*runs, strict=True))
    return CheckResult(f"{equal} of {len(runs[0])} losses have equal bits", equal == len(runs[0]))


def record_losses() -> list[float]:
    setup = make_step()
    losses = []
    for _ in range(PARITY_STEPS):
        setup.step()
        losses.append(float(setup.loss(setup.batches[0]).detach()))
    return losses


def check_cached_tokens() -> CheckResult:
    """Greedy tokens with the cache and without, in fp32."""
    torch.manual_seed(0)
    device = ParityBench().device
    model = GPT(SIZES).to(device).eval()
    prompt = torch.randint(SIZES.vocab, (2, 64), device=device)
    with torch.no_grad():
        cache = ModelCache(SIZES, device, batch=2, length=96)
        first = prefill(model, prompt, cache)
        cached = torch.cat([first, decode(model, first, cache, 15)], dim=1)
        tokens = prompt
        for _ in range(16):
            tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(dim=-1, keepdim=True)], dim=1)
    equal = int((cached == tokens[:, 64:]).sum())
    return CheckResult(f"{equal} of {cached.numel()} tokens equal", equal == cached.numel())


MODEL_CHECKS = CheckGroup(
    "models",
    60,
    [
        GpuCheck(
            "GPT-2, ResNet, ViT, nn.Transformer and a Llama block in fp16 and bf16",
            "all accepted",
            "the same model in fp32",
            check_healthy_models,
        ),
        GpuCheck("a wrong softmax scale", "rejected in every format", "planted", check_wrong_scale),
        GpuCheck(
            "losses of the same seed, twice",
            "equal bits, or the metric is not exact",
            "the same five steps again",
            check_loss_repeats,
        ),
        GpuCheck(
            "tokens with the KV cache",
            "all equal",
            "the whole text read again for every token",
            check_cached_tokens,
        ),
    ],
)
