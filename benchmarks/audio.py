"""Speech from a small codec-like model: a token at a time, decoded into sound chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from perfci.bench import ModelBench

from .gpt_model import GPT, Cache, decode, prefill
from .training import text_of
from .workload_sizes import AUDIO, settle

RATE = 24_000  # samples of sound per second
SAMPLES_PER_TOKEN = 320 * 2  # what the decoder's two upsamplings make of one token: 37.5 tokens are one second


class Voice(nn.Module):
    """A language model of audio tokens, and the decoder that turns a chunk of them into a wave."""

    def __init__(self) -> None:
        super().__init__()
        width = AUDIO.model.width
        self.speaker = GPT(AUDIO.model)
        self.embedding = nn.Embedding(AUDIO.model.vocab, width)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(width, width // 2, 64, stride=32, padding=16),
            nn.GELU(),
            nn.ConvTranspose1d(width // 2, 1, 40, stride=20, padding=10),
            nn.Tanh(),
        )

    def sound(self, tokens: Tensor) -> Tensor:
        """(1, tokens) -> (samples,)"""
        return self.decoder(self.embedding(tokens).transpose(1, 2)).flatten()


class Speech(ModelBench):
    """Time to the first playable chunk (``ttfb``) and compute per second of sound (``rtf``: below 1 plays live)."""

    params = {"chunk": AUDIO.chunks, "text": AUDIO.texts, "sizes": [AUDIO.model.name]}
    groups = ("generation",)
    requests = AUDIO.requests

    def build(self, p: Mapping[str, Any]) -> Voice:
        settle()
        return Voice().to(self.device).eval()

    def stream(self, model: Voice, p: Mapping[str, Any]) -> Iterator[Tensor]:
        text = text_of(AUDIO.model, 1, length=p["text"] - 1).to(self.device)
        cache = Cache(AUDIO.model, self.device, batch=1, length=p["text"] + AUDIO.tokens)
        token = prefill(model.speaker, text, cache)
        for _ in range(AUDIO.tokens // p["chunk"]):
            tokens = torch.cat([token, decode(model.speaker, token, cache, p["chunk"] - 1)], dim=1)
            yield model.sound(tokens)
            token = decode(model.speaker, tokens[:, -1:], cache, 1)

    def tokens_of(self, chunk: Tensor) -> int:
        return chunk.numel() // SAMPLES_PER_TOKEN

    def audio_seconds(self, chunk: Tensor) -> float:
        return chunk.numel() / RATE
