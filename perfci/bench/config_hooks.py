"""Call the hooks of a model that ``perfci.toml`` names by the dotted names of the user's own functions."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from perfci.bench.name_suggestions import format_name_suggestion


def call_hook(
    device: str, model_name: str, hook_name: str, dotted_name: str, *arguments: Any, **offered: Any
) -> Any:
    """Call the function that a ``[[model]]`` table names, with those of ``offered`` that its signature names.

    ``device`` is always offered. Raises ``LookupError`` for a name that does not resolve, so that only the
    cells which need it fail.
    """
    function, named = import_model_hook(model_name, hook_name, dotted_name)
    options = {"device": device, **offered}
    return function(*arguments, **{name: options[name] for name in named if name in options})


@functools.cache
def import_model_hook(
    model_name: str, hook_name: str, dotted_name: str
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Find a function by its dotted name, and the names of its arguments that can be given by name.

    Once per process: ``loss`` is called in every timed step.
    """
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
            raise LookupError(
                f"{subject} {owner} has no {name!r}{format_name_suggestion(name, public_names)}"
            )
        target = getattr(target, name)
    if not callable(target):
        raise LookupError(f"{subject} that is a {type(target).__name__} and cannot be called")
    return target, _named_arguments(target)


def _named_arguments(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # functions written in C may have no signature
        return ()
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return tuple(argument.name for argument in arguments if argument.kind in kinds)
