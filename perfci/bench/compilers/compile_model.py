"""Compile a module in place by the value of a benchmark's parameter ``compile``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from perfci.bench.readings import skip_exception
from perfci.model import PerfciError

UNCOMPILED = (None, False, "", "none", "off", "eager")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

COMPILER_MISSING_ERRORS = ("InvalidCxxCompiler", "TritonMissing", "No module named 'torch._inductor")
"""How inductor says that what it needs is not installed."""


def compile_model(model: Any, choice: Any) -> Any:
    """Compile a module with ``nn.Module.compile``, so that calls from its own methods are compiled as well.

    ``choice`` is True, a mode of ``torch.compile``, or one of ``UNCOMPILED``. A module that ``build``
    compiled itself stays as it is. Raises ``PerfciError`` for another value, and for what is no module.
    """
    if choice in UNCOMPILED:
        return model
    if choice is not True and choice not in COMPILE_MODES:
        raise PerfciError(
            f"compile {choice!r} is unknown; known are True, False, {', '.join(COMPILE_MODES)}, or define "
            "compile(self, model, p)"
        )
    from torch import nn
    from torch._dynamo import OptimizedModule

    if not isinstance(model, nn.Module):
        raise PerfciError(
            f"build returned {type(model).__name__}, which has no compile(); define compile(self, model, p)"
        )
    if not isinstance(model, OptimizedModule) and model._compiled_call_impl is None:
        mode = None if choice is True else choice
        if model.forward.__module__.startswith("torch."):
            _compile_call(model, mode)
        else:
            model.compile(mode=mode)
    return model


def _compile_call(model: Any, mode: str | None) -> None:
    """Compile a module whose ``forward`` is torch's own, in place: ``nn.Sequential``, ``nn.Transformer``.

    Dynamo skips frames of torch's files, so ``Module.compile`` compiles nothing of them, or each of their
    parts by itself. A function of ours around the call is a frame that it reads as a whole.
    """
    import torch

    def call_model(*args: Any, **kwargs: Any) -> Any:
        return model._call_impl(*args, **kwargs)

    model._compiled_call_impl = torch.compile(call_model, mode=mode)


def require_compiled_graphs(choice: Any) -> None:
    """Raise ``PerfciError`` where a model should have been compiled, and dynamo compiled nothing so far."""
    if choice in UNCOMPILED:
        return
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None or not dynamo.counters["stats"]["unique_graphs"]:
        raise PerfciError(
            f"compile {choice!r} compiled nothing: calls of the model are compiled, and the hooks call "
            "another method of it; call the model itself, or define compile(self, model, p)"
        )


@contextlib.contextmanager
def missing_compiler_as_skip() -> Iterator[None]:
    """Skip a cell where inductor has no compiler of C++ or no Triton, with its reason."""
    try:
        yield
    except Exception as error:
        reason = next(filter(None, map(str.strip, str(error).splitlines())), "")
        if not any(missing in str(error) for missing in COMPILER_MISSING_ERRORS):
            raise
        raise skip_exception(f"inductor has no compiler here: {reason}") from error
