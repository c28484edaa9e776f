"""Numerics of training: the loss after some steps in every format, and steps to a target loss."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from perfci.bench import Bench, Metric, Reading, exact, metrics

from . import training
from .gpt_model import GPT
from .workload_sizes import DEVICE, LEARNING, SIZES, declare_cost, seed_and_pin_threads


class LossParity(training.Step):
    """The same training in every format against fp32: beyond what the format rounds, the cell is rejected."""

    cost_s = declare_cost(smoke=1.5, real=5 + 0.15 * LEARNING.parity_steps)
    default_suite = False
    groups = ("numerics",)
    steps = LEARNING.parity_steps


class Learning(Bench):
    """Steps until a rule is learned, the middle of five seeds: a change may be fast and still learn worse.

    The rule gives each token from the one before, so that a text can be foretold but for its first token.
    Speed has no part in it.
    """

    cost_s = declare_cost(smoke=1.3, real=240)
    default_suite = False
    params = ([SIZES.name],)
    param_names = ("sizes",)

    @metrics(Metric("steps_to_target_loss", "count"))
    def measure_learning(self, sizes: str) -> Mapping[str, Reading]:
        learned = [steps_to_learn(seed) for seed in range(5)]
        steps = statistics.median(run.steps for run in learned)
        # Kernels that add in any order give other losses each time, and so another number of steps.
        is_repeatable = steps_to_learn(0) == learned[0]
        return {"steps_to_target_loss": exact(steps) if is_repeatable else Reading((float(steps),))}


class LearningRun(NamedTuple):
    """When a model had learned the rule, and the loss it had then, bit by bit."""

    steps: int
    loss: float


def steps_to_learn(seed: int) -> LearningRun:
    """Train until the loss is a quarter of its chance level; RuntimeError where it stays above."""
    seed_and_pin_threads()
    torch.manual_seed(seed)
    model = GPT(LEARNING.model).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING.rate, fused=True)
    target = 0.25 * float(torch.tensor(LEARNING.model.vocab).log())
    for step in range(1, LEARNING.limit + 1):
        optimizer.zero_grad(set_to_none=True)
        loss = training.next_token_loss(model, generate_rule_text())
        loss.backward()
        optimizer.step()
        if loss.item() <= target:
            return LearningRun(step, loss.item())
    raise RuntimeError(
        f"seed {seed}: the loss is {loss.item():.2f} after {LEARNING.limit} steps, above {target:.2f}"
    )


def generate_rule_text() -> Tensor:
    """(8, length + 1) tokens, each three times the one before and one, within the vocabulary."""
    tokens = [torch.randint(LEARNING.model.vocab, (8, 1))]
    for _ in range(LEARNING.model.length):
        tokens.append((3 * tokens[-1] + 1) % LEARNING.model.vocab)
    return torch.cat(tokens, dim=1).to(DEVICE)
