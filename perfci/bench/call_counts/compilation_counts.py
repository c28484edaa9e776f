"""Counts of ``torch.compile`` on a function: graph breaks, recompilations, generated kernels.

Dynamo alone reads the Python code; it takes a second and no compiler. Kernels need inductor and minutes.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from perfci.bench.readings import Absent

TRACED_CALLS = 2
"""What is compiled again although nothing changed, is so in the second call."""


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """``breaks``: places where dynamo had to give the code back to Python, as its own counter has them.
    ``recompiles``: compilations of code that had one already, because a guard failed.
    """

    breaks: int
    recompiles: int


def count_breaks_and_recompiles(function: Callable[[], object]) -> GraphCounts | Absent:
    """Let dynamo read the function, and run it twice as dynamo cut it, with plain operators.

    Everything that dynamo compiled before in this process is forgotten, before and after. Absent where
    dynamo itself fails, as it does on some code.
    """
    from torch._dynamo.exc import TorchDynamoException
    from torch._dynamo.utils import counters, get_compilation_metrics

    with _reset_dynamo():
        compiled = torch.compile(function, backend=_run_unchanged)
        try:
            for _ in range(TRACED_CALLS):
                compiled()
        except TorchDynamoException as error:
            return Absent(f"dynamo cannot read the function: {_first_lines(error)}")
        if not counters["frames"]["total"]:
            return Absent("dynamo read no code; torch.compile is switched off here")
        breaks = sum(counters["graph_break"].values())
        recompiles = sum(metrics.recompile_reason is not None for metrics in get_compilation_metrics())
    return GraphCounts(int(breaks), int(recompiles))


def count_generated_kernels(function: Callable[[], object]) -> int | Absent:
    """Count the kernels that inductor generates for a function (the forward pass, or all it calls).

    Absent where inductor has no compiler that works, or fails.
    """
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor import config, metrics
    from torch._inductor.utils import fresh_cache

    # One thread: a pool of compilers would outlive the call.
    with _reset_dynamo(), fresh_cache(), config.patch(compile_threads=1):
        metrics.reset()
        try:
            torch.compile(function, backend="inductor")()
        except TorchDynamoException as error:
            return Absent(f"inductor cannot compile the function: {_first_lines(error)}")
        return int(metrics.generated_kernel_count)


def _first_lines(error: Exception) -> str:
    """Dynamo's errors say in their first line which part failed, in their second why, and then much more."""
    return " ".join(str(error).split("\n")[:2]).strip() or type(error).__name__


def _run_unchanged(graph: Any, examples: Any) -> Any:
    return graph.forward


@contextlib.contextmanager
def _reset_dynamo() -> Iterator[None]:
    """Reset dynamo before and after, and suppress warnings: dynamo touches deprecated attributes."""
    from torch._dynamo.utils import clear_compilation_metrics, counters, set_compilation_metrics_limit

    def forget() -> None:
        torch._dynamo.reset()
        counters.clear()
        clear_compilation_metrics()

    set_compilation_metrics_limit(10_000)  # torch keeps the last 64 alone
    forget()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        forget()
