"""Number formats a benchmark names in its parameters, and what each of them asks of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from perfci.bench.devices.torch_devices import Device
from perfci.bench.readings import not_here
from perfci.model import PerfciError

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
KNOWN = ("fp32", "tf32", "bf16", "fp16")


@contextlib.contextmanager
def precision(name: str, device: Device) -> Iterator[None]:
    """Compute in ``fp32``, ``tf32`` (CUDA's matrix units), or with autocast in ``bf16`` or ``fp16``.

    fp8 is no autocast: a model that uses it scales its own tensors, so it is not among the names here. A format that
    the device can only emulate skips the cell with that reason.
    """
    if name not in KNOWN:
        raise PerfciError(f"precision {name!r} is unknown; known are {', '.join(KNOWN)}")
    if name == "tf32":
        with _tf32(device):
            yield
    else:
        dtype = AUTOCAST.get(name, torch.bfloat16)
        refusal = device.refuses(dtype) if name in AUTOCAST else None
        if refusal:
            raise not_here(refusal)
        with torch.autocast(device.torch_device, dtype=dtype, enabled=name in AUTOCAST):
            yield


def gradient_scaler(name: str, device: str) -> torch.amp.GradScaler:
    """fp16 gradients underflow without a scale; every other format needs none, and then this one does nothing."""
    return torch.amp.GradScaler(device, enabled=name == "fp16")


@contextlib.contextmanager
def _tf32(device: Device) -> Iterator[None]:
    if device.kind != "cuda":
        raise not_here("tf32 is a mode of NVIDIA's matrix units; this machine has none")
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before
