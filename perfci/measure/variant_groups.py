"""Which cells of a suite are variants of each other: one benchmark, some parameters set apart, all others equal."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import Pairs, PerfciError
from perfci.report.escaping import unquoted
from perfci.runner.frozen_suite import Cell

Assignment = Mapping[str, str]
"""The values of the parameters that are set apart."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One ``--vary``: a parameter and the values to compare, the baseline first."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Axis:
        name, equals, values = (part.strip() for part in text.partition("="))
        chosen = tuple(value.strip() for value in values.split(","))
        if not name or not equals or len(set(chosen)) < len(chosen) or len(chosen) < 2 or not all(chosen):
            raise PerfciError(
                f"--vary {text!r}: a parameter and two or more different values were expected, such as attn=sdpa,flash"
            )
        return cls(name, chosen)


@dataclass(frozen=True, slots=True)
class Family:
    """The cells of one benchmark that differ in nothing else, by the number of their assignment; 0 is the baseline."""

    benchmark: str
    rest: Pairs
    cells: Mapping[int, Cell]

    @property
    def varied(self) -> tuple[str, ...]:
        """The parameters that are set apart."""
        return tuple(name for name, _ in self.cells[0].parameters if name not in dict(self.rest))


def assignments_of(axes: Sequence[Axis]) -> list[Assignment]:
    """Every combination of the values, the first of each together being the baseline."""
    if twice := next((axis.name for k, axis in enumerate(axes) if axis.name in {a.name for a in axes[:k]}), ""):
        raise PerfciError(f"--vary names the parameter {twice} twice: give all its values at once, as in {twice}=a,b,c")
    return [
        dict(zip((axis.name for axis in axes), values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    ]


def families(cells: Iterable[Cell], assignments: Sequence[Assignment]) -> list[Family]:
    """Group the cells that an assignment speaks of; those without the baseline or with nothing beside it stay out."""
    names = assignments[0].keys()
    having = [cell for cell in cells if names <= dict(cell.parameters).keys()]
    grouped: dict[tuple[str, Pairs], dict[int, Cell]] = {}
    for cell in having:
        rest = tuple((name, value) for name, value in cell.parameters if name not in names)
        for number, assignment in enumerate(assignments):
            if all(is_value(dict(cell.parameters)[name], value) for name, value in assignment.items()):
                grouped.setdefault((cell.benchmark, rest), {})[number] = cell
    return [
        Family(benchmark, rest, dict(sorted(found.items())))
        for (benchmark, rest), found in grouped.items()
        if 0 in found and len(found) > 1
    ]


def require_known(cells: Sequence[Cell], assignments: Sequence[Assignment], what: str) -> None:
    """One sentence for a parameter or a value that no benchmark has, listing what there is; ``what`` begins it."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.parameters:
            values.setdefault(name, {})[unquoted(value)] = None
    for name, asked in (pair for assignment in assignments for pair in assignment.items()):
        if name not in values:
            there = f"there are {_listed(values)}" if values else "the benchmarks have no parameters"
            raise PerfciError(f"{what}: no benchmark here has a parameter {name!r}{_close(name, values)}; {there}")
        if not any(is_value(value, asked) for value in values[name]):
            close = _close(asked, values[name])
            raise PerfciError(f"{what}: {name} has no value {asked!r}{close}; it has {_listed(values[name])}")
    if not families(cells, assignments):
        told = ", ".join(f"{name}={value}" for name, value in assignments[0].items())
        raise PerfciError(f"{what}: no benchmark has both {told} and another of the variants, all else being equal")


def is_value(value: str, asked: str) -> bool:
    """Parameters are stored as Python writes them, so a text has quotes that nobody types."""
    return asked in (value, unquoted(value))


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _close(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
