"""Names and other people's words, made safe for the place they are printed in."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfci.model import Series

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_NAME_LENGTH = 120
MAX_LINE_LENGTH = 1000
MAX_BACKTICKS = 40
"""GitHub's Markdown knows no code span whose fence is longer than 80 (``MAXBACKTICKS`` in cmark-gfm)."""

PLAIN_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#&=+,;%@!$*\[\]-]{,1000}")
"""Nothing in it ends a link of Markdown."""

SELF_EVIDENT_METRICS = frozenset({"time", "cpu_time", "value", "memory", "peak_memory"})
"""What the metric of an asv benchmark is called: its unit and the words around it already say so."""


def make_printable(text: str, limit: int = MAX_NAME_LENGTH) -> str:
    """Replace what moves a cursor, breaks a line or turns the reading direction, and cut what is too long."""
    clean = "".join(character if character.isprintable() else REPLACEMENT for character in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def series_name(series: Series) -> str:
    """Name a series as briefly as is still clear: the cell, and the metric where the cell alone leaves it open."""
    if series.metric.name in SELF_EVIDENT_METRICS:
        return make_printable(series.cell)
    return make_printable(f"{series.cell} · {series.metric.name}")


def strip_quotes(value: str) -> str:
    """The value of a parameter as a person writes it: a text has quotes only where Python shows it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def code_span(text: str, *, in_table: bool = False, limit: int = MAX_NAME_LENGTH) -> str:
    """Fence a name for GitHub's Markdown so that nothing inside is read as markup, a mention or a table cell."""
    clean = re.sub(
        f"`{{{MAX_BACKTICKS},}}", lambda run: REPLACEMENT * len(run[0]), make_printable(text, limit)
    )
    clean = clean.replace("|", r"\|") if in_table else clean
    fence = "`" * (_longest_backtick_run(clean) + 1)
    padding = " " if clean.startswith("`") or clean.endswith("`") or not clean.strip() else ""
    return f"{fence}{padding}{clean}{padding}{fence}"


def code_block(lines: Iterable[str], language: str = "") -> str:
    """The same for whole lines: the fence is longer than any run of backticks that could end it."""
    clean = "\n".join(make_printable(line, MAX_LINE_LENGTH) for line in lines)
    fence = "`" * max(3, _longest_backtick_run(clean) + 1)
    return f"{fence}{language}\n{clean}\n{fence}"


def markdown_link(label: str, url: str) -> str:
    """Words of our own that lead to an address of our own; the words alone where it is no plain web address."""
    return f"[{label}]({url})" if PLAIN_URL.fullmatch(url) else label


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def escape_csv_cell(text: str) -> str:
    """Keep a spreadsheet from running a name as a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
