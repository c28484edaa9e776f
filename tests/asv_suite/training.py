"""Time of a training step: forward, backward and AdamW, on tokens that are already where the model is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .model import GPT
from .sizes import DEVICE, PRECISIONS, SIZES, TIMER, Sizes, precision_of, settle

OPTIMIZERS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class Training:
    """A model, its optimizer and one batch."""

    def __init__(
        self,
        sizes: Sizes,
        precision: str,
        *,
        batch: int,
        checkpointing: str = "none",
        optimizer: str = "fused",
    ) -> None:
        settle()
        self.precision = precision
        self.model = GPT(sizes, checkpointing=checkpointing == "full").to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, **OPTIMIZERS[optimizer])
        text = torch.randint(sizes.vocab, (batch, sizes.length + 1), device=DEVICE)
        self.tokens, self.targets = text[:, :-1], text[:, 1:]

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss().backward()
        self.optimizer.step()

    def loss(self) -> Tensor:
        with precision_of(self.precision):
            logits = self.model(self.tokens)
            return functional.cross_entropy(logits.flatten(0, 1), self.targets.flatten())


class _Timed:
    """Settings of every timing; asv calls setup before each sample, so the built objects are cached."""

    number = 1
    repeat = SIZES.repeat
    rounds = 2
    warmup_time = 0
    min_run_count = 1
    timer = staticmethod(TIMER)
    training: Training | None = None

    def start(self, training: Training) -> None:
        self.training = training
        for _ in range(SIZES.warmups):
            training.step()


class Step(_Timed):
    """The whole step, over what trades its time for memory."""

    params = (PRECISIONS, SIZES.batches, ["none", "full"], [SIZES.name])
    param_names = ("precision", "batch", "checkpointing", "model")

    def setup(self, precision: str, batch: int, checkpointing: str, model: str) -> None:
        if self.training is None:
            self.start(Training(SIZES, precision, batch=batch, checkpointing=checkpointing))

    def time_step(self, precision: str, batch: int, checkpointing: str, model: str) -> None:
        self.training.step()


class Forward(_Timed):
    """The loss alone, as an evaluation computes it."""

    params = (PRECISIONS, [SIZES.name])
    param_names = ("precision", "model")

    def setup(self, precision: str, model: str) -> None:
        if self.training is None:
            self.start(Training(SIZES, precision, batch=SIZES.batches[-1]))

    @torch.no_grad()
    def time_loss(self, precision: str, model: str) -> None:
        self.training.loss()


class Optimizer(_Timed):
    """The optimizer's part of a step, in torch's three implementations of it."""

    params = (list(OPTIMIZERS), [SIZES.name])
    param_names = ("implementation", "model")
    number = SIZES.optimizer_steps

    def setup(self, implementation: str, model: str) -> None:
        if self.training is None:
            self.start(Training(SIZES, "fp32", batch=SIZES.batches[0], optimizer=implementation))

    def time_update(self, implementation: str, model: str) -> None:
        self.training.optimizer.step()
