"""Greedy generation of fixed length: latencies per token, KV caches, and quantised weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfci.bench import ModelBench, skip_exception
from perfci.bench.parity import ParityFailed, default_tolerance, max_relative_error

from .attention_kernels import require_attention
from .gpt_model import GPT, Architecture, ModelCache, compile_blocks, decode, most_likely_token, prefill
from .training import random_text
from .workload_sizes import DEVICE, DTYPES, FORMATS, GENERATION, SIZES, declare_cost, seed_and_pin_threads


class _Generation(ModelBench):
    """Generate ``new_tokens`` tokens from a prompt; no token ends the text, so the work is constant."""

    requests = GENERATION.requests
    groups = ("generation",)
    default_suite: Any = False

    def cost_s(self, p: Mapping[str, Any]) -> float:
        """A token of the real model takes about 4 ms, with everything computed again four times that."""
        again = 4 if p.get("cache") == "none" else 1
        return declare_cost(smoke=1, real=10 + self.requests * p["new_tokens"] * again * 0.004)

    def build(self, p: Mapping[str, Any]) -> GPT:
        seed_and_pin_threads()
        return GPT(SIZES).to(self.device).eval()

    def prompt(self, p: Mapping[str, Any]) -> Tensor:
        return random_text(SIZES, p.get("batch", 1), length=p["prompt"] - 1).to(self.device)

    def stream(self, model: GPT, p: Mapping[str, Any], prompt: Tensor) -> Iterator[Tensor]:
        if p.get("cache") == "none":
            yield from stream_without_cache(model, prompt, p["new_tokens"])
            return
        self.cache = create_cache(p, prompt.shape[0])
        token = prefill(model, prompt, self.cache)
        yield token
        for _ in range(p["new_tokens"] - 1):
            token = decode(model, token, self.cache, 1)
            yield token


class Generate(_Generation):
    """Latency by the length of the prompt and the number of prompts answered together."""

    params = {
        "prompt": SIZES.prompts,
        "new_tokens": GENERATION.new_tokens,
        "batch": SIZES.requests,
        "sizes": [SIZES.name],
    }
    sla = GENERATION.sla
    default_suite = {
        "prompt": SIZES.prompts[:1],
        "new_tokens": GENERATION.new_tokens[:1],
        "batch": SIZES.requests[:1],
    }


class GenerateTail(_Generation):
    """The slowest of a hundred requests: one process sends as many as a p99 needs, in the format that is
    served.
    """

    params = {
        "precision": ["bf16"],
        "prompt": SIZES.prompts[:1],
        "new_tokens": GENERATION.tail_tokens,
        "sizes": [SIZES.name],
    }
    requests = GENERATION.tail_requests
    sla = GENERATION.tail_sla

    def cost_s(self, p: Mapping[str, Any]) -> float:
        return super().cost_s(p) + declare_cost(smoke=2, real=0)


class GenerateFormats(_Generation):
    """Latency by number format, compiler and attention kernel."""

    params = {
        "precision": FORMATS.precisions,
        "compile": FORMATS.compile,
        "attention": FORMATS.attentions,
        "prompt": SIZES.prompts[:1],
        "new_tokens": GENERATION.new_tokens[:1],
        "sizes": [SIZES.name],
    }

    def cost_s(self, p: Mapping[str, Any]) -> float:
        return super().cost_s(p) + (declare_cost(smoke=0, real=40) if p["compile"] else 0)

    def build(self, p: Mapping[str, Any]) -> GPT:
        require_attention(p["attention"], dtype=DTYPES[p["precision"]], device=self.device)
        seed_and_pin_threads()
        return GPT(SIZES, architecture=Architecture(attention=p["attention"])).to(self.device).eval()

    def compile(self, model: GPT, p: Mapping[str, Any]) -> GPT:
        compile_blocks(model, p["compile"])
        return model


class KVCache(_Generation):
    """The cache of keys and values: none, grown by every token, room taken at once, and that room in float8.

    Without a cache the time per token grows with the position (``tpot_growth``); one that gives other
    tokens than computing everything again is rejected.
    """

    params = {
        "cache": ["none", "dynamic", "static", "fp8"],
        "prompt": [GENERATION.context],
        "new_tokens": GENERATION.new_tokens[:1],
        "sizes": [SIZES.name],
    }
    groups = ("generation", "stream_counts")

    @torch.no_grad()
    def build(self, p: Mapping[str, Any]) -> GPT:
        model = super().build(p)
        if p["cache"] != "none":
            check_cache(model, p)
        return model

    def kv_cache(self, model: GPT, p: Mapping[str, Any]) -> list[Tensor]:
        return [] if p["cache"] == "none" else self.cache.tensors()


class Quantised(_Generation):
    """Weights in fewer bits: fewer bytes to read per token, for an error that is checked before anything is
    timed.
    """

    params = {
        "scheme": ["int8", "torchao-int4"],
        "prompt": SIZES.prompts[:1],
        "new_tokens": GENERATION.new_tokens[:1],
        "sizes": [SIZES.name],
    }
    groups = ("generation", "stream_counts")

    @torch.no_grad()
    def build(self, p: Mapping[str, Any]) -> GPT:
        model = super().build(p)
        text = random_text(SIZES, 1, length=p["prompt"]).to(self.device)
        expected = model(text)
        quantise(model, p["scheme"])
        error = max_relative_error(model(text), expected)
        if error > GENERATION.quantised_error:
            raise ParityFailed(f"logits with {p['scheme']} weights are off by {error:.2g} of the largest")
        return model


class Int8Linear(nn.Module):
    """Weights of one byte with a scale per output, widened when used: shows the error, not the speed-up."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("weight", (linear.weight / scale).round().to(torch.int8))
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


def quantise(model: GPT, scheme: str) -> None:
    """Replace the linear layers of the blocks in place; the head shares its weight and stays."""
    if scheme != "int8":
        raise skip_exception(f"{scheme} needs torchao's kernels, which are no part of torch")
    for block in model.blocks:
        for module in list(block.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, Int8Linear(child))


def create_cache(p: Mapping[str, Any], batch: int) -> ModelCache:
    length = p["prompt"] + p["new_tokens"]
    return ModelCache(SIZES, DEVICE, batch=batch, length=length, kind=p.get("cache", "static"))


def stream_without_cache(model: GPT, tokens: Tensor, count: int) -> Iterator[Tensor]:
    """Compute everything again for every token."""
    for _ in range(count):
        token = most_likely_token(model, model.hidden(tokens))
        tokens = torch.cat([tokens, token], dim=1)
        yield token


def check_cache(model: GPT, p: Mapping[str, Any]) -> None:
    """Compare what is computed with the cache, a few tokens deep, with what is computed without."""
    text = random_text(SIZES, 1, length=p["prompt"] + GENERATION.checked_tokens - 1).to(DEVICE)
    cache = create_cache(p, 1)
    parts = [text[:, : p["prompt"]], *text[:, p["prompt"] :].split(1, dim=1)]
    hidden = torch.cat([model.hidden(part, cache) for part in parts], dim=1)
    error = max_relative_error(hidden, model.hidden(text))
    allowed = default_tolerance("fp8" if p["cache"] == "fp8" else "fp32").outputs
    if error > allowed:
        raise ParityFailed(
            f"with the {p['cache']} cache the model is off by {error:.2g}, allowed {allowed:.2g}"
        )
