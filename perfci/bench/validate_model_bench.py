"""Check the names a ``ModelBench`` class uses: a misspelt one is an error and no silent default."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from perfci.bench.bound_model_hooks import STEP_ARGUMENTS
from perfci.bench.name_suggestions import format_suggestion_or_known_names
from perfci.model import PerfciError

MISSPELLING_CUTOFF = 0.8
"""Similarity from which an attribute is a misspelt hook: ``strem`` has 0.91, ``batch_size`` 0.67."""

PRECISION_PARAMETERS = ("dtype", "precision")
"""Parameters from which a benchmark takes the number format it computes in, the first before the second."""


class CellParameters(dict[str, Any]):
    """The parameters of one cell by name, as hooks get them; a name that is none of them says what is."""

    def __missing__(self, name: str) -> Any:
        raise KeyError(
            f"the benchmark has no parameter {name!r}{format_suggestion_or_known_names(name, self)}"
        )


def check_groups(owner: str, groups: Sequence[str], known_groups: Sequence[str]) -> None:
    """Raise ``PerfciError`` for a metric group that does not exist."""
    if isinstance(groups, str):
        raise PerfciError(f"{owner}.groups is a string; write groups = ({groups!r},)")
    for group in groups:
        if group not in known_groups:
            hint = format_suggestion_or_known_names(group, known_groups)
            raise PerfciError(f"{owner}.groups names {group!r}, which is no metric group{hint}")


def check_hooks(owner: str, hooks: Mapping[str, Any]) -> None:
    """Raise ``PerfciError`` for a hook that cannot be called, such as a number kept under its name."""
    for name, value in hooks.items():
        if value is not None and not callable(value):
            raise PerfciError(
                f"{owner}.{name} is {value!r}, but ModelBench calls {name} as a hook; "
                f"make it a method, or call it _{name} if it is your own"
            )


def check_attribute_names(
    owner: str, attributes: Mapping[str, Any], hooks: Iterable[str], settings: Iterable[str]
) -> None:
    """Raise ``PerfciError`` for an attribute that looks like a misspelt hook or setting.

    ``hooks`` and ``settings`` are those the class could still define: beside a ``batch`` a method called
    ``batches`` is somebody's own. Names with an underscore in front are never taken for a misspelling.
    """
    hooks, settings = list(hooks), list(settings)
    for name, value in attributes.items():
        candidates = hooks if callable(value) else settings
        close = difflib.get_close_matches(name, candidates, n=1, cutoff=MISSPELLING_CUTOFF)
        if close and not name.startswith("_"):
            raise PerfciError(
                f"{owner}.{name} is nothing that ModelBench knows; did you mean {close[0]!r}? "
                f"Call it _{name} if it is your own"
            )


def check_parameters(
    owner: str, grid: Mapping[str, Sequence[Any]], reference: Mapping[str, Any], precisions: Sequence[str]
) -> None:
    """Raise ``PerfciError`` for a reference in unknown parameters, and for ``precisions`` under another name.

    A misspelt reference would compare every variant with itself. Where there are no parameters at all, the
    reference may set one that ``build`` asks for with a default.
    """
    for name in reference if grid else ():
        if name not in grid:
            hint = format_suggestion_or_known_names(name, grid)
            raise PerfciError(f"{owner}.reference sets {name!r}, which is no parameter of it{hint}")
    for name, values in grid.items():
        close = difflib.get_close_matches(name, PRECISION_PARAMETERS, n=1, cutoff=MISSPELLING_CUTOFF)
        if close and name not in PRECISION_PARAMETERS and any(value in precisions for value in values):
            raise PerfciError(
                f"{owner}.params has {name!r}; did you mean {close[0]!r}? "
                "A number format under another name has no effect"
            )


def check_step_arguments(owner: str, step: Callable[..., Any]) -> None:
    """Raise ``PerfciError`` where ``step`` asks for an argument that nobody gives it.

    Expected are ``self``, the model and the batch under any name, then names of ``STEP_ARGUMENTS``.
    """
    arguments = list(inspect.signature(step).parameters.values())
    for argument in arguments[3:]:
        is_required = argument.default is argument.empty and argument.kind is argument.POSITIONAL_OR_KEYWORD
        if is_required and argument.name not in STEP_ARGUMENTS:
            hint = format_suggestion_or_known_names(argument.name, STEP_ARGUMENTS)
            raise PerfciError(f"{owner}.step asks for {argument.name!r}, which no step is given{hint}")
