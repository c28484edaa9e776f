"""Call the hooks of a model that ``perfci.toml`` names by the dotted names of the user's own functions."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from perfci.bench.name_suggestions import suggest_name


def call_hook(device: str, model_name: str, hook_name: str, dotted_name: str, *arguments: Any) -> Any:
    """Call the function that a ``[[model]]`` table names, with ``device=`` where its signature has that.

    Raises ``LookupError`` for a name that does not resolve, so that only the cells which need it fail.
    """
    function, takes_device = import_model_hook(model_name, hook_name, dotted_name)
    return function(*arguments, device=device) if takes_device else function(*arguments)


@functools.cache
def import_model_hook(model_name: str, hook_name: str, dotted_name: str) -> tuple[Callable[..., Any], bool]:
    """Find a function by its dotted name, once per process: ``loss`` is called in every timed step."""
    module_name, _, path = dotted_name.partition(":")
    subject = f"model {model_name!r} in perfci.toml has {hook_name} = {dotted_name!r}, but"
    try:
        target: Any = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise LookupError(f"{subject} importing {module_name} failed with {reason}") from error
    for name in path.split("."):
        if not hasattr(target, name):
            owner = getattr(target, "__name__", type(target).__name__)
            public_names = (candidate for candidate in dir(target) if not candidate.startswith("_"))
            raise LookupError(f"{subject} {owner} has no {name!r}{suggest_name(name, public_names)}")
        target = getattr(target, name)
    if not callable(target):
        raise LookupError(f"{subject} that is a {type(target).__name__} and cannot be called")
    return target, _takes_device(target)


def _takes_device(function: Callable[..., Any]) -> bool:
    try:
        device = inspect.signature(function).parameters.get("device")
    except (TypeError, ValueError):  # functions written in C may have no signature
        return False
    return device is not None and device.kind in (device.POSITIONAL_OR_KEYWORD, device.KEYWORD_ONLY)
