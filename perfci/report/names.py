"""Names and other people's words, made safe for the place they are printed in."""

from __future__ import annotations

import re

from perfci.model import Series

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LONGEST = 120

SELF_EVIDENT_METRICS = frozenset({"time", "cpu_time", "value", "memory", "peak_memory"})
"""What the metric of an asv benchmark is called: its unit and the words around it already say so."""


def printable(text: str, limit: int = LONGEST) -> str:
    """Replace what moves a cursor, breaks a line or turns the reading direction, and cut what is too long."""
    clean = "".join(character if character.isprintable() else REPLACEMENT for character in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def series_name(series: Series) -> str:
    """Name a series as briefly as is still clear: the cell, and the metric where the cell alone leaves it open."""
    if series.metric.name in SELF_EVIDENT_METRICS:
        return printable(series.cell)
    return printable(f"{series.cell} · {series.metric.name}")


def unquoted(value: str) -> str:
    """The value of a parameter as a person writes it: a text has quotes only where Python shows it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def code_span(text: str, *, in_table: bool = False) -> str:
    """Fence a name for GitHub's Markdown so that nothing inside is read as markup, a mention or a table cell."""
    clean = printable(text).replace("|", r"\|") if in_table else printable(text)
    fence = "`" * (max((len(run) for run in re.findall("`+", clean)), default=0) + 1)
    padding = " " if clean.startswith("`") or clean.endswith("`") or not clean.strip() else ""
    return f"{fence}{padding}{clean}{padding}{fence}"


def csv_cell(text: str) -> str:
    """Keep a spreadsheet from running a name as a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
