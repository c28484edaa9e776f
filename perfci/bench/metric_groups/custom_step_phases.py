"""Find the phases of a training step that its author wrote as one piece."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from perfci.bench.optimizer_steps import observe_optimizer_steps
from perfci.bench.timers.stage_timers import PhaseMarker


@contextlib.contextmanager
def mark_custom_step_phases(mark_phase: PhaseMarker) -> Iterator[None]:
    """Mark every backward pass and every step of an optimizer; all the rest is marked as forward.

    The rest holds what a step does beside them, clipping for example. Not for steps that are timed as a
    whole: the marks wait for the device.
    """
    run_backward: Any = torch.autograd.backward

    def marked_backward(*arguments: Any, **options: Any) -> Any:
        with mark_phase("backward"):
            return run_backward(*arguments, **options)

    with (
        contextlib.ExitStack() as updates,
        observe_optimizer_steps(
            before=lambda _: updates.enter_context(mark_phase("optimizer")),
            after=lambda _: updates.pop_all().close(),
        ),
    ):
        torch.autograd.backward = marked_backward
        try:
            with mark_phase("forward"):
                yield
        finally:
            torch.autograd.backward = run_backward
