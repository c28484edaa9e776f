"""Observe optimizers in the moment they step, by hooks that are registered once and stay.

Dynamo compiles an optimizer's step anew for every hook it has not seen, and gives up after eight.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

StepObserver = Callable[[torch.optim.Optimizer], object]

_before_step: list[StepObserver] = []
_after_step: list[StepObserver] = []


@contextlib.contextmanager
def observe_optimizer_steps(
    before: StepObserver, after: StepObserver = lambda optimizer: None
) -> Iterator[None]:
    """Call ``before`` and ``after`` around every step of an optimizer of torch that is not compiled."""
    _register_hooks()
    _before_step.append(before)
    _after_step.append(after)
    try:
        yield
    finally:
        _before_step.remove(before)
        _after_step.remove(after)


@functools.cache
def _register_hooks() -> None:
    register_optimizer_step_pre_hook(lambda optimizer, *_: _call_observers(_before_step, optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: _call_observers(_after_step, optimizer))


def _call_observers(observers: list[StepObserver], optimizer: Any) -> None:
    if torch.compiler.is_compiling():
        return
    for observer in observers:
        observer(optimizer)
