"""Everything that is measured of ``lm``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import torch
from lm import answering, copying, texts, training
from lm.model import LM, Cache
from torch import Tensor

from perfci.bench import Bench, Clock, Measurement, Metric, ModelBench, Reading, metrics
from perfci.bench.call_counts import FAKE_DEVICE, count_call, fake_tensors
from perfci.bench.devices.torch_devices import this_device

COPIES = ("copied_to_device_bytes", "pageable_copy_bytes", "blocking_copy_bytes")


class Model(ModelBench):
    """A training step and an answer; only the cold start is left out, for the time it takes."""

    groups = ("training", "step_counts", "numerics", "generation", "stream_counts", "stages")
    requests, budget_s, prompt_tokens, answer_tokens = 6, 0.3, 16, 40

    def build(self, p):
        return LM().to(self.device)

    def batch(self, p, i):
        return torch.stack([texts.some_text(2 * i + row) for row in range(texts.BATCH)]).to(self.device)

    def loss(self, model, batch):
        return training.loss(model, batch)

    def optimizer(self, model, p):
        return training.optimizer(model)

    def stream(self, model, p) -> Iterator[Tensor]:
        self.cache = Cache(self.device)
        prompt = texts.some_text(0, self.prompt_tokens - 1)[None].to(self.device)
        yield from answering.answer(model, prompt, self.answer_tokens, self.cache)

    def kv_cache(self, model, p):
        return self.cache.rooms


class Loader(Bench):
    """How long a loop waits for its batches; what it does with them is always the same."""

    STEPS, EPOCHS = 8, 3

    @metrics(
        Metric("data_time", "seconds"), Metric("data_stall", "ratio"), Metric("loader_startup", "seconds")
    )
    def measure_loader(self) -> Measurement:
        torch.manual_seed(0)
        matrix = torch.randn(512, 512)
        epochs = [self.epoch(lambda: [matrix @ matrix for _ in range(4)]) for _ in range(self.EPOCHS)]
        return Measurement(
            {
                "data_time": Reading(
                    [waited / self.STEPS for _, waited, _ in epochs], Clock.WALL, self.STEPS
                ),
                "data_stall": Reading(
                    [waited / whole for _, waited, whole in epochs], Clock.VALUE, self.STEPS
                ),
                "loader_startup": Reading([startup for startup, _, _ in epochs], Clock.WALL),
            }
        )

    def epoch(self, step: Callable[[], object]) -> tuple[float, float, float]:
        """Seconds to the first batch, of waiting for the further ones, and of the loop in which that was."""
        begin = time.perf_counter()
        batches = iter(texts.loader(self.STEPS + 1))
        next(batches)
        first, waited = time.perf_counter(), 0.0
        for _ in range(self.STEPS):
            step()
            perf_counter = time.perf_counter()
            next(batches)
            waited += time.perf_counter() - perf_counter
        return first - begin, waited, time.perf_counter() - first


class Copy(Bench):
    """What a batch costs on its way to the device: counted, so that it takes none."""

    @metrics(*(Metric(name, "bytes") for name in COPIES))
    def measure_copy(self) -> Measurement:
        device = this_device().torch_device
        with fake_tensors() if device == "cpu" else contextlib.nullcontext():
            batch = torch.ones(texts.BATCH, texts.LENGTH, dtype=torch.int64)
            counted = count_call(
                lambda: copying.to_device(batch, FAKE_DEVICE if device == "cpu" else device)
            ).readings()
        return Measurement({name: counted[name] for name in COPIES})
