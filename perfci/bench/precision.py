"""Number formats a benchmark names in its parameters, and what each of them asks of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from perfci.model import PerfciError

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
KNOWN = ("fp32", "tf32", "bf16", "fp16")


@contextlib.contextmanager
def precision(name: str, device: str) -> Iterator[None]:
    """Compute in ``fp32``, ``tf32`` (CUDA's matrix units), or with autocast in ``bf16`` or ``fp16``.

    fp8 is no autocast: a model that uses it scales its own tensors, so it is not among the names here.
    """
    if name not in KNOWN:
        raise PerfciError(f"precision {name!r} is unknown; known are {', '.join(KNOWN)}")
    if name == "tf32":
        with _tf32(device):
            yield
    else:
        with torch.autocast(device, dtype=AUTOCAST.get(name, torch.bfloat16), enabled=name in AUTOCAST):
            yield


def gradient_scaler(name: str, device: str) -> torch.amp.GradScaler:
    """fp16 gradients underflow without a scale; every other format needs none, and then this one does nothing."""
    return torch.amp.GradScaler(device, enabled=name == "fp16")


@contextlib.contextmanager
def _tf32(device: str) -> Iterator[None]:
    if device != "cuda":
        raise NotImplementedError("tf32 is a mode of CUDA's matrix units; this machine has none")
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before
