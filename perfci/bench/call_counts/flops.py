"""Floating point operations: counted from operators, computed from a model's shape, and utilisation.

One multiplication and one addition are two operations, as in PaLM (arXiv:2204.02311, appendix B), torch's
own counter, torchtitan and nanochat. Counted are matrix products, convolutions and attention, which is
where a model's operations are; what is elementwise is not.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

from perfci.bench.devices.peak_rates import peak_flops

__all__ = [
    "count_flops",
    "create_flop_counter",
    "force_eager",
    "mbu",
    "mfu",
    "model_flops_per_token",
    "peak_flops",
]


def count_flops(function: Callable[[], object]) -> int:
    """Count the operations of one call, whatever kernel attention picks and on whatever device.

    torch's ``FlopCounterMode`` knows no formula for the attention kernel that CPUs pick by default, and
    counts 0 for it; and its formula for the backward pass of a fused kernel counts the scores that are
    computed a second time. Here all attention kernels count alike: 2 matrix products forward, 4 backward,
    which is what attention under ``SDPBackend.MATH`` does. Causal attention counts in full, as in PaLM.
    What activation checkpointing computes again is computed, so it counts. What the function has compiled
    runs as eager code meanwhile: no counter can look into a fused kernel.
    """
    with force_eager(), create_flop_counter() as counting:
        function()
    return int(counting.get_total_flops())


def model_flops_per_token(parameters: int, layers: int, heads: int, head_dim: int, length: int) -> int:
    """Work out the operations that training a decoder takes per token: 6N + 12 L H Q T.

    ``parameters`` are those that take part in a matrix product (no embedding that is only looked up),
    ``length`` the tokens of a sequence. Forward and backward, causal attention in full, nothing computed
    twice. Source: PaLM (arXiv:2204.02311), appendix B; torchtitan and nanochat use the same.
    """
    return 6 * parameters + 12 * layers * heads * head_dim * length


def mfu(flops: float, seconds: float, peak: float | None) -> float | None:
    """Model FLOPs utilisation: achieved FLOP/s over the device's peak, a ratio. Source: PaLM, appendix B.

    Absent (None) where the peak is not known: nanochat divides by infinity there and shows 0 %, nanoGPT by
    the peak of an A100. Under fp8 ``peak_flops`` gives no peak, so there is no utilisation either, as in
    torchtitan.
    """
    return None if peak is None else _per_second(flops, seconds) / peak


def mbu(moved_bytes: float, seconds: float, peak: float | None) -> float | None:
    """Model bandwidth utilisation, a ratio, absent (None) where the device's peak (bytes/s) is not known.

    Decoding one token must read every weight and the whole cache once: ``moved_bytes`` = weights + KV
    cache, ``seconds`` = the time of that token. Source: Databricks, "LLM Inference Performance Engineering"
    (2023); gpt-fast prints the achieved bytes/s alone.
    """
    return None if peak is None else _per_second(moved_bytes, seconds) / peak


def _per_second(amount: float, seconds: float) -> float:
    if not seconds > 0:
        raise ValueError(f"a rate needs a time above 0 seconds; {seconds!r} was given")
    return amount / seconds


@contextlib.contextmanager
def force_eager() -> Iterator[None]:
    """Run as eager code what ``torch.compile`` has wrapped, without a compilation and without losing an
    earlier one.
    """
    if "torch._dynamo" not in sys.modules:  # nothing can have been compiled; importing it would take a second
        yield
        return
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield


def create_flop_counter() -> Any:
    """Create torch's FLOP counter with a formula for every attention kernel, and without module hooks.

    The hooks attribute operations to modules, which is not needed here; they also run operators of their own.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    aten = torch.ops.aten
    fused = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
    forward = {getattr(aten, f"_scaled_dot_product_{name}"): _forward_flops for name in fused}
    backward = {getattr(aten, f"_scaled_dot_product_{name}_backward"): _backward_flops for name in fused}
    counter = FlopCounterMode(display=False, custom_mapping={**forward, **backward})
    counter.mod_tracker = _NullModuleTracker()
    return counter


class _NullModuleTracker:
    """Stands where the counter keeps track of modules: everything belongs to the whole."""

    parents = frozenset({"Global"})

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _forward_flops(query: Any, key: Any, value: Any, *_: object, **__: object) -> int:
    """FLOPs of scores and weighted values, shapes (batch, heads, length, width); key heads may be fewer."""
    *batch, length, width = query
    scores = math.prod(batch) * length * key[-2]
    return int(2 * scores * (width + value[-1]))


def _backward_flops(_: object, query: Any, key: Any, value: Any, *__: object, **___: object) -> int:
    """Two products for every product of the forward pass: the gradients of both factors."""
    return 2 * _forward_flops(query, key, value)
