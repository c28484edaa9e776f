"""Call code whose signature changed over the commits that a suite measures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Returned = TypeVar("Returned")


def call_with_accepted(function: Callable[..., Returned], *arguments: Any, **named: Any) -> Returned:
    """Call a function or class with those named arguments that it accepts, and leave out the others.

    A suite of the newest commit builds every older one: what these do not know yet, they do without.

    :raises ValueError: the signature cannot be read (some functions written in C).
    """
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return function(*arguments, **named)
    accepted = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    return function(*arguments, **{name: value for name, value in named.items() if name in accepted})
