"""The ladder of a training step: number format, attention kernel, checkpointing, each by itself and together.

``perfci compare --ablation ladder`` measures what every rung gains (``[[ablation]]`` in ``perfci.toml``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from perfci.bench import Measurement, Metric, ModelBench, informational, metrics
from perfci.bench.devices.torch_precision_settings import create_gradient_scaler
from perfci.bench.timers.timed_blocks import time_blocks

from .attention_kernels import require_attention
from .gpt_model import GPT, Architecture
from .training import next_token_loss, random_text
from .workload_sizes import DTYPES, LADDER, PRECISIONS, SIZES, TRAINING, declare_cost, seed_and_pin_threads


class Ladder(ModelBench):
    """A training step on every combination of rungs; one that computes something else is rejected."""

    cost_s = declare_cost(smoke=2.1, real=12)
    default_suite = {"dtype": ["bf16"], "attention": ["automatic"], "checkpointing": ["none"]}
    params = {
        "dtype": PRECISIONS,
        "attention": ["hand-written", "automatic"],
        "checkpointing": ["none", "full"],
        "sizes": [SIZES.name],
    }
    groups = ("training",)
    reference = {"dtype": "fp32", "attention": "hand-written", "checkpointing": "none"}
    budget_s = TRAINING.budget_s

    def build(self, p: Mapping[str, Any]) -> GPT:
        dtype = DTYPES.get(p["dtype"], DTYPES["fp32"])
        require_attention(p["attention"], dtype=dtype, device=self.device)
        architecture = Architecture(attention=p["attention"])
        model = GPT(SIZES, checkpointing=p["checkpointing"], architecture=architecture)
        return model.to(self.device)

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return random_text(SIZES, SIZES.batches[0], seed=i).to(self.device)

    def loss(self, model: GPT, batch: Tensor) -> Tensor:
        return next_token_loss(model, batch)

    def tokens_per_batch(self, p: Mapping[str, Any]) -> int:
        return SIZES.batches[0] * SIZES.length

    @metrics(Metric("loaded_step_time", "seconds"), Metric("projected_epoch_time", "seconds"))
    def measure_epoch(self, dtype: str, attention: str, checkpointing: str, sizes: str) -> Measurement:
        """Project an epoch from steps that wait for their batches: its steps times the host's seconds."""
        seed_and_pin_threads()
        p = dict(zip(self.param_names, (dtype, attention, checkpointing, sizes), strict=True))
        with self.autocast(p):  # skips before anything is built
            model = self.build(p)
        optimizer, scaler = self.optimizer(model, p), create_gradient_scaler(dtype, self.device)
        texts = itertools.chain.from_iterable(repeat_epochs())

        def step() -> None:
            batch = next(texts).to(self.device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with self.autocast(p):
                loss = self.loss(model, batch)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        timing = time_blocks(step, **TRAINING.timing)
        steps = LADDER.epoch_tokens / self.tokens_per_batch(p)
        readings = {
            "loaded_step_time": timing.reading(),
            "projected_epoch_time": informational(*(steps * seconds for seconds in timing.wall)),
        }
        return Measurement(readings, flags=timing.flags)


def repeat_epochs() -> Iterator[Iterator[Tensor]]:
    """One pass after another over shuffled texts, (batch, length + 1) tokens at a time."""
    texts = TensorDataset(random_text(SIZES, 8 * SIZES.batches[0]))
    loader = DataLoader(texts, SIZES.batches[0], shuffle=True, drop_last=True)
    while True:
        yield (batch for (batch,) in loader)
