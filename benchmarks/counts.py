"""Exact counts of a training step and of a request, which need no GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from perfci.bench import ModelBench

from .gpt_model import GPT, ModelCache, decode, prefill
from .training import next_token_loss, random_text
from .workload_sizes import GENERATION, SIZES, declare_cost


class Counts(ModelBench):
    """FLOPs, operators, synchronisations, copies, graph breaks and peak bytes of a GPT, on any CPU."""

    cost_s = declare_cost(smoke=3.8, real=10)
    default_suite = {"checkpointing": ["none"]}
    params = {"checkpointing": ["none", "full"], "sizes": [SIZES.name]}
    groups = ("step_counts", "stream_counts")

    def build(self, p: Mapping[str, Any]) -> GPT:
        return GPT(SIZES, checkpointing=p["checkpointing"]).to(self.device)

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return random_text(SIZES, SIZES.batches[0], seed=i).to(self.device)

    def loss(self, model: GPT, batch: Tensor) -> Tensor:
        return next_token_loss(model, batch)

    def stream(self, model: GPT, p: Mapping[str, Any]) -> Iterator[Tensor]:
        self.cache = ModelCache(
            SIZES, self.device, batch=1, length=SIZES.prompts[0] + GENERATION.new_tokens[0]
        )
        prompt = random_text(SIZES, 1, length=SIZES.prompts[0] - 1).to(self.device)
        token = prefill(model, prompt, self.cache)
        yield token
        for _ in range(GENERATION.new_tokens[0] - 1):
            token = decode(model, token, self.cache, 1)
            yield token

    def kv_cache(self, model: GPT, p: Mapping[str, Any]) -> list[Tensor]:
        return self.cache.tensors()
