"""The view model of disagreements: benchmarks whose places moved in opposite directions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import Series
from perfci.report.serializers import serialize_series
from perfci.store.incidents.recorded_changes import RecordedChange
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_series_cells

MIN_LOG_RATIO = math.log(1.02)
"""What several changes of one series come to together counts from two per cent on."""

CSV_COLUMNS = (*SERIES_COLUMNS, "relative_change", "worse", "commits")


@dataclass(frozen=True, slots=True)
class MovedPlace:
    """What the changes of one series come to together, and the last of them."""

    series: Series
    ratio: float
    changes: tuple[RecordedChange, ...]

    @property
    def log_cost(self) -> float:
        """Above zero for the worse."""
        return math.log(self.ratio) * self.series.metric.cost_sign

    @property
    def is_worse(self) -> bool:
        return self.log_cost > 0

    @property
    def last(self) -> RecordedChange:
        return self.changes[0]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One benchmark, parameter set and metric with its places, the worst first."""

    moves: tuple[MovedPlace, ...]

    @property
    def series(self) -> Series:
        return self.moves[0].series

    @property
    def size(self) -> float:
        """How far the worst and the best place are apart, as ``log``."""
        return self.moves[0].log_cost - self.moves[-1].log_cost


def find_disagreements(changes: Iterable[RecordedChange]) -> list[Disagreement]:
    """Find them among changes, given newest first; those farthest apart come first."""
    of_series: dict[Series, list[RecordedChange]] = defaultdict(list)
    for recorded in changes:
        if recorded.change.before > 0 and recorded.change.after > 0:
            of_series[recorded.change.series].append(recorded)
    of_benchmark: dict[object, list[MovedPlace]] = defaultdict(list)
    for series, members in of_series.items():
        ratio = math.prod(1 + each.change.relative_change for each in members)
        move = MovedPlace(series, ratio, tuple(members))
        if abs(move.log_cost) >= MIN_LOG_RATIO:
            of_benchmark[series.benchmark.name, series.parameters, series.metric].append(move)
    disagreements = [
        Disagreement(tuple(sorted(moves, key=lambda move: -move.log_cost)))
        for moves in of_benchmark.values()
        if {move.is_worse for move in moves} == {True, False} and _places_differ(moves)
    ]
    return sorted(disagreements, key=lambda each: (-each.size, each.series.label))


def _places_differ(moves: Sequence[MovedPlace]) -> bool:
    """Whether the series are of two machines or variants, not of two versions at one."""
    return len({(move.series.machine, move.series.variant) for move in moves}) > 1


def serialize_disagreements(project: str, disagreements: Iterable[Disagreement]) -> dict[str, Any]:
    """Return the JSON of the page."""
    return {
        "project": project,
        "items": [
            {
                "moves": [
                    {
                        "series": serialize_series(move.series),
                        "relative_change": move.ratio - 1,
                        "worse": move.is_worse,
                        "commits": [each.change.commit for each in move.changes],
                    }
                    for move in each.moves
                ]
            }
            for each in disagreements
        ],
    }


def build_csv_row(move: MovedPlace) -> dict[str, Any]:
    """Build the line of one place; its commits are the newest first."""
    commits = " ".join(each.change.commit for each in move.changes)
    fields = {"relative_change": move.ratio - 1, "worse": move.is_worse, "commits": commits}
    return build_series_cells(move.series) | fields
