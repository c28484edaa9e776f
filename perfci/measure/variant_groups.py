"""Group the cells of a suite into variants: one benchmark, some parameters varied, all others equal."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import NamedValues, PerfciError
from perfci.report.escaping import strip_parameter_quotes
from perfci.runner.suite_cells import Cell

ParameterAssignment = Mapping[str, str]
"""The value of each varied parameter, by its name."""


@dataclass(frozen=True, slots=True)
class VariantAxis:
    """One ``--vary``: a parameter and the values to compare, the baseline first."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> VariantAxis:
        """Parse ``name=value,value``; raise where a value is missing or repeated."""
        name, separator, values = (part.strip() for part in text.partition("="))
        parsed = tuple(value.strip() for value in values.split(","))
        if not name or not separator or len(set(parsed)) < len(parsed) or len(parsed) < 2 or not all(parsed):
            raise PerfciError(
                f"--vary {text!r}: a parameter and two or more different values were expected, "
                "such as attn=sdpa,flash"
            )
        return cls(name, parsed)


@dataclass(frozen=True, slots=True)
class VariantGroup:
    """The cells of one benchmark that differ only in the varied parameters, by assignment number.

    0 is the baseline.
    """

    benchmark: str
    shared_parameters: NamedValues
    cells: Mapping[int, Cell]

    @property
    def varied_parameters(self) -> tuple[str, ...]:
        """The names of the varied parameters, in the order of the benchmark."""
        return tuple(name for name, _ in self.cells[0].parameters if name not in dict(self.shared_parameters))


def build_assignments(axes: Sequence[VariantAxis]) -> list[ParameterAssignment]:
    """Every combination of the values; the first value of each axis makes the baseline."""
    names = [axis.name for axis in axes]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise PerfciError(
                f"--vary names the parameter {name} twice: give all its values at once, as in {name}=a,b,c"
            )
    combinations = itertools.product(*(axis.values for axis in axes))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def group_variants(cells: Iterable[Cell], assignments: Sequence[ParameterAssignment]) -> list[VariantGroup]:
    """Group the cells that match an assignment.

    A group without the baseline, or with nothing else, is left out.
    """
    names = assignments[0].keys()
    grouped: dict[tuple[str, NamedValues], dict[int, Cell]] = {}
    for cell in cells:
        parameters = dict(cell.parameters)
        if not names <= parameters.keys():
            continue
        shared = tuple((name, value) for name, value in cell.parameters if name not in names)
        for number, assignment in enumerate(assignments):
            if all(matches_typed_value(parameters[name], value) for name, value in assignment.items()):
                grouped.setdefault((cell.benchmark, shared), {})[number] = cell
    return [
        VariantGroup(benchmark, shared, dict(sorted(members.items())))
        for (benchmark, shared), members in grouped.items()
        if 0 in members and len(members) > 1
    ]


def validate_variant_assignments(
    cells: Sequence[Cell], assignments: Sequence[ParameterAssignment], source: str
) -> None:
    """Raise for a parameter or a value that no benchmark has, with those there are.

    ``source`` begins the sentence.
    """
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.parameters:
            values.setdefault(name, {})[strip_parameter_quotes(value)] = None
    for name, typed in (pair for assignment in assignments for pair in assignment.items()):
        if name not in values:
            existing = f"there are {_format_list(values)}" if values else "the benchmarks have no parameters"
            raise PerfciError(
                f"{source}: no benchmark here has a parameter {name!r}"
                f"{_suggest_name(name, values)}; {existing}"
            )
        if not any(matches_typed_value(value, typed) for value in values[name]):
            suggestion = _suggest_name(typed, values[name])
            raise PerfciError(
                f"{source}: {name} has no value {typed!r}{suggestion}; it has {_format_list(values[name])}"
            )
    if not group_variants(cells, assignments):
        baseline = format_assignment(assignments[0])
        raise PerfciError(
            f"{source}: no benchmark has both {baseline} and another of the variants, all else being equal"
        )


def matches_typed_value(value: str, typed: str) -> bool:
    """Compare a stored value with one a user typed.

    Values are stored as Python literals, so texts have quotes.
    """
    return typed in (value, strip_parameter_quotes(value))


def format_assignment(assignment: ParameterAssignment) -> str:
    """An assignment as ``name=value, name=value``."""
    return ", ".join(f"{name}={value}" for name, value in assignment.items())


def _format_list(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _suggest_name(name: str, candidates: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(candidates), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
