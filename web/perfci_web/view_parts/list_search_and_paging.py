"""Pages of long lists: one page of the site may hold several, each searched, cut and paged by its address."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from perfci.model import Series
from perfci.store.queries.query_records import series_matches_search
from perfci_web.view_parts.table_row_groups import CellRows

RowT = TypeVar("RowT")

PAGE_ROWS = 50
"""About as many rows as a page of one list has."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What an address selects: rows with all words of ``search``, of the list ``shown`` (empty: the first
    rows of every list), and the page of it."""

    search: str = ""
    shown: str = ""
    page: int = 1

    def page_number_of(self, name: str) -> int:
        """Return the page of a list: of one that is not shown alone the first."""
        return self.page if name == self.shown else 1


def parse_list_query(arguments: Mapping[str, str], names: Iterable[str]) -> ListQuery:
    """Read the query of an address; a value that makes no sense is left out."""
    search, shown, page = (arguments.get(name, "").strip() for name in ("q", "show", "page"))
    number = int(page) if page.isdecimal() and len(page) < 10 else 1
    return ListQuery(search, shown if shown in names else "", max(1, number))


@dataclass(frozen=True, slots=True)
class ListPage(Generic[RowT]):
    """One page of a list; ``total`` counts the rows of the whole list that the search leaves."""

    name: str
    title: str
    rows: tuple[RowT, ...]
    total: int
    page: int
    pages: int


def build_list_page(
    name: str,
    title: str,
    rows: Iterable[RowT],
    query: ListQuery,
    series_of: Callable[[RowT], Series],
) -> ListPage[RowT]:
    """Search a list and cut out the page of a query."""
    matches = search_rows(rows, query, series_of)
    pages = [matches[start : start + PAGE_ROWS] for start in range(0, len(matches), PAGE_ROWS)] or [[]]
    page = min(query.page_number_of(name), len(pages))
    return ListPage(name, title, tuple(pages[page - 1]), len(matches), page, len(pages))


def search_rows(
    rows: Iterable[RowT], query: ListQuery, series_of: Callable[[RowT], Series]
) -> Sequence[RowT]:
    """Return the rows that a search leaves."""
    if not query.search:
        return list(rows)
    return [row for row in rows if series_matches_search(series_of(row), query.search)]


def paginate_cells(cells: Iterable[CellRows[RowT]]) -> list[list[CellRows[RowT]]]:
    """Split cells into pages of about ``PAGE_ROWS`` rows; a cell is never split."""
    cells = list(cells)
    pages: list[list[CellRows[RowT]]] = [[]]
    for cell, page in zip(cells, number_pages_of_cells(len(cell.rows) for cell in cells), strict=True):
        if page > len(pages):
            pages.append([])
        pages[-1].append(cell)
    return pages


def number_pages_of_cells(row_counts: Iterable[int]) -> Iterator[int]:
    """The number of the page of each cell, from 1, by how many rows it has."""
    page, rows_of_page = 1, 0
    for count in row_counts:
        if rows_of_page and rows_of_page + count > PAGE_ROWS:
            page, rows_of_page = page + 1, 0
        rows_of_page += count
        yield page
