"""Count the floating point operations of one call from its operators.

One multiplication and one addition are two operations, as in PaLM (arXiv:2204.02311, appendix B), torch's
own counter, torchtitan and nanochat. Counted are matrix products, convolutions, attention, recurrent layers
and Fourier transforms, which is where a model's operations are; what is elementwise is not.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from perfci.bench.call_counts.flop_count_by_format import FlopCount, RunsOnlyCompiled
from perfci.bench.readings import Absent
from perfci.model import PerfciError

if TYPE_CHECKING:
    from perfci.bench.call_counts.flop_counter import FlopCounter


NO_EAGER_CODE = "found no compiled frames"
"""Part of torch's message where code that has to be compiled whole is not compiled at all."""


def count_flops(function: Callable[[], object]) -> int | Absent:
    """Count the operations of one call, whatever kernel attention picks and on whatever device.

    torch's ``FlopCounterMode`` knows no formula for the attention kernel that CPUs pick by default, for
    fused recurrent layers, and for the fused layers of ``nn.TransformerEncoder``, and counts 0 for them; and
    its formula for the backward pass of a fused kernel counts the scores that are computed a second time.
    Here all attention kernels count alike: 2 matrix products forward, 4 backward, which is what attention
    under ``SDPBackend.MATH`` does. Causal attention counts in full, as in PaLM. What activation
    checkpointing computes again is computed, so it counts. What the function has compiled runs as eager code
    meanwhile: no counter can look into a fused kernel.

    Absent, with their names, where operators without a formula read big tensors. Kernels that are called
    past torch's dispatcher (from an extension, or Triton's ``kernel[grid]``) are not seen at all.
    """
    return count_flops_by_format(function).total


def require_flops(function: Callable[[], object]) -> int:
    """Count a function whose operators all have a formula; raises ``PerfciError`` where one has none."""
    counted = count_flops(function)
    if isinstance(counted, Absent):
        raise PerfciError(counted.reason)
    return counted


def count_flops_by_format(function: Callable[[], object]) -> FlopCount:
    """Count the operations of one call by number format, with what was recomputed and not counted."""
    try:
        with force_eager(), create_flop_counter() as counting:
            function()
    except RunsOnlyCompiled as error:
        return FlopCount({}, 0, {}, failure=str(error))
    count: FlopCount = counting.get_count()
    return count


@contextlib.contextmanager
def force_eager() -> Iterator[None]:
    """Run as eager code what ``torch.compile`` has wrapped, without a compilation and without losing an
    earlier one. Raises ``RunsOnlyCompiled`` for what cannot.
    """
    if "torch._dynamo" not in sys.modules:  # nothing can have been compiled; importing it would take a second
        yield
        return
    import torch

    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    except RuntimeError as error:
        if NO_EAGER_CODE not in str(error):
            raise
        raise RunsOnlyCompiled() from error


def create_flop_counter() -> FlopCounter:
    """Create the counter, a dispatch mode, without importing torch before it is needed."""
    from perfci.bench.call_counts.flop_counter import FlopCounter

    return FlopCounter()
