"""A training step of a user's model: the model, its optimizer and batches that are already on the device."""

from __future__ import annotations

from typing import Any

import torch

from perfci.bench.devices.compute_precision import create_gradient_scaler
from perfci.bench.model_benchmark_callables import ModelBenchmarkCallables
from perfci.bench.timers.stage_timers import PhaseMarker, null_phase

RESIDENT_BATCHES = 2
"""Batches kept on the device, so that a timed step never waits for data."""


class TrainingLoop:
    """Zero the gradients, compute the loss, run backward, update: the work that ``step_time`` times.

    Equal seeds give equal weights, batches and losses.
    """

    def __init__(self, callables: ModelBenchmarkCallables, *, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._autocast = callables.autocast
        self._loss_callable = callables.require_loss_callable()
        self.model = callables.build()
        if not hasattr(self.model, "parameters"):
            raise TypeError(
                f"build returned {type(self.model).__name__}; a torch module with parameters was expected"
            )
        load_batch = callables.require_batch_callable()
        self.batches = [load_batch(index) for index in range(RESIDENT_BATCHES)]
        self.optimizer = callables.optimizer(self.model)
        self._scaler = create_gradient_scaler(callables.precision(), callables.device.torch_device)
        self.steps = 0
        self.last_loss: torch.Tensor | None = None

    def step(self) -> None:
        """Train on the next resident batch."""
        self.train_on_batch(self.next_resident_batch())

    def next_resident_batch(self) -> Any:
        """Return the resident batches in turn."""
        self.steps += 1
        return self.batches[self.steps % len(self.batches)]

    def train_on_batch(self, batch: Any, mark_phase: PhaseMarker = null_phase) -> None:
        """Train on one batch. Nothing here waits for the device: no ``.item()``, no print."""
        with mark_phase("optimizer"):
            self.optimizer.zero_grad(set_to_none=True)
        with mark_phase("forward"):
            loss = self.compute_loss(batch)
        with mark_phase("backward"):
            self._scaler.scale(loss).backward()
        with mark_phase("optimizer"):
            self._scaler.step(self.optimizer)
            self._scaler.update()
        self.last_loss = loss.detach()

    def compute_loss(self, batch: Any) -> Any:
        """Compute the loss of a batch in the number format of the benchmark."""
        with self._autocast():
            return self._loss_callable(self.model, batch)

    def check_first_loss(self) -> None:
        """Compute one loss and raise a sentence for what a hook returned wrongly; waits for the device."""
        loss = self.compute_loss(self.next_resident_batch())
        if not isinstance(loss, torch.Tensor):
            raise ValueError(f"loss returned {type(loss).__name__}; a scalar tensor was expected")
        if loss.numel() != 1 or loss.ndim > 0:
            raise ValueError(
                f"loss returned a tensor of shape {tuple(loss.shape)}; a scalar tensor was expected"
            )
        if not loss.requires_grad:
            raise ValueError(
                "the loss does not depend on any parameter that requires a gradient: nothing is trained"
            )
        self.last_loss = loss.detach()
        self.check_loss_finite("before the first step")

    def check_loss_finite(self, when: str) -> None:
        """Raise ``ValueError`` where the newest loss is NaN or infinite; ``when`` ends the sentence."""
        if self.last_loss is not None and not torch.isfinite(self.last_loss).item():
            raise ValueError(f"the loss is {self.last_loss.item()} {when}: its timing is meaningless")
