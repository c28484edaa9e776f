"""Hooks of a model that are functions of the user's own modules, named in ``perfci.toml`` by their dotted names."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench


def call_hook(device: ModelBench, model_name: str, hook_name: str, dotted_name: str, *arguments: Any) -> Any:
    """Call what a ``[[model]]`` table names, with the hook's arguments and ``device=`` where it takes that.

    Raises ``LookupError`` where the name leads nowhere, so that it fails the cells that need it and no others.
    """
    function, takes_device = resolve_hook(model_name, hook_name, dotted_name)
    return function(*arguments, device=device.device) if takes_device else function(*arguments)


@functools.cache
def resolve_hook(model_name: str, hook_name: str, dotted_name: str) -> tuple[Callable[..., Any], bool]:
    """Find a function by its dotted name, once per process: ``loss`` is called in every timed step."""
    module_name, _, path = dotted_name.partition(":")
    said = f"model {model_name!r} in perfci.toml has {hook_name} = {dotted_name!r}, but"
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise LookupError(f"{said} importing {module_name} failed with {reason}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            where = getattr(found, "__name__", type(found).__name__)
            raise LookupError(f"{said} {where} has no {name!r}{_suggest_name(name, found)}")
        found = getattr(found, name)
    if not callable(found):
        raise LookupError(f"{said} that is a {type(found).__name__} and cannot be called")
    return found, _takes_device(found)


def _suggest_name(name: str, owner: Any) -> str:
    close = difflib.get_close_matches(name, [known for known in dir(owner) if not known.startswith("_")], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _takes_device(function: Callable[..., Any]) -> bool:
    try:
        device = inspect.signature(function).parameters.get("device")
    except (TypeError, ValueError):  # a function written in C may not tell what it takes
        return False
    return device is not None and device.kind in (device.POSITIONAL_OR_KEYWORD, device.KEYWORD_ONLY)
