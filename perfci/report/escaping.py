"""Escape names and foreign text for terminals, Markdown and CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_NAME_LENGTH = 120
MAX_REASON_LENGTH = 1000
"""Characters of a sentence that explains something: it stands whole, but for hostile text."""
MAX_LINE_LENGTH = 1000
MAX_BACKTICKS = 40
"""GitHub's Markdown supports no code span whose fence exceeds 80 (``MAXBACKTICKS`` in cmark-gfm)."""

PLAIN_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#&=+,;%@!$*\[\]-]{,1000}")
"""URLs without a character that could end a Markdown link."""


def make_printable(text: str, limit: int = MAX_NAME_LENGTH) -> str:
    """Replace control, line-break and bidirectional characters, and shorten the text to ``limit``."""
    clean = text
    if not text.isprintable():
        clean = "".join(character if character.isprintable() else REPLACEMENT for character in text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def strip_parameter_quotes(value: str) -> str:
    """Strip the quotes of a string parameter, which is stored as Python's ``repr``."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


def code_span(text: str, *, in_table: bool = False, limit: int = MAX_NAME_LENGTH) -> str:
    """Format text as a Markdown code span, in which markup, mentions and table cells have no effect."""
    clean = re.sub(
        f"`{{{MAX_BACKTICKS},}}", lambda run: REPLACEMENT * len(run[0]), make_printable(text, limit)
    )
    # A pipe ends a cell even inside a code span: https://github.github.com/gfm/#example-200
    clean = clean.replace("|", r"\|") if in_table else clean
    fence = "`" * (_longest_backtick_run(clean) + 1)
    # Markdown strips one space at each end of a code span, where both have one.
    padding = " " if clean.startswith("`") or clean.endswith("`") or not clean.strip() else ""
    return f"{fence}{padding}{clean}{padding}{fence}"


def code_block(lines: Iterable[str], language: str = "") -> str:
    """Format lines as a Markdown code block whose fence is longer than any run of backticks inside."""
    clean = "\n".join(make_printable(line, MAX_LINE_LENGTH) for line in lines)
    fence = "`" * max(3, _longest_backtick_run(clean) + 1)
    return f"{fence}{language}\n{clean}\n{fence}"


def markdown_link(label: str, url: str) -> str:
    """Format a Markdown link of our own label and URL; the label alone unless the URL is plain."""
    return f"[{label}]({url})" if PLAIN_URL.fullmatch(url) else label


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def escape_csv_cell(text: str) -> str:
    """Prefix a cell that a spreadsheet would otherwise run as a formula.

    https://owasp.org/www-community/attacks/CSV_Injection
    """
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
