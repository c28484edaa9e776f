"""Latency of generation, greedy and of fixed length: the first token, every further token, the whole."""

from __future__ import annotations

import torch

from perfci.bench import cpu_clock, wall_clock

from .model import GPT, Cache, decode, prefill
from .sizes import DEVICE, SIZES, TIMER, settle


class Generate:
    params = (SIZES.prompts, SIZES.requests, [SIZES.name])
    param_names = ("prompt", "requests", "model")
    number = 1
    repeat = SIZES.repeat
    rounds = 2
    warmup_time = 0
    min_run_count = 1
    timer = staticmethod(TIMER)
    model: GPT | None = None

    def setup(self, prompt: int, requests: int, model: str) -> None:
        if self.model is None:  # asv calls setup before every sample; a model is built and warmed up once
            settle()
            self.model = GPT(SIZES).to(DEVICE).eval()
            self.prompts = torch.randint(SIZES.vocab, (requests, prompt), device=DEVICE)
            for _ in range(SIZES.warmups):
                self.time_generate(prompt, requests, model)

    @torch.no_grad()
    def time_ttft(self, prompt: int, requests: int, model: str) -> None:
        """From the prompt to the first token (TTFT)."""
        prefill(self.model, self.prompts, self.cache())

    @torch.no_grad()
    def track_tpot(self, prompt: int, requests: int, model: str) -> dict[str, object]:
        """Seconds per token after the first (TPOT): (whole latency - TTFT) / (tokens - 1)."""
        clock = wall_clock if DEVICE == "cuda" else cpu_clock
        further = SIZES.new_tokens - 1
        samples = []
        for _ in range(SIZES.repeat):
            cache = self.cache()
            token = prefill(self.model, self.prompts, cache)
            start = clock()
            decode(self.model, token, cache, further)
            samples.append((clock() - start) / further)
        return {"samples": samples, "number": further}

    @torch.no_grad()
    def time_generate(self, prompt: int, requests: int, model: str) -> None:
        """From the prompt to the last token (end to end)."""
        cache = self.cache()
        token = prefill(self.model, self.prompts, cache)
        decode(self.model, token, cache, SIZES.new_tokens - 1)

    def cache(self) -> Cache:
        requests, prompt = self.prompts.shape
        return Cache(SIZES, DEVICE, batch=requests, length=prompt + SIZES.new_tokens)

    time_ttft.metric = "ttft"
    time_generate.metric = "e2el"
    track_tpot.metric = "tpot"
    track_tpot.unit = "seconds"
    track_tpot.direction = "lower"
    track_tpot.clock = "wall" if DEVICE == "cuda" else "cpu"
