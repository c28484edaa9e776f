"""Which cells of a suite are variants of each other: one benchmark, some parameters set apart, all others equal."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import NamedValues, PerfciError
from perfci.report.escaping import strip_quotes
from perfci.runner.frozen_suite import Cell

ParameterAssignment = Mapping[str, str]
"""The values of the parameters that are set apart."""


@dataclass(frozen=True, slots=True)
class VariantAxis:
    """One ``--vary``: a parameter and the values to compare, the baseline first."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> VariantAxis:
        name, equals, values = (part.strip() for part in text.partition("="))
        chosen = tuple(value.strip() for value in values.split(","))
        if not name or not equals or len(set(chosen)) < len(chosen) or len(chosen) < 2 or not all(chosen):
            raise PerfciError(
                f"--vary {text!r}: a parameter and two or more different values were expected, such as attn=sdpa,flash"
            )
        return cls(name, chosen)


@dataclass(frozen=True, slots=True)
class VariantGroup:
    """The cells of one benchmark that differ in nothing else, by the number of their assignment; 0 is the baseline."""

    benchmark: str
    shared_parameters: NamedValues
    cells: Mapping[int, Cell]

    @property
    def varied_parameters(self) -> tuple[str, ...]:
        """The parameters that are set apart."""
        return tuple(name for name, _ in self.cells[0].parameters if name not in dict(self.shared_parameters))


def build_assignments(axes: Sequence[VariantAxis]) -> list[ParameterAssignment]:
    """Every combination of the values, the first of each together being the baseline."""
    if twice := next(
        (axis.name for k, axis in enumerate(axes) if axis.name in {a.name for a in axes[:k]}), ""
    ):
        raise PerfciError(
            f"--vary names the parameter {twice} twice: give all its values at once, as in {twice}=a,b,c"
        )
    return [
        dict(zip((axis.name for axis in axes), values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    ]


def group_variants(cells: Iterable[Cell], assignments: Sequence[ParameterAssignment]) -> list[VariantGroup]:
    """Group the cells that an assignment speaks of; those without the baseline or with nothing beside it stay out."""
    names = assignments[0].keys()
    having = [cell for cell in cells if names <= dict(cell.parameters).keys()]
    grouped: dict[tuple[str, NamedValues], dict[int, Cell]] = {}
    for cell in having:
        rest = tuple((name, value) for name, value in cell.parameters if name not in names)
        for number, assignment in enumerate(assignments):
            if all(is_same_value(dict(cell.parameters)[name], value) for name, value in assignment.items()):
                grouped.setdefault((cell.benchmark, rest), {})[number] = cell
    return [
        VariantGroup(benchmark, rest, dict(sorted(found.items())))
        for (benchmark, rest), found in grouped.items()
        if 0 in found and len(found) > 1
    ]


def require_known_parameters(
    cells: Sequence[Cell], assignments: Sequence[ParameterAssignment], source: str
) -> None:
    """One sentence for a parameter or a value that no benchmark has, listing what there is; ``what`` begins it."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.parameters:
            values.setdefault(name, {})[strip_quotes(value)] = None
    for name, asked in (pair for assignment in assignments for pair in assignment.items()):
        if name not in values:
            there = f"there are {_format_list(values)}" if values else "the benchmarks have no parameters"
            raise PerfciError(
                f"{source}: no benchmark here has a parameter {name!r}{_suggest_name(name, values)}; {there}"
            )
        if not any(is_same_value(value, asked) for value in values[name]):
            close = _suggest_name(asked, values[name])
            raise PerfciError(
                f"{source}: {name} has no value {asked!r}{close}; it has {_format_list(values[name])}"
            )
    if not group_variants(cells, assignments):
        told = ", ".join(f"{name}={value}" for name, value in assignments[0].items())
        raise PerfciError(
            f"{source}: no benchmark has both {told} and another of the variants, all else being equal"
        )


def is_same_value(value: str, typed: str) -> bool:
    """Parameters are stored as Python writes them, so a text has quotes that nobody types."""
    return typed in (value, strip_quotes(value))


def _format_list(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _suggest_name(name: str, candidates: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(candidates), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
