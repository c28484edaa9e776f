"""A training step of a user's model: the model, its optimizer and batches that are already on the device."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.devices.torch_precision_settings import create_gradient_scaler
from perfci.bench.loader_batches import KEPT_BATCHES
from perfci.bench.metric_groups.custom_step_phases import mark_custom_step_phases
from perfci.bench.timers.stage_timers import PhaseMarker, null_phase

MAX_SKIPPED_STEPS = 40
"""Steps that a gradient scaler may skip before its scale fits: it begins at 2^16 and halves each time."""


class TrainingLoop:
    """Zero the gradients, compute the loss, run backward, update: the work that ``step_time`` times.

    Where the author defines a ``step``, that is the work. Equal seeds give equal weights, batches and losses.
    ``gradient_scale`` is where the scaler of an fp16 step begins; torch's own start is far too large, and the
    first steps are skipped until it fits.
    """

    def __init__(self, hooks: BoundModelHooks, *, seed: int = 0, gradient_scale: float | None = None) -> None:
        torch.manual_seed(seed)
        self._autocast = hooks.autocast
        self._loss_callable = hooks.loss
        self._own_step = hooks.step
        self.model = hooks.build_ready_model()
        if not hasattr(self.model, "parameters"):
            raise TypeError(
                f"build returned {type(self.model).__name__}; a torch module with parameters was expected"
            )
        load_batch = hooks.require_batch_hook()
        self.batches = [load_batch(index) for index in range(KEPT_BATCHES)]
        self.optimizer = hooks.optimizer(self.model)
        if self._own_step is None and not hasattr(self.optimizer, "zero_grad"):
            raise TypeError(
                f"optimizer returned {type(self.optimizer).__name__}; one torch optimizer was expected, "
                "or a step hook that knows what to do with it"
            )
        self._scaler = create_gradient_scaler(hooks.precision(), hooks.device.torch_device, gradient_scale)
        self.steps = 0
        self.last_loss: torch.Tensor | None = None

    @property
    def gradient_scale(self) -> float:
        """What gradients are multiplied by to stay within fp16, 1 in other formats; waits for the device."""
        return float(self._scaler.get_scale())

    def step(self) -> None:
        """Train on the next resident batch."""
        self.train_on_batch(self.next_resident_batch())

    def step_until_updated(self) -> None:
        """Train on the next resident batch, again and again while the gradient scaler skips the update."""
        for _ in range(MAX_SKIPPED_STEPS):
            before = self.gradient_scale
            self.step()
            if self.gradient_scale >= before:
                return
        raise ValueError(
            f"the gradients overflow in fp16 even at a scale of {self.gradient_scale:g}: nothing is trained"
        )

    def next_resident_batch(self) -> Any:
        """Return the resident batches in turn."""
        self.steps += 1
        return self.batches[self.steps % len(self.batches)]

    def train_on_batch(self, batch: Any, mark_phase: PhaseMarker = null_phase) -> None:
        """Train on one batch. Nothing here waits for the device: no ``.item()``, no print."""
        if self._own_step is not None:
            phases = (
                contextlib.nullcontext() if mark_phase is null_phase else mark_custom_step_phases(mark_phase)
            )
            with phases:
                loss = self._own_step(self.model, batch, self.optimizer, self._scaler)
            self.last_loss = _require_scalar("step", loss).detach()
            return
        with mark_phase("optimizer"):
            self.optimizer.zero_grad(set_to_none=True)
        with mark_phase("forward"):
            loss = self._compute_loss(batch)
        with mark_phase("backward"):
            self._scaler.scale(loss).backward()
        with mark_phase("optimizer"):
            self._scaler.step(self.optimizer)
            self._scaler.update()
        self.last_loss = loss.detach()

    def _compute_loss(self, batch: Any) -> Any:
        assert self._loss_callable is not None
        with self._autocast():
            return self._loss_callable(self.model, batch)

    def check_first_loss(self) -> None:
        """Compute one loss and raise a sentence for what a hook returned wrongly; waits for the device."""
        if self._own_step is not None:
            self.step()
        else:
            loss = _require_scalar("loss", self._compute_loss(self.next_resident_batch()))
            if not loss.requires_grad:
                raise ValueError(
                    "the loss does not depend on any parameter that requires a gradient: nothing is trained"
                )
            self.last_loss = loss.detach()
        self.check_loss_finite("before the first step" if self._own_step is None else "in the first step")

    def check_loss_finite(self, when: str) -> None:
        """Raise ``ValueError`` where the newest loss is NaN or infinite; ``when`` ends the sentence."""
        if self.last_loss is not None and not torch.isfinite(self.last_loss).item():
            raise ValueError(f"the loss is {self.last_loss.item()} {when}: its timing is meaningless")


def _require_scalar(hook: str, loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise ValueError(f"{hook} returned {type(loss).__name__}; a scalar tensor was expected")
    if loss.numel() != 1 or loss.ndim > 0:
        raise ValueError(
            f"{hook} returned a tensor of shape {tuple(loss.shape)}; a scalar tensor was expected"
        )
    return loss
