"""Number formats a benchmark names in its parameters, and what each of them asks of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from perfci.bench.devices.torch_devices import Device
from perfci.bench.readings import skip_exception
from perfci.model import PerfciError

AUTOCAST_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


@contextlib.contextmanager
def autocast_to(name: str, device: Device) -> Iterator[None]:
    """Autocast in ``bf16`` or ``fp16``; under ``fp32`` and ``tf32`` nothing is cast. For a forward pass.

    fp8 is no autocast: a model that uses it scales its own tensors, so it is not among the names here. A
    format that the device can only emulate skips the cell with that reason.
    """
    _check_precision_name(name)
    dtype = AUTOCAST_DTYPES.get(name, torch.bfloat16)
    refusal = device.unsupported_dtype_reason(dtype) if name in AUTOCAST_DTYPES else None
    if refusal:
        raise skip_exception(refusal)
    with torch.autocast(device.torch_device, dtype=dtype, enabled=name in AUTOCAST_DTYPES):
        yield


@contextlib.contextmanager
def float32_precision(name: str, device: Device) -> Iterator[None]:
    """Multiply and convolve fp32 tensors exactly under ``fp32``, in TF32 under ``tf32``; else as torch does.

    For whole steps: autograd remembers an autocast, but not what the products of its backward pass shall do.
    cuDNN has a switch of its own, which is on by default: without this, convolutions of an "fp32" step run
    in TF32. Skips the cell where the device has no TF32. Everything is restored afterwards.
    """
    _check_precision_name(name)
    if name == "tf32" and device.kind != "cuda":
        raise skip_exception("tf32 is a mode of NVIDIA's matrix units; this machine has none")
    if name in AUTOCAST_DTYPES:
        yield
        return
    before = Float32Switches.read()
    Float32Switches.with_all_set_to(tf32=name == "tf32").apply()
    try:
        yield
    finally:
        before.apply()


def create_gradient_scaler(
    name: str, device: str, initial_scale: float | None = None
) -> torch.amp.GradScaler:
    """Gradient scaler for fp16, whose gradients underflow without one; disabled for other formats.

    It begins at torch's 65536 where no other scale is given.
    """
    start = {} if initial_scale is None else {"init_scale": initial_scale}
    return torch.amp.GradScaler(device, enabled=name == "fp16", **start)


def _check_precision_name(name: str) -> None:
    if name not in PRECISIONS:
        raise PerfciError(f"precision {name!r} is unknown; known are {', '.join(PRECISIONS)}")


@dataclass(frozen=True, slots=True)
class Float32Switches:
    """What torch does to products of fp32 tensors: its older switches, and from torch 2.9 on one per backend.

    Both have to agree: reading an older one (inductor's templates do) raises where they contradict each
    other, and setting a newer one leaves the older as it was. So the older are set first, which sets the
    newer too. https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
    """

    matmul: str
    """Argument of ``torch.set_float32_matmul_precision``."""
    cudnn_tf32: bool
    backends: tuple[str | None, ...]
    """``fp32_precision`` of the backends, None where this torch has no such switch."""

    @classmethod
    def with_all_set_to(cls, *, tf32: bool) -> Float32Switches:
        precision = "tf32" if tf32 else "ieee"
        names = [None if backend is None else precision for backend in _float32_backends()]
        return cls("high" if tf32 else "highest", tf32, tuple(names))

    @classmethod
    def read(cls) -> Float32Switches:
        backends = tuple(getattr(backend, "fp32_precision", None) for backend in _float32_backends())
        matmul_tf32, *_, convolution_tf32, recurrent_tf32 = (name == "tf32" for name in backends)
        try:
            matmul = torch.get_float32_matmul_precision()
        except RuntimeError:  # somebody set the newer switch alone, so the older says the contrary
            matmul = "highest" if matmul_tf32 else "high"
        try:
            cudnn_tf32 = bool(torch.backends.cudnn.allow_tf32)
        except RuntimeError:
            cudnn_tf32 = not (convolution_tf32 and recurrent_tf32)
        return cls(matmul, cudnn_tf32, backends)

    def apply(self) -> None:
        torch.set_float32_matmul_precision(self.matmul)
        torch.backends.cudnn.allow_tf32 = self.cudnn_tf32
        for backend, precision in zip(_float32_backends(), self.backends, strict=True):
            if precision is not None:
                backend.fp32_precision = precision


def _float32_backends() -> tuple[Any, ...]:
    """What has a switch of its own: products on CUDA and the CPU, cuDNN's convolutions and RNNs."""
    candidates = (
        torch.backends.cuda.matmul,
        getattr(torch.backends.mkldnn, "matmul", None),
        getattr(torch.backends.cudnn, "conv", None),
        getattr(torch.backends.cudnn, "rnn", None),
    )
    return tuple(backend if hasattr(backend, "fp32_precision") else None for backend in candidates)
