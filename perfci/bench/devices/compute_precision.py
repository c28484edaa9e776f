"""Number formats a benchmark names in its parameters, and what each of them asks of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from perfci.bench.devices.torch_devices import Device
from perfci.bench.readings import skip_exception
from perfci.model import PerfciError

AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


@contextlib.contextmanager
def compute_in_precision(name: str, device: Device) -> Iterator[None]:
    """Compute in ``fp32``, ``tf32`` (CUDA's matrix units), or with autocast in ``bf16`` or ``fp16``.

    fp8 is no autocast: a model that uses it scales its own tensors, so it is not among the names here. A
    format that the device can only emulate skips the cell with that reason.
    """
    if name not in PRECISIONS:
        raise PerfciError(f"precision {name!r} is unknown; known are {', '.join(PRECISIONS)}")
    if name == "tf32":
        with _tf32(device):
            yield
    else:
        dtype = AUTOCAST_DTYPES.get(name, torch.bfloat16)
        refusal = device.unsupported_dtype_reason(dtype) if name in AUTOCAST_DTYPES else None
        if refusal:
            raise skip_exception(refusal)
        with torch.autocast(device.torch_device, dtype=dtype, enabled=name in AUTOCAST_DTYPES):
            yield


def create_gradient_scaler(name: str, device: str) -> torch.amp.GradScaler:
    """Gradient scaler for fp16, whose gradients underflow without one; disabled for other formats."""
    return torch.amp.GradScaler(device, enabled=name == "fp16")


@contextlib.contextmanager
def _tf32(device: Device) -> Iterator[None]:
    if device.kind != "cuda":
        raise skip_exception("tf32 is a mode of NVIDIA's matrix units; this machine has none")
    # Not by allow_tf32, which is deprecated from torch 2.9 on:
    # https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    matmul: Any = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before
