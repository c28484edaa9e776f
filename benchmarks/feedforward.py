"""The feed-forward part of a transformer's block: how wide it is, and with a gate or without."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfci.bench import Bench, Measurement, Metric, exact, informational, metrics
from perfci.bench.call_counts.count_flops import require_flops
from perfci.bench.timers.timed_blocks import time_blocks

from .workload_sizes import DEVICE, KERNELS, SIZES, declare_cost, require_dtype, seed_and_pin_threads


class FeedForward(Bench):
    """GELU against SwiGLU, which has a third matrix: as wide as GELU's, or with as many parameters."""

    cost_s = declare_cost(smoke=0.9, real=5)
    default_suite = False
    params = (
        ["gelu", "swiglu-equal-expansion", "swiglu-equal-parameters"],
        KERNELS.expansions,
        KERNELS.precisions,
        [SIZES.name],
    )
    param_names = ("kind", "expansion", "precision", "sizes")

    @metrics(
        Metric("forward_time", "seconds"),
        Metric("backward_time", "seconds"),
        Metric("flops", "FLOP"),
        Metric("parameter_bytes", "bytes"),
        Metric("flop_rate", "FLOP/s", "higher"),
    )
    def measure_feedforward(self, kind: str, expansion: int, precision: str, sizes: str) -> Measurement:
        seed_and_pin_threads()
        network = build_feedforward(kind, KERNELS.width, expansion).to(DEVICE, require_dtype(precision))
        x = torch.randn(
            KERNELS.tokens, KERNELS.width, device=DEVICE, dtype=require_dtype(precision), requires_grad=True
        )
        out = network(x)
        gradient = torch.randn_like(out)
        learned = [x, *network.parameters()]

        with torch.no_grad():
            forward = time_blocks(lambda: network(x), **KERNELS.timing)
        backward = time_blocks(
            lambda: torch.autograd.grad(out, learned, gradient, retain_graph=True), **KERNELS.timing
        )
        flops = require_flops(lambda: network(x))
        readings = {
            "forward_time": forward.reading(),
            "backward_time": backward.reading(),
            "flops": exact(flops),
            "parameter_bytes": exact(sum(p.nbytes for p in network.parameters())),
            "flop_rate": informational(*(flops / seconds for seconds in forward.elapsed_samples)),
        }
        return Measurement(readings, flags=(*forward.flags, *backward.flags))


def build_feedforward(kind: str, width: int, expansion: int) -> nn.Module:
    """Two matrices around a GELU, or SwiGLU's three; for equal parameters those are two thirds as wide.

    The two thirds are Shazeer's ("GLU Variants Improve Transformer", arXiv:2002.05202, section 3).
    """
    hidden = expansion * width
    if kind == "gelu":
        return nn.Sequential(
            nn.Linear(width, hidden, bias=False), nn.GELU(), nn.Linear(hidden, width, bias=False)
        )
    return SwiGLU(width, hidden if kind == "swiglu-equal-expansion" else 2 * hidden // 3)


class SwiGLU(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))
