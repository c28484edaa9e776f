"""What the address of a comparison selects of its table: rows, groups, columns, order and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from perfci.model import Series
from perfci.report.comparisons.comparison_rows import ComparisonRow, Outcome, choose_axis_span
from perfci.report.comparisons.group_summaries import GROUPINGS, GroupSummary, group_rows
from perfci.report.comparisons.row_table import ORDERS, OUTCOME_CODES, Column, Order, RowTable
from perfci.store.queries.query_records import series_matches_search
from perfci_web.view_parts.list_search_and_paging import PAGE_ROWS

ATTENTION, ALL, CONTEXT, EXPLAINING = "attention", "all", "context", "explaining"

OUTCOME_FILTERS: Mapping[str, frozenset[Outcome]] = {
    "worse": frozenset({Outcome.WORSE, Outcome.LIKELY_WORSE}),
    "better": frozenset({Outcome.BETTER, Outcome.LIKELY_BETTER}),
    "undecided": frozenset({Outcome.UNDECIDED, Outcome.UNKNOWN}),
    "unchanged": frozenset({Outcome.UNCHANGED, Outcome.WITHIN_NOISE}),
    "missing": frozenset({Outcome.MISSING}),
}

FILTER_TITLES: Mapping[str, str] = {
    ATTENTION: "Needs attention",
    ALL: "All",
    "worse": "Worse",
    "better": "Better",
    "undecided": "Undecided",
    "unchanged": "Unchanged",
    "missing": "Missing",
    EXPLAINING: "Explaining",
    CONTEXT: "Context metrics",
}
"""The filters by the word in the address, in the order in which they are offered."""

SIMPLE, EXPERT = "", "expert"


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What an address selects; ``show`` is empty where it leaves the choice to the page."""

    search: str = ""
    show: str = ""
    group: str = ""
    sort: Order = "severity"
    columns: str = SIMPLE
    page: int = 1

    @property
    def address_fields(self) -> dict[str, object]:
        """The query of a link to the same table; what is the default is left out."""
        return {
            "q": self.search,
            "show": self.show,
            "group": self.group,
            "sort": "" if self.sort == "severity" else self.sort,
            "columns": self.columns,
            "page": self.page if self.page > 1 else "",
        }

    def changed(self, **fields: Any) -> dict[str, object]:
        """The query of a link to another view of the table, from its first page."""
        return replace(self, page=1, **fields).address_fields

    def on_page(self, page: int) -> dict[str, object]:
        return replace(self, page=page).address_fields


def parse_table_query(arguments: Mapping[str, str]) -> TableQuery:
    """Read the query of an address; a value that makes no sense is left out."""
    values = {name: arguments.get(name, "").strip() for name in ("q", "show", "group", "sort", "columns")}
    page = arguments.get("page", "")
    return TableQuery(
        search=values["q"],
        show=values["show"] if values["show"] in FILTER_TITLES else "",
        group=values["group"] if values["group"] in GROUPINGS else "",
        sort=next((order for order in ORDERS if order == values["sort"]), "severity"),
        columns=EXPERT if values["columns"] == EXPERT else SIMPLE,
        page=max(1, int(page)) if page.isdecimal() and len(page) < 10 else 1,
    )


@dataclass(frozen=True, slots=True)
class FilterTab:
    """One filter with the number of rows that it leaves of the search."""

    name: str
    title: str
    count: int


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """The page of a table that an address selects.

    ``shown`` is the filter in force. ``groups`` are the rows of this page by the name of their group;
    ``summaries`` what the whole groups came to, by name. ``total`` counts the rows of the filter, and
    ``neighbours`` are the series that tell how to name the places of those that are shown.
    """

    query: TableQuery
    shown: str
    tabs: tuple[FilterTab, ...]
    groups: Mapping[str, Sequence[ComparisonRow]]
    summaries: Mapping[str, GroupSummary]
    total: int
    page: int
    pages: int
    neighbours: Sequence[Series]

    @property
    def rows(self) -> list[ComparisonRow]:
        return [row for rows in self.groups.values() for row in rows]

    @property
    def span(self) -> float:
        """The largest ratio on the axis of the interval bars."""
        return choose_axis_span(self.rows)

    @property
    def is_expert(self) -> bool:
        return self.query.columns == EXPERT


def build_comparison_table(rows: RowTable, query: TableQuery) -> ComparisonTable:
    """Search, filter, sort, group and cut the rows of a comparison."""
    matches = rows
    if query.search:
        is_match = [series_matches_search(series, query.search) for series in rows.series]
        matches = rows.where(np.array(is_match, bool))
    tabs = tuple(
        FilterTab(name, title, int(_is_shown(matches.columns, name).sum()))
        for name, title in FILTER_TITLES.items()
    )
    shown = query.show or (ATTENTION if tabs[0].count else ALL)
    chosen = matches.where(_is_shown(matches.columns, shown)).sort(query.sort)
    grouped = group_rows(chosen, query.group)
    ordered = [(group, number) for group in grouped for number in range(len(group.rows))]
    pages = max(1, -(-len(ordered) // PAGE_ROWS))
    page = min(query.page, pages)
    groups: dict[str, list[ComparisonRow]] = {}
    labels: set[int] = set()
    for group, cut in groupby(ordered[(page - 1) * PAGE_ROWS : page * PAGE_ROWS], key=itemgetter(0)):
        on_page = group.rows.take(np.array([number for _, number in cut]))
        groups[group.name] = list(on_page)
        labels.update(on_page.columns["label"].tolist())
    return ComparisonTable(
        replace(query, page=page),
        shown,
        tuple(tab for tab in tabs if tab.count or tab.name in (ALL, shown)),
        groups,
        {group.name: group for group in grouped},
        len(ordered),
        page,
        pages,
        rows.list_neighbours(labels),
    )


def _is_shown(columns: Column, show: str) -> Column:
    """Which rows a filter leaves; context metrics and explaining verdicts have filters of their own."""
    is_left: Column = ~columns["is_context"] & ~columns["explains"]
    if show == CONTEXT:
        is_left = columns["is_context"]
    elif show == EXPLAINING:
        is_left = columns["explains"]
    elif show == ATTENTION:
        is_left &= columns["needs_attention"]
    elif show != ALL:
        is_left &= np.isin(columns["outcome"], [OUTCOME_CODES[each] for each in OUTCOME_FILTERS[show]])
    return is_left
