"""A pipeline from a file on disk to text: stages, cold start, and requests that arrive at a rate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from perfci.bench import Bench, Measurement, ModelBench, metrics
from perfci.bench.streams.serving import SERVING_METRICS, measure_serving, poisson_arrivals

from .data import forget_pages
from .gpt_model import GPT, ModelCache, decode, prefill
from .training import random_text
from .workload_sizes import DEVICE, PIPELINE, SIZES, declare_cost, seed_and_pin_threads


class Stages(ModelBench):
    """Loading weights from disk or page cache, making the model ready, the first call, then prefill, decode
    and post-processing.
    """

    cost_s = declare_cost(smoke=0.3, real=20)
    default_suite = {"disk": ["warm"]}
    params = {"disk": ["cold", "warm"], "sizes": [SIZES.name]}
    groups = ("stages",)
    requests = PIPELINE.requests
    file = Path("weights.pt")  # in the working directory, which is the process's own

    def setup(self, disk: str, sizes: str) -> None:
        seed_and_pin_threads()
        torch.save(GPT(SIZES).state_dict(), self.file)
        if disk == "cold":
            descriptor = os.open(self.file, os.O_RDWR)
            os.fsync(descriptor)
            forget_pages(descriptor, self.file.stat().st_size)
            os.close(descriptor)

    def build(self, p: Mapping[str, Any]) -> GPT:
        with torch.device("meta"):
            model = GPT(SIZES)
        model.load_state_dict(torch.load(self.file), assign=True)
        model.tie_head()
        return model.to(self.device).eval()

    def init(self, model: GPT, p: Mapping[str, Any]) -> None:
        """Take the room for keys and values, as a server does once."""
        self.cache = create_cache()

    def prompt(self, p: Mapping[str, Any]) -> Tensor:
        return random_prompt()

    def stream(self, model: GPT, p: Mapping[str, Any], prompt: Tensor) -> Iterator[Tensor]:
        return stream_answer(model, prompt, self.cache)

    def postprocess(self, model: GPT, out: list[Tensor]) -> str:
        return " ".join(f"w{token}" for token in torch.cat(out, dim=1).flatten().tolist())


class ColdStart(ModelBench):
    """A fresh interpreter until its first token: imports, the model, the first call."""

    cost_s = declare_cost(smoke=2.6, real=30)
    default_suite = False
    params = {"sizes": [SIZES.name]}
    groups = ("cold_start",)

    def build(self, p: Mapping[str, Any]) -> GPT:
        return GPT(SIZES).to(self.device).eval()

    def stream(self, model: GPT, p: Mapping[str, Any]) -> Iterator[Tensor]:
        return stream_answer(model, random_prompt(), create_cache())


def plan_serving_seconds(rates: Sequence[float], requests: int) -> float:
    """Seconds until all requests of the slowest rate were served, if they take twice as long as they come."""
    return 60 + 2 * max(poisson_arrivals(rate, requests)[-1] for rate in rates)


class Serving(Bench):
    """Requests that arrive at random at a rate, served one by one, waiting included: as a user sees it."""

    params = (PIPELINE.rates, [SIZES.name])
    param_names = ("rate", "sizes")
    timeout = plan_serving_seconds(PIPELINE.rates, PIPELINE.served_requests)
    default_suite = False

    def cost_s(self, p: Mapping[str, Any]) -> float:
        return declare_cost(smoke=5.4, real=PIPELINE.served_requests / p["rate"])

    @metrics(*SERVING_METRICS)
    @torch.no_grad()
    def measure_serving(self, rate: float, sizes: str) -> Measurement:
        seed_and_pin_threads()
        model, prompt, cache = GPT(SIZES).to(DEVICE).eval(), random_prompt(), create_cache()
        return measure_serving(
            lambda: stream_answer(model, prompt, cache),
            rate=rate,
            requests=PIPELINE.served_requests,
            sla=PIPELINE.sla,
        )


def stream_answer(model: GPT, prompt: Tensor, cache: ModelCache) -> Iterator[Tensor]:
    cache.length = 0
    token = prefill(model, prompt, cache)
    yield token
    for _ in range(PIPELINE.new_tokens - 1):
        token = decode(model, token, cache, 1)
        yield token


def random_prompt() -> Tensor:
    return random_text(SIZES, 1, length=SIZES.prompts[0] - 1).to(DEVICE)


def create_cache() -> ModelCache:
    return ModelCache(SIZES, DEVICE, batch=1, length=SIZES.prompts[0] + PIPELINE.new_tokens)
