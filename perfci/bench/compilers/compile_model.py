"""Compile a module in place by the value of a benchmark's parameter ``compile``."""

from __future__ import annotations

from typing import Any

from perfci.model import PerfciError

UNCOMPILED = (None, False, "", "none", "off", "eager")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


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
        model.compile(mode=None if choice is True else choice)
    return model
