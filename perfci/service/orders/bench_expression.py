"""The expression that selects the cells of an order, where it is asked for by what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfci.service.orders.check_order_content import MAX_BENCH_LENGTH


def build_bench_expression(cells: Iterable[str]) -> str:
    """Build an expression for cells in order of their weight: as many of the first as it has room for.

    A cell whose name alone is too long is selected by the beginning of its name. Empty without a cell.
    """
    expression, parts = "", list[str]()
    for cell in dict.fromkeys(cells):
        parts.append(re.escape(cell))
        longer = f"^{parts[0]}$" if len(parts) == 1 else f"^({'|'.join(parts)})$"
        if len(longer) > MAX_BENCH_LENGTH:
            return expression or _select_by_beginning(cell)
        expression = longer
    return expression


def _select_by_beginning(cell: str) -> str:
    length = len(cell)
    while len(beginning := f"^{re.escape(cell[:length])}") > MAX_BENCH_LENGTH:
        length -= 1
    return beginning
