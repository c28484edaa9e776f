"""A training step of a user's model: the model, its optimizer and batches that are already on the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from perfci.bench.devices.number_formats import gradient_scaler

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

PhaseMarker = Callable[[str], contextlib.AbstractContextManager[Any]]
"""Opens a named phase: a stage timer, a range of a profiler, or nothing at all while the step is timed as a whole."""

RESIDENT_BATCHES = 2


def no_phase(phase: str) -> contextlib.AbstractContextManager[Any]:
    return _NULL_CONTEXT


_NULL_CONTEXT = contextlib.nullcontext()


class TrainingLoop:
    """Zero the gradients, compute the loss, go back, update: what ``step_time`` times.

    The same seed gives the same weights, batches and losses; ``p`` are the parameters of the cell.
    """

    def __init__(self, context: ModelBench, p: Mapping[str, Any], *, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._context = context
        self._p = p
        self.model = context.build(p)
        if not hasattr(self.model, "parameters"):
            raise TypeError(
                f"build returned {type(self.model).__name__}; a torch module with parameters was expected"
            )
        self.batches = [context.batch(p, index) for index in range(RESIDENT_BATCHES)]
        self.optimizer = context.optimizer(self.model, p)
        self._scaler = gradient_scaler(context.precision(p), context.device)
        self.steps = 0
        self.last_loss: torch.Tensor | None = None

    def step(self) -> None:
        self.train_on(self.next_batch())

    def next_batch(self) -> Any:
        self.steps += 1
        return self.batches[self.steps % len(self.batches)]

    def train_on(self, batch: Any, mark_phase: PhaseMarker = no_phase) -> None:
        """Train on one batch. Nothing here waits for the device: no ``.item()``, no print."""
        with mark_phase("optimizer"):
            self.optimizer.zero_grad(set_to_none=True)
        with mark_phase("forward"):
            loss = self.loss(batch)
        with mark_phase("backward"):
            self._scaler.scale(loss).backward()
        with mark_phase("optimizer"):
            self._scaler.step(self.optimizer)
            self._scaler.update()
        self.last_loss = loss.detach()

    def loss(self, batch: Any) -> Any:
        with self._context.autocast(self._p):
            return self._context.loss(self.model, batch)

    def check_first_loss(self) -> None:
        """Take one step and say in a sentence what a hook gives wrongly; waits for the device."""
        loss = self.loss(self.next_batch())
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.ndim > 0:
            found = (
                f"a tensor of shape {tuple(loss.shape)}"
                if isinstance(loss, torch.Tensor)
                else type(loss).__name__
            )
            raise ValueError(f"loss returned {found}; a scalar tensor was expected")
        if not loss.requires_grad:
            raise ValueError(
                "the loss does not depend on any parameter that requires a gradient: nothing is trained"
            )
        self.last_loss = loss.detach()
        self.check_loss_finite("before the first step")

    def check_loss_finite(self, when: str) -> None:
        if self.last_loss is not None and not torch.isfinite(self.last_loss).item():
            raise ValueError(f"the loss is {self.last_loss.item()} {when}: its speed says nothing")
