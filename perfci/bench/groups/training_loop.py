"""A training step of a user's model: the model, its optimizer and batches that are already on the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.devices.number_formats import gradient_scaler

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

Mark = Callable[[str], contextlib.AbstractContextManager[Any]]
"""Opens a named phase: a stage timer, a range of a profiler, or nothing at all while the step is timed as a whole."""

RESIDENT_BATCHES = 2


def unmarked(phase: str) -> contextlib.AbstractContextManager[Any]:
    return _NOTHING


_NOTHING = contextlib.nullcontext()


class Training:
    """Zero the gradients, compute the loss, go back, update: what ``step_time`` times.

    The same seed gives the same weights, batches and losses; ``p`` are the parameters of the cell.
    """

    def __init__(self, bench: ModelBench, p: Mapping[str, Any], *, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._bench = bench
        self._p = p
        self.model = bench.build(p)
        if not hasattr(self.model, "parameters"):
            raise TypeError(f"build returned {type(self.model).__name__}; a torch module with parameters was expected")
        self.batches = [bench.batch(p, index) for index in range(RESIDENT_BATCHES)]
        self.optimizer = bench.optimizer(self.model, p)
        self._scaler = gradient_scaler(bench.precision(p), bench.device)
        self.steps = 0
        self.last_loss: torch.Tensor | None = None

    def step(self) -> None:
        self.run(self.next_batch())

    def next_batch(self) -> Any:
        self.steps += 1
        return self.batches[self.steps % len(self.batches)]

    def run(self, batch: Any, mark: Mark = unmarked) -> None:
        """Train on one batch. Nothing here waits for the device: no ``.item()``, no print."""
        with mark("optimizer"):
            self.optimizer.zero_grad(set_to_none=True)
        with mark("forward"):
            loss = self.loss(batch)
        with mark("backward"):
            self._scaler.scale(loss).backward()
        with mark("optimizer"):
            self._scaler.step(self.optimizer)
            self._scaler.update()
        self.last_loss = loss.detach()

    def loss(self, batch: Any) -> Any:
        with self._bench.autocast(self._p):
            return self._bench.loss(self.model, batch)

    def check(self) -> None:
        """Take one step and say in a sentence what a hook gives wrongly; waits for the device."""
        loss = self.loss(self.next_batch())
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.ndim > 0:
            found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise ValueError(f"loss returned {found}; a scalar tensor was expected")
        if not loss.requires_grad:
            raise ValueError("the loss does not depend on any parameter that requires a gradient: nothing is trained")
        self.last_loss = loss.detach()
        self.check_loss("before the first step")

    def check_loss(self, when: str) -> None:
        if self.last_loss is not None and not torch.isfinite(self.last_loss).item():
            raise ValueError(f"the loss is {self.last_loss.item()} {when}: its speed says nothing")
