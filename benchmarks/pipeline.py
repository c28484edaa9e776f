"""A pipeline from a file on disk to text: stages, cold start, and requests that arrive at a rate."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from perfci.bench import Bench, Measurement, ModelBench, metrics
from perfci.bench.streams.serving import SERVING_METRICS, measure_serving

from .data import forget_pages
from .gpt_model import GPT, ModelCache, decode, prefill
from .training import random_text
from .workload_sizes import DEVICE, PIPELINE, SIZES, seed_and_pin_threads


class Stages(ModelBench):
    """Loading weights from disk or page cache, the first call, then prefill, decode and post-processing."""

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
        return model.to(self.device).eval()

    def stream(self, model: GPT, p: Mapping[str, Any]) -> Iterator[Tensor]:
        return stream_answer(model)

    def postprocess(self, model: GPT, out: list[Tensor]) -> str:
        return " ".join(f"w{token}" for token in torch.cat(out, dim=1).flatten().tolist())


class ColdStart(ModelBench):
    """A fresh interpreter until its first token: imports, the model, the first call."""

    params = {"sizes": [SIZES.name]}
    groups = ("cold_start",)

    def build(self, p: Mapping[str, Any]) -> GPT:
        return GPT(SIZES).to(self.device).eval()

    def stream(self, model: GPT, p: Mapping[str, Any]) -> Iterator[Tensor]:
        return stream_answer(model)


class Serving(Bench):
    """Requests that arrive at random at a rate, served one by one, waiting included: as a user sees it."""

    params = (PIPELINE.rates, [SIZES.name])
    param_names = ("rate", "sizes")

    @metrics(*SERVING_METRICS)
    @torch.no_grad()
    def measure_serving(self, rate: float, sizes: str) -> Measurement:
        seed_and_pin_threads()
        model = GPT(SIZES).to(DEVICE).eval()
        return measure_serving(
            lambda: stream_answer(model), rate=rate, requests=PIPELINE.served_requests, sla=PIPELINE.sla
        )


def stream_answer(model: GPT) -> Iterator[Tensor]:
    prompt = random_text(SIZES, 1, length=SIZES.prompts[0] - 1).to(DEVICE)
    cache = ModelCache(SIZES, DEVICE, batch=1, length=SIZES.prompts[0] + PIPELINE.new_tokens)
    token = prefill(model, prompt, cache)
    yield token
    for _ in range(PIPELINE.new_tokens - 1):
        token = decode(model, token, cache, 1)
        yield token
