"""The verdict table of a terminal: plain text, aligned, the severest first."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from perfci.model import Verdict
from perfci.report.escaping import printable
from perfci.report.number_format import percent, signed_percent
from perfci.report.verdict_labels import verdict_glyph, verdict_word
from perfci.report.verdict_sentences import advice, comparison_sentence, interval_text, level_texts, ranked

HEADINGS = ("", "verdict", "benchmark", "metric", "base", "head", "change", "95 % interval", "pairs", "noise", "MDE")
LEFT = frozenset({0, 1, 2, 3})
"""The columns that hold words; numbers line up on the right."""


def comparison_text(verdicts: Sequence[Verdict]) -> str:
    """Sentence, table and what to do about the open rows: everything a terminal shows of a comparison."""
    parts = [str(comparison_sentence(verdicts)), verdict_table(verdicts), advice_lines(verdicts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Align one line per verdict; empty for none."""
    rows = [_row(verdict) for verdict in ranked(verdicts)]
    return aligned(HEADINGS, rows, LEFT) if rows else ""


def advice_lines(verdicts: Iterable[Verdict]) -> str:
    """One line for each verdict that is no plain answer."""
    open_ones = [verdict for verdict in ranked(verdicts) if advice(verdict)]
    return "\n".join(f"{verdict_glyph(one)} {printable(one.series.label)}: {advice(one)}" for one in open_ones)


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[int] = frozenset({0})) -> str:
    """Lay out columns by their width on screen; a column that is empty in every row is left out."""
    used = [k for k, heading in enumerate(headings) if any(row[k] for row in rows)]
    lines = [[line[k] for k in used] for line in (headings, *rows)]
    widths = [max(_width(line[k]) for line in lines) for k in range(len(used))]
    return "\n".join(
        "  ".join(_padded(cell, widths[k], used[k] in left) for k, cell in enumerate(line)).rstrip() for line in lines
    )


def _row(verdict: Verdict) -> tuple[str, ...]:
    metric = verdict.series.metric
    return (
        verdict_glyph(verdict),
        verdict_word(verdict),
        printable(verdict.series.cell),
        printable(metric.name),
        *level_texts((verdict.base_level, verdict.head_level), metric),
        "" if verdict.ratio is None else signed_percent(verdict.ratio - 1),
        "" if verdict.interval is None else interval_text(verdict.interval),
        str(verdict.pairs) if verdict.pairs else "",
        "" if verdict.noise_floor is None else percent(verdict.noise_floor),
        "" if verdict.mde is None else percent(verdict.mde),
    )


def _padded(cell: str, width: int, left: bool) -> str:
    space = " " * (width - _width(cell))
    return cell + space if left else space + cell


def _width(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
