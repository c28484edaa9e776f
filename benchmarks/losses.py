"""A loss with K terms: computed one after the other in a loop, or all at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from perfci.bench import Bench, Measurement, Metric, exact, metrics
from perfci.bench.call_counts import count_operators
from perfci.bench.parity import NumericsRecord, check_parity, default_tolerance
from perfci.bench.timers.timed_blocks import time_blocks

from .workload_sizes import DEVICE, KERNELS, SIZES, declare_cost, require_dtype, seed_and_pin_threads


class LossOverK(Bench):
    """The count of operators alone proves a loop: it grows with K, whatever a clock says."""

    cost_s = declare_cost(smoke=0.6, real=4)
    default_suite = False
    params = (["looped", "batched"], [KERNELS.losses], KERNELS.precisions, [SIZES.name])
    param_names = ("implementation", "terms", "precision", "sizes")

    @metrics(Metric("loss_time", "seconds"), Metric("operators", "count"))
    def measure_loss(self, implementation: str, terms: int, precision: str, sizes: str) -> Measurement:
        seed_and_pin_threads()
        shape = (terms, KERNELS.tokens // terms)
        logits = torch.randn(
            *shape, KERNELS.classes, device=DEVICE, dtype=require_dtype(precision), requires_grad=True
        )
        targets = torch.randint(KERNELS.classes, shape, device=DEVICE)
        check_losses_equal(logits, targets)

        def loss_and_gradient() -> Tensor:
            return torch.autograd.grad(LOSSES[implementation](logits, targets), logits)[0]

        timing = time_blocks(loss_and_gradient, **KERNELS.timing)
        readings = {"loss_time": timing.reading(), "operators": exact(count_operators(loss_and_gradient))}
        return Measurement(readings, flags=timing.flags)


def looped_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """(K, tokens, classes), (K, tokens) -> mean cross-entropy over all terms."""
    terms = [functional.cross_entropy(logits[k], targets[k]) for k in range(len(logits))]
    return torch.stack(terms).mean()


def batched_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Equal to ``looped_loss``: terms of equal length, so the mean over all tokens is the mean of means."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


LOSSES = {"looped": looped_loss, "batched": batched_loss}


def check_losses_equal(logits: Tensor, targets: Tensor) -> None:
    """Both forms give the same loss, or neither is worth timing."""
    with torch.no_grad():
        one, other = (NumericsRecord((float(form(logits, targets)),)) for form in (looped_loss, batched_loss))
    check_parity(one, other, default_tolerance(logits.dtype))
