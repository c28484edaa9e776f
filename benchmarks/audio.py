"""Speech from a small codec-like model: a token at a time, decoded into sound chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from perfci.bench import ModelBench

from .attention_kernels import require_attention
from .gpt_model import BASELINE, GPT, Architecture, ModelCache, compile_blocks, decode, prefill
from .training import random_text
from .workload_sizes import AUDIO, DTYPES, FORMATS, declare_cost, seed_and_pin_threads

SAMPLE_RATE = 24_000  # samples of sound per second
SAMPLES_PER_TOKEN = (
    320 * 2
)  # what the decoder's two upsamplings make of one token: 37.5 tokens are one second


class SpeechModel(nn.Module):
    """A language model of audio tokens, and the decoder that turns a chunk of them into a wave."""

    def __init__(self, architecture: Architecture = BASELINE) -> None:
        super().__init__()
        width = AUDIO.model.width
        self.language_model = GPT(AUDIO.model, architecture=architecture)
        self.embedding = nn.Embedding(AUDIO.model.vocab, width)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(width, width // 2, 64, stride=32, padding=16),
            nn.GELU(),
            nn.ConvTranspose1d(width // 2, 1, 40, stride=20, padding=10),
            nn.Tanh(),
        )

    def decode_audio(self, tokens: Tensor) -> Tensor:
        """(1, tokens) -> (samples,)"""
        return self.decoder(self.embedding(tokens).transpose(1, 2)).flatten()


class Speech(ModelBench):
    """Time to the first playable chunk (``ttfb``) and compute per second of sound (``rtf``: below 1 plays
    live).
    """

    cost_s = declare_cost(smoke=0.8, real=10 + AUDIO.requests * AUDIO.tokens * 0.004)
    default_suite: Any = False
    params = {"chunk": AUDIO.chunks, "text": AUDIO.texts, "sizes": [AUDIO.model.name]}
    groups = ("generation",)
    requests = AUDIO.requests

    def build(self, p: Mapping[str, Any]) -> SpeechModel:
        seed_and_pin_threads()
        return SpeechModel().to(self.device).eval()

    def prompt(self, p: Mapping[str, Any]) -> Tensor:
        return random_text(AUDIO.model, 1, length=p["text"] - 1).to(self.device)

    def stream(self, model: SpeechModel, p: Mapping[str, Any], text: Tensor) -> Iterator[Tensor]:
        cache = ModelCache(AUDIO.model, self.device, batch=1, length=p["text"] + AUDIO.tokens)
        token = prefill(model.language_model, text, cache)
        for _ in range(AUDIO.tokens // p["chunk"]):
            tokens = torch.cat([token, decode(model.language_model, token, cache, p["chunk"] - 1)], dim=1)
            yield model.decode_audio(tokens)
            token = decode(model.language_model, tokens[:, -1:], cache, 1)

    def tokens_of(self, chunk: Tensor) -> int:
        return chunk.numel() // SAMPLES_PER_TOKEN

    def audio_seconds(self, chunk: Tensor) -> float:
        return chunk.numel() / SAMPLE_RATE


class SpeechFormats(Speech):
    """The same speech by number format, compiler and attention kernel: which of them makes it live."""

    default_suite = {"precision": ["bf16"], "compile": FORMATS.compile[:1], "attention": ["automatic"]}
    params = {
        "precision": FORMATS.precisions,
        "compile": FORMATS.compile,
        "attention": FORMATS.attentions,
        "chunk": AUDIO.chunks[:1],
        "text": AUDIO.texts[:1],
        "sizes": [AUDIO.model.name],
    }

    def cost_s(self, p: Mapping[str, Any]) -> float:
        return declare_cost(smoke=0.8, real=super().cost_s + (40 if p["compile"] else 0))

    def build(self, p: Mapping[str, Any]) -> SpeechModel:
        require_attention(p["attention"], dtype=DTYPES[p["precision"]], device=self.device)
        seed_and_pin_threads()
        return SpeechModel(Architecture(attention=p["attention"])).to(self.device).eval()

    def compile(self, model: SpeechModel, p: Mapping[str, Any]) -> SpeechModel:
        compile_blocks(model.language_model, p["compile"])
        return model
