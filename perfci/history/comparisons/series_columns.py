"""The series of a project as columns: what long lists are searched, sorted and grouped by."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session as Transaction

from perfci.model import CPU_METRIC_PREFIX, Series
from perfci.store.derived_values import load_or_derive_of_series
from perfci.store.queries.query_records import build_search_text
from perfci.store.queries.series_commits_machines import load_all_project_series

Column = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesColumns:
    """Series by place, in the order of their ids.

    ``cells`` and ``labels`` sort as the names do; ``processes`` are equal where the same processes measured
    several metrics, ``cases`` where only machine and variant may differ, ``machines`` and ``variants`` where
    these are equal.
    ``walls`` is the place of the series that reads a CPU time by the wall clock, -1 without one.
    """

    ids: Column
    series: Sequence[Series]
    places: Mapping[Series, int]
    cells: Column
    labels: Column
    processes: Column
    cases: Column
    machines: Column
    variants: Column
    walls: Column
    cost_signs: Column
    search_texts: Sequence[str]

    @classmethod
    def build(cls, series_by_id: Mapping[int, Series]) -> SeriesColumns:
        """Number the names and groups of series."""
        ids = sorted(series_by_id)
        series = [series_by_id[row_id] for row_id in ids]
        processes = _number(item.key_without_metric for item in series)
        metrics = {
            (group, item.metric.name): place
            for place, (group, item) in enumerate(zip(processes, series, strict=True))
        }
        walls = [
            metrics.get((group, item.metric.name.removeprefix(CPU_METRIC_PREFIX)), -1)
            if item.metric.name.startswith(CPU_METRIC_PREFIX)
            else -1
            for group, item in zip(processes, series, strict=True)
        ]
        return cls(
            np.array(ids, np.int64),
            series,
            {item: place for place, item in enumerate(series)},
            _rank([item.cell for item in series]),
            _rank([item.label for item in series]),
            np.array(processes, np.int64),
            np.array(_number(map(_key_without_place, series)), np.int64),
            np.array(_number(item.machine for item in series), np.int64),
            np.array(_number(item.variant for item in series), np.int64),
            np.array(walls, np.int64),
            np.array([item.metric.cost_sign for item in series], np.float64),
            [build_search_text(item) for item in series],
        )

    def find_places(self, ids: Column) -> Column:
        """The places of series by id; those of other projects are left out."""
        places = np.searchsorted(self.ids, ids)
        return places[np.take(self.ids, places, mode="clip") == ids] if len(self.ids) else places[:0]

    def search(self, places: Column, search: str) -> Column:
        """Those of some places whose names have every word of a search."""
        words = search.lower().split()
        if not words:
            return places
        texts = self.search_texts
        return np.array(
            [place for place in places.tolist() if all(word in texts[place] for word in words)], np.int64
        )


def load_series_columns(tx: Transaction, project: str) -> SeriesColumns:
    """Load the columns of all series of a project, which readers share."""
    return load_or_derive_of_series(
        tx, project, "series columns", lambda: SeriesColumns.build(load_all_project_series(tx, project))
    )


def _key_without_place(series: Series) -> Hashable:
    return series.benchmark, series.parameters, series.metric, series.harness


def _number(keys: Iterable[Hashable]) -> list[int]:
    """The number of each key, equal for equal ones."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _rank(texts: Sequence[str]) -> Column:
    """The place of each text among all in order, equal for equal ones."""
    ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return np.array([ranks[text] for text in texts], np.int64)
