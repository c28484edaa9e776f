"""Optimizers are observed while they step, without a hook more for every observer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer

from perfci.bench.optimizer_steps import observe_optimizer_steps


def registered_hooks() -> list[Any]:
    return list(torch_optimizer._global_optimizer_pre_hooks)


def test_calls_observers_around_a_step_and_not_afterwards() -> None:
    layer, seen = nn.Linear(2, 2), []
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)

    with observe_optimizer_steps(lambda _: seen.append("before"), lambda _: seen.append("after")):
        sgd.step()
    sgd.step()

    assert seen == ["before", "after"]


def test_a_further_observer_is_no_reason_to_compile_a_step_anew() -> None:
    with observe_optimizer_steps(lambda _: None):
        once = registered_hooks()
    with observe_optimizer_steps(lambda _: None), observe_optimizer_steps(lambda _: None):
        assert registered_hooks() == once

    assert registered_hooks() == once
