"""Time of a training step: forward, backward and AdamW, on tokens that are already where the model is."""

from __future__ import annotations

import torch
from torch.nn import functional

from .model import GPT
from .sizes import DEVICE, SIZES, TIMER, Sizes, precision_of, settle


class Training:
    """A model, its optimizer and one batch."""

    def __init__(self, sizes: Sizes, precision: str) -> None:
        settle()
        self.precision = precision
        self.model = GPT(sizes).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        text = torch.randint(sizes.vocab, (sizes.batch, sizes.length + 1), device=DEVICE)
        self.tokens, self.targets = text[:, :-1], text[:, 1:]

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        with precision_of(self.precision):
            logits = self.model(self.tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1), self.targets.flatten())
        loss.backward()
        self.optimizer.step()


class Step:
    params = (["fp32", "bf16"], [SIZES.name])
    param_names = ("precision", "model")
    number = 1
    repeat = SIZES.repeat
    rounds = 2
    warmup_time = 0
    min_run_count = 1
    timer = staticmethod(TIMER)
    training: Training | None = None

    def setup(self, precision: str, model: str) -> None:
        if self.training is None:  # asv calls setup before every sample; a model is built and warmed up once
            self.training = Training(SIZES, precision)
            for _ in range(SIZES.warmups):
                self.training.step()

    def time_step(self, precision: str, model: str) -> None:
        self.training.step()
