"""A model of speech of others in twenty lines: what losing its cache of keys and values costs, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import foreign_models
import pytest
import torch
from fake_device import FakeDevice
from torch import Tensor

from perfci.bench import ModelBench

Parameters = Mapping[str, Any]
TOKENS, TOKEN_S = 24, 0.001


class Transcription(ModelBench):
    params = {"cache": [True, False], "dtype": ["fp32", "bf16"]}
    requests = 4
    groups = ("generation", "stream_counts")

    def build(self, p: Parameters) -> foreign_models.Whisper:
        return foreign_models.Whisper(has_cache=p["cache"]).to(self.device).eval()

    def prompt(self, p: Parameters) -> Tensor:
        return torch.randn(1, 80, 100, generator=torch.Generator().manual_seed(0)).to(self.device)

    def stream(self, model: foreign_models.Whisper, p: Parameters, sound: Tensor) -> Iterator[Tensor]:
        model.memory.clear()
        heard, text = model.encode(sound), torch.zeros(1, 1, dtype=torch.long, device=self.device)
        for _ in range(TOKENS):
            text = torch.cat([text, model.decode(text, heard)], dim=1)
            yield text[:, -1:]

    def kv_cache(self, model: foreign_models.Whisper, p: Parameters) -> list[Tensor]:
        return list(model.memory.values())


def measure(bench: type[ModelBench], group: str, *values: Any) -> dict[str, list[float]]:
    report = getattr(bench(), f"measure_{group}")(*values)
    return {row["name"]: row["samples"] for row in report["metrics"] if row["status"] == "ok"}


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_both_ways_write_the_same(dtype: str) -> None:
    texts = []
    for cache in (True, False):
        torch.manual_seed(0)
        p, bench = {"cache": cache, "dtype": dtype}, Transcription()
        with torch.no_grad(), bench.autocast(p):
            texts.append(torch.cat(list(bench.stream(bench.build(p), p, bench.prompt(p)))).flatten().tolist())

    assert texts[0] == texts[1]


def test_a_dropped_cache_is_named_by_the_time_per_token(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeDevice(kind="cpu")

    class Timed(Transcription):
        target_device = clock  # type: ignore[assignment]

        def build(self, p: Parameters) -> foreign_models.Whisper:
            model = super().build(p)
            # A layer works on each of the tokens it is given.
            model.layers[0].register_forward_hook(
                lambda _, inputs, __: clock.work(TOKEN_S * inputs[0].shape[1])
            )
            return model

    clock.install(monkeypatch, "perfci.bench.streams.stream_clock", "perfci.bench.timers.warmup")
    healthy, dropped = (measure(Timed, "generation", cache, "fp32") for cache in (True, False))

    assert healthy["tpot"] == pytest.approx([TOKEN_S] * 4)
    assert dropped["tpot"] == pytest.approx([TOKEN_S * (TOKENS + 2) / 2] * 4, rel=0.05)
    assert dropped["ttft"] == pytest.approx(healthy["ttft"])


def test_a_dropped_cache_is_explained_by_counts() -> None:
    healthy, dropped = (measure(Transcription, "stream_counts", cache, "fp32") for cache in (True, False))

    assert dropped["flops"][0] > 1.5 * healthy["flops"][0]
    assert (healthy["kv_cache_bytes"], dropped["kv_cache_bytes"]) == ([2 * TOKENS * 2 * 64 * 4], [0])
