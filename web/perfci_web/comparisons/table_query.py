"""What the address of a comparison selects of its table: rows, groups, columns, order and page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.report.comparisons.comparison_rows import (
    ComparisonRow,
    Outcome,
    choose_axis_span,
    sort_by_change,
    sort_by_name,
    sort_by_severity,
)
from perfci.report.comparisons.group_summaries import GROUPINGS, GroupSummary, group_rows
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

SORTS: Mapping[str, Callable[[Iterable[ComparisonRow]], list[ComparisonRow]]] = {
    "severity": sort_by_severity,
    "change": sort_by_change,
    "name": sort_by_name,
}

SIMPLE, EXPERT = "", "expert"


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What an address selects; ``show`` is empty where it leaves the choice to the page."""

    search: str = ""
    show: str = ""
    group: str = ""
    sort: str = "severity"
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

    def changed(self, **fields: str) -> dict[str, object]:
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
        sort=values["sort"] if values["sort"] in SORTS else "severity",
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

    ``shown`` is the filter in force. ``groups`` hold the rows of this page; ``summaries`` what the whole
    groups came to, by name. ``total`` counts the rows of the filter.
    """

    query: TableQuery
    shown: str
    tabs: tuple[FilterTab, ...]
    groups: tuple[GroupSummary, ...]
    summaries: Mapping[str, GroupSummary]
    total: int
    page: int
    pages: int

    @property
    def rows(self) -> list[ComparisonRow]:
        return [row for group in self.groups for row in group.rows]

    @property
    def span(self) -> float:
        """The largest ratio on the axis of the interval bars."""
        return choose_axis_span(self.rows)

    @property
    def is_expert(self) -> bool:
        return self.query.columns == EXPERT


def build_comparison_table(rows: Sequence[ComparisonRow], query: TableQuery) -> ComparisonTable:
    """Search, filter, sort, group and cut the rows of a comparison."""
    matches = [row for row in rows if not query.search or series_matches_search(row.series, query.search)]
    tabs = tuple(
        FilterTab(name, title, sum(_is_shown(row, name) for row in matches))
        for name, title in FILTER_TITLES.items()
    )
    shown = query.show or (ATTENTION if tabs[0].count else ALL)
    chosen = SORTS[query.sort](row for row in matches if _is_shown(row, shown))
    grouped = group_rows(chosen, query.group)
    ordered = [(group.name, row) for group in grouped for row in group.rows]
    pages = max(1, -(-len(ordered) // PAGE_ROWS))
    page = min(query.page, pages)
    on_page = ordered[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    names = dict.fromkeys(name for name, _ in on_page)
    return ComparisonTable(
        replace(query, page=page),
        shown,
        tuple(tab for tab in tabs if tab.count or tab.name in (ALL, shown)),
        tuple(_cut_group(name, on_page) for name in names),
        {group.name: group for group in grouped},
        len(ordered),
        page,
        pages,
    )


def _cut_group(name: str, rows: Iterable[tuple[str, ComparisonRow]]) -> GroupSummary:
    (group,) = group_rows([row for group_name, row in rows if group_name == name], "")
    return replace(group, name=name)


def _is_shown(row: ComparisonRow, show: str) -> bool:
    """Whether a filter leaves a row; context metrics and explaining verdicts have filters of their own."""
    if show == CONTEXT:
        return row.is_context
    if show == EXPLAINING:
        return row.explains
    if row.is_context or row.explains:
        return False
    if show == ATTENTION:
        return row.needs_attention
    return show == ALL or row.outcome in OUTCOME_FILTERS[show]
