"""What a bench prints: one line per figure, with the limit it is held to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Figure:
    """``good`` is nothing where the machine is too restless to tell; a figure without a limit is always
    good.
    """

    name: str
    value: str
    limit: str = ""
    good: bool | None = True

    def __str__(self) -> str:
        held = {True: "held", False: "BROKEN", None: "inconclusive"}[self.good]
        return f"{self.name:<42} {self.value}" + (f"  (limit {self.limit}: {held})" if self.limit else "")


def print_figures_and_exit(figures: Iterable[Figure]) -> NoReturn:
    """Print each figure as soon as it is known, and exit with 1 unless all limits were held."""
    good = True
    for figure in figures:
        print(figure, flush=True)
        good = good and bool(figure.good)
    sys.exit(0 if good else 1)
