"""Functions to compile, importable by the processes that compile them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch


def activated(diary: str) -> Callable[[], torch.Tensor]:
    """Inductor's; the diary tells which process compiled it, and what lay in which cache before."""
    cache = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    with open(diary, "a") as file:
        print(os.getpid(), cache, len(os.listdir(cache)) if os.path.exists(cache) else 0, file=file)
    compiled = torch.compile(torch.nn.GELU())
    x = torch.ones(2, 4)

    @torch.no_grad()
    def step() -> torch.Tensor:
        return compiled(x).sum()

    return step


def broken(breaks: int) -> Callable[[], torch.Tensor]:
    def function(x: torch.Tensor) -> torch.Tensor:
        if breaks > 0:
            torch._dynamo.graph_break()
        x = x + 1
        if breaks > 1:
            torch._dynamo.graph_break()
        return x.sum()

    compiled = torch.compile(function, backend="eager")
    return lambda: compiled(torch.ones(3))


def growing(sizes: list[int]) -> Callable[[], torch.Tensor]:
    """Another length with each call, compiled for each; the last one stays."""
    compiled = torch.compile(torch.Tensor.sum, backend="eager", dynamic=False)
    left = list(sizes)
    return lambda: compiled(torch.ones(left.pop(0) if len(left) > 1 else left[0]))


def endless() -> Callable[[], float]:
    time.sleep(600)
    return lambda: 1.0
