"""Sizes of the suite: real ones on a GPU, smoke sizes on a CPU and under PERFCI_SMOKE=1.

PERFCI_TEST_SIZES=tiny is for tests of what runs the suite. The name of the sizes is a parameter of every
benchmark, so that smoke and real numbers never share a series.
"""

from __future__ import annotations

import contextlib
import os
import timeit
from dataclasses import dataclass, replace

import torch
import torch._dynamo  # every optimizer imports it: here once for all processes that are forked

from perfci.bench import wall_clock


@dataclass(frozen=True)
class Sizes:
    """One model with the work it is given, and how often a process repeats it."""

    name: str
    vocab: int
    width: int
    heads: int
    layers: int
    length: int  # of a training sequence
    batches: list[int]  # sequences of a training step
    prompts: list[int]  # lengths of a prompt
    requests: list[int]  # prompts answered together
    new_tokens: int
    repeat: int
    warmups: int
    optimizer_steps: int  # timed together


GPT2 = Sizes(
    name="gpt2-124m",
    vocab=50304,
    width=768,
    heads=12,
    layers=12,
    length=1024,
    batches=[4, 8],
    prompts=[128, 512],
    requests=[1, 8],
    new_tokens=128,
    repeat=20,
    warmups=10,
    optimizer_steps=1,
)
SMOKE = Sizes(
    name="smoke",
    vocab=1024,
    width=256,
    heads=8,
    layers=4,
    length=96,
    batches=[4, 8],
    prompts=[32, 128],
    requests=[1, 8],
    new_tokens=24,
    repeat=12,
    warmups=3,
    optimizer_steps=10,
)
TINY = replace(SMOKE, name="tiny", vocab=128, width=32, heads=4, layers=2)
PRECISIONS = ["fp32", "bf16"]

# device_count asks the driver's management library: unlike is_available it leaves CUDA untouched, so that
# forks stay safe.
DEVICE = "cuda" if torch.cuda.device_count() else "cpu"
SMALL = TINY if os.environ.get("PERFCI_TEST_SIZES") == "tiny" else SMOKE
SIZES = SMALL if DEVICE == "cpu" or os.environ.get("PERFCI_SMOKE") == "1" else GPT2
TIMER = wall_clock if DEVICE == "cuda" else timeit.default_timer


def settle() -> None:
    """Make a process repeatable: one thread, one seed."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


def precision_of(name: str) -> contextlib.AbstractContextManager[object]:
    return torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=name == "bf16")
