"""Count FLOPs by a dispatch mode: by number format, with what is recomputed and what has no formula."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from torch._guards import active_fake_mode
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils.flop_counter import flop_registry

from perfci.bench.call_counts.flop_count_by_format import FlopCount, RunsOnlyCompiled
from perfci.bench.call_counts.flop_formulas import FLOP_FORMULAS, Arguments
from perfci.bench.call_counts.missing_flop_formulas import may_multiply_big_tensors
from perfci.bench.call_counts.operator_counter import list_tensors
from perfci.bench.memory_use.expand_fused_layers import run_fused_layer_expanded

FORMAT_NAMES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.int8: "int8",
    torch.uint8: "int8",
}
CHECKPOINT_FILE = torch.utils.checkpoint.__file__


class FlopCounter(TorchDispatchMode):  # type: ignore[misc]
    """Dispatch mode that counts floating point operations while it is entered.

    Operators that are made of others, and run as those, are taken apart first, so that only what torch cannot
    take apart needs a formula: perfci's own, or one registered with
    ``torch.utils.flop_counter.register_flop_formula``.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._flops_by_format: Counter[str] = Counter()
        self._recomputed = 0
        self._uncounted: Counter[str] = Counter()
        self._fake_mode: Any = None

    def __enter__(self) -> FlopCounter:
        """Remember whether all tensors are fake: under another fake mode only shapes are inferred, as DTensor
        does before its first call of an operator.
        """
        self._fake_mode = active_fake_mode()
        super().__enter__()
        return self

    def get_count(self) -> FlopCount:
        """What was counted so far."""
        return FlopCount(dict(self._flops_by_format), self._recomputed, dict(self._uncounted))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            raise RunsOnlyCompiled()
        if active_fake_mode() is not self._fake_mode:
            return func(*args, **kwargs)
        if any(map(is_traceable_wrapper_subclass_type, types)):
            return NotImplemented  # a tensor made of others (jagged, distributed) does its work on those
        result = run_fused_layer_expanded(self, func, args, kwargs)
        if result is NotImplemented and func.namespace != "prim" and not runs_as_one_kernel(func, args):
            with self:
                result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        result = func(*args, **kwargs)
        self._add(func, args, kwargs, result)
        return result

    def _add(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Add the operations of one call, or note that there is no formula for them."""
        packet = func._overloadpacket
        tensors = list_tensors((args, kwargs))
        if packet in FLOP_FORMULAS:
            flops = FLOP_FORMULAS[packet](_name_arguments(func, args, kwargs), result)
        elif packet in flop_registry:
            flops = int(flop_registry[packet](*args, **kwargs, out_val=result))
        else:
            if may_multiply_big_tensors(func, tensors):
                self._uncounted[str(packet).replace(".", "::")] += 1
            return
        self._flops_by_format[operator_number_format(func, tensors)] += flops
        if _is_recomputing():
            self._recomputed += flops


def runs_as_one_kernel(func: Any, args: Any) -> bool:
    """Whether an operator that could be taken apart has a kernel for the device of its arguments.

    So has the backward pass of SiLU: in parts it would be eight operators, with temporary tensors that no
    training step has.
    """
    return any(_has_kernel(func, tensor.device.type) for tensor in list_tensors(args))


@functools.cache
def _has_kernel(func: Any, device_type: str) -> bool:
    key = device_type.upper() if device_type in ("cpu", "cuda", "xpu", "mps") else "Meta"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def _name_arguments(func: Any, args: Any, kwargs: Any) -> Arguments:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def operator_number_format(func: Any, tensors: list[Any]) -> str:
    """The number format of an operator's factors; matrix units round fp32 to tf32 where torch lets them."""
    first = tensors[0]
    if first.dtype is torch.float32 and first.device.type == "cuda":
        return "tf32" if _fp32_precision(str(func)) == "tf32" else "fp32"
    return FORMAT_NAMES.get(first.dtype, str(first.dtype).removeprefix("torch."))


def _fp32_precision(operator_name: str) -> str:
    """torch's setting for products of fp32 numbers: cuDNN has its own for convolutions and recurrences."""
    if "conv" in operator_name:
        return str(torch.backends.cudnn.conv.fp32_precision)
    if "rnn" in operator_name:
        return str(torch.backends.cudnn.rnn.fp32_precision)
    return str(torch.backends.cuda.matmul.fp32_precision)


def _is_recomputing() -> bool:
    """Whether activation checkpointing runs a forward pass again.

    It does so inside a backward pass, with gradients on, and the stack of this thread leads through
    ``torch.utils.checkpoint``.
    """
    if torch._C._current_graph_task_id() == -1 or not torch.is_grad_enabled():
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == CHECKPOINT_FILE:
            return True
        frame = frame.f_back
    return False
