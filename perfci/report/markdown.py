"""A comparison as GitHub Markdown, for a comment, a job summary or a file; every foreign word inside a code span."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Verdict, VerdictKind
from perfci.report.names import code_span, printable
from perfci.report.sentences import advice, counts_sentence, interval_text, level_texts, ranked
from perfci.report.units import counting, percent, signed_percent
from perfci.report.words import verdict_glyph, verdict_word

MOST_ROWS = 100
"""GitHub cuts a comment at 65,536 characters; the page has the rest."""

HEADER = (
    "| | verdict | benchmark | metric | base | head | change | 95 % interval | pairs | noise floor | MDE |\n"
    "|---|---|---|---|--:|--:|--:|:-:|--:|--:|--:|"
)


def comparison_markdown(verdicts: Sequence[Verdict], *, base: str, head: str, page: str = "", sides: str = "") -> str:
    """Write what matters as a table, what stayed as it was folded below it, and what to do about open questions.

    ``page`` is the address of the comparison on our own dashboard; no other link is ever written. ``sides`` names both
    sides where they are no two commits.
    """
    rows = ranked(verdicts)
    unchanged = [verdict for verdict in rows if verdict.kind is VerdictKind.UNCHANGED]
    notable = [verdict for verdict in rows if verdict.kind is not VerdictKind.UNCHANGED]
    parts = [
        f"### {_headline(verdicts)}",
        (code_span(sides) if sides else f"{code_span(base[:10])} → {code_span(head[:10])}")
        + (f" · [details]({page})" if page else ""),
        _table(notable),
        _advice(notable),
        _folded(unchanged),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(verdicts: Sequence[Verdict]) -> str:
    """Counts only: a name in a heading would stand outside a code span."""
    if not verdicts:
        return "Nothing was compared"
    counts = counts_sentence(verdicts)
    bad = {VerdictKind.REGRESSION, VerdictKind.FAILED}
    open_kinds = {VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE, VerdictKind.MISSING}
    if any(verdict.kind in bad for verdict in verdicts):
        return counts
    if any(verdict.kind in open_kinds for verdict in verdicts):
        return f"No regression found, not everything decided: {counts}"
    return f"Nothing got worse: {counts}"


def _table(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    rows = "\n".join(_row(verdict) for verdict in verdicts[:MOST_ROWS])
    left_out = len(verdicts) - MOST_ROWS
    return f"{HEADER}\n{rows}" + (f"\n\n… and {counting(left_out, 'more row')}." if left_out > 0 else "")


def _row(verdict: Verdict) -> str:
    metric = verdict.series.metric
    cells = (
        verdict_glyph(verdict),
        verdict_word(verdict),
        code_span(verdict.series.cell, in_table=True),
        code_span(metric.name, in_table=True),
        *_levels(verdict),
        "" if verdict.ratio is None else f"**{signed_percent(verdict.ratio - 1)}**",
        "" if verdict.interval is None else interval_text(verdict.interval),
        str(verdict.pairs) if verdict.pairs else "",
        "" if verdict.noise_floor is None else percent(verdict.noise_floor),
        "" if verdict.mde is None else percent(verdict.mde),
    )
    return f"| {' | '.join(cells)} |"


def _levels(verdict: Verdict) -> list[str]:
    """Both levels in a unit of ours; a unit the suite made up is a foreign word like any other."""
    metric = verdict.series.metric
    texts = level_texts((verdict.base_level, verdict.head_level), metric)
    ours = metric.unit in {"seconds", "bytes", "count"}
    return texts if ours else [code_span(text, in_table=True) if text else "" for text in texts]


def _advice(verdicts: Sequence[Verdict]) -> str:
    lines = []
    for verdict in verdicts[:MOST_ROWS]:
        told = advice(verdict)
        if told:
            words = code_span(told) if verdict.reason and told == printable(verdict.reason) else told
            lines.append(f"- {verdict_glyph(verdict)} {code_span(verdict.series.label)}: {words}")
    return "\n".join(lines)


def _folded(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    return f"<details><summary>{len(verdicts):,} unchanged</summary>\n\n{_table(verdicts)}\n\n</details>"
