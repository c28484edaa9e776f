"""The tables of a comment: what got worse by the kind of its metric, main's own drift, and the rest, folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from perfci.model import Series, Verdict, VerdictKind
from perfci.report.escaping import code_span
from perfci.report.number_format import counting
from perfci.report.pulls import comment_columns
from perfci.report.pulls.comment_columns import Columns, by_attention
from perfci.report.pulls.comparison_findings import Findings, is_worse, told_as
from perfci.report.pulls.truncation import Block
from perfci.report.verdict_labels import MOVES

MOST_ROWS = 10
"""What a reader takes in at once."""

MOST_FOLDED = 50
"""Rows of one folded table; who needs more reads them on the page."""

SECTIONS = tuple(dict.fromkeys(comment_columns.SECTIONS.values()))
ABSENCES = ("dropped", "not comparable", "new", "not measured")


def worse(findings: Findings) -> list[Block]:
    """A table for each kind of metric, and below it, folded, what found no place in one."""
    columns = comment_columns.moves(hardware=_hardware_differs(findings))
    bad, seen, sections = _bad(findings), shown(findings), _sections(findings)
    totals = Counter(sections[one.series] for one in bad)
    blocks = []
    for name in SECTIONS:
        mine = [one for one in seen if sections[one.series] == name]
        if mine:
            blocks.append(Block(f"**{name}**: {totals[name]:,} worse"))
            blocks.append(Block(columns.heading, [columns.row(one) for one in mine]))
    places = {id(one) for one in seen}
    rest = [one for one in bad if id(one) not in places]
    return [*blocks, *_table(rest, columns, f"{len(rest):,} more worse")]


def shown(findings: Findings) -> list[Verdict]:
    """What got worse and is not folded."""
    return comment_columns.worth_a_row(_bad(findings), MOST_ROWS, findings.held_to)


def drift(findings: Findings) -> list[Block]:
    """You against main: what the branch to be merged into did since the same base, series by series."""
    if findings.main is None:
        return []
    moved = by_attention(one for one in findings.drift if one.kind in {*MOVES, VerdictKind.FAILED})
    told = f"**You, and main since** (now {code_span(findings.main.short)})"
    if not moved:
        return [Block(f"{told}: nothing moved on main.")]
    yours = {one.series: one for one in findings.verdicts}
    lines = [_drift_row(yours.get(one.series), one) for one in moved[:MOST_ROWS]]
    heading = "| Benchmark | Metric | You | Main |\n|---|---|---|---|"
    return [
        Block(f"{told}: {counting(len(moved), 'series', 'series')} moved on main."),
        Block(heading, lines, more=len(moved) - len(lines)),
    ]


def folded(findings: Findings) -> list[Block]:
    """All others by their word; unfolded where nothing above asks for attention."""
    unfolded, hardware = not _bad(findings), _hardware_differs(findings)
    better, open_ones, void, same = (_those(findings, kinds) for kinds in FOLDED)
    return [
        *_table(better, comment_columns.moves(hardware=hardware), f"{len(better):,} better", unfolded=unfolded),
        *_table(
            open_ones,
            comment_columns.undecided(hardware=hardware),
            f"{len(open_ones):,} inconclusive",
            unfolded=unfolded,
        ),
        *_table(void, comment_columns.not_compared(hardware=hardware), _absences(void), unfolded=unfolded),
        *_table(same, comment_columns.unchanged(hardware=hardware), f"{len(same):,} unchanged"),
    ]


FOLDED = (
    {VerdictKind.IMPROVEMENT},
    {VerdictKind.INCONCLUSIVE},
    {VerdictKind.MISSING, VerdictKind.NOT_COMPARABLE},
    {VerdictKind.UNCHANGED},
)


def environment(findings: Findings) -> list[Block]:
    """What was observed differently on the two sides."""
    changes = findings.environment[:MOST_FOLDED]
    lines = [f"| {_value(one.name)} | {_value(one.before)} | {_value(one.after)} |" for one in changes]
    summary = counting(len(findings.environment), "difference") + " of the environment"
    more = len(findings.environment) - len(lines)
    return [Block("| | Base | Head |\n|---|---|---|", lines, summary, more=more, thing="value")] if lines else []


def _bad(findings: Findings) -> list[Verdict]:
    return by_attention(one for one in findings.verdicts if is_worse(one) or told_as(one) == "suspected regression")


def _those(findings: Findings, kinds: Iterable[VerdictKind]) -> list[Verdict]:
    """What was dropped before what is new, then by the kind of metric."""
    mine = by_attention(one for one in findings.verdicts if one.kind in kinds)
    places, sections = {name: place for place, name in enumerate(SECTIONS)}, _sections(findings)
    return sorted(mine, key=lambda one: (_absence(one), places[sections[one.series]]))


def _sections(findings: Findings) -> dict[Series, str]:
    return {series: comment_columns.SECTIONS[bar.kind] for series, bar in findings.held_to.items()}


def _absence(verdict: Verdict) -> int:
    told = told_as(verdict)
    return ABSENCES.index(told) if told in ABSENCES else 0


def _absences(verdicts: Sequence[Verdict]) -> str:
    words = [told_as(one) for one in verdicts]
    return ", ".join(f"{words.count(word):,} {word}" for word in ABSENCES if word in words)


def _table(verdicts: Sequence[Verdict], columns: Columns, summary: str, *, unfolded: bool = False) -> list[Block]:
    lines = [columns.row(one) for one in verdicts[:MOST_FOLDED]]
    return [Block(columns.heading, lines, summary, unfolded, more=len(verdicts) - len(lines))] if lines else []


def _hardware_differs(findings: Findings) -> bool:
    return len({comment_columns.hardware_name(one.series) for one in findings.verdicts}) > 1


def _drift_row(yours: Verdict | None, mains: Verdict) -> str:
    cell, metric = _value(mains.series.cell), _value(mains.series.metric.name)
    return f"| {cell} | {metric} | {comment_columns.changed(yours) if yours else 'not measured'} | {comment_columns.changed(mains)} |"


def _value(text: str) -> str:
    return code_span(text, in_table=True) if text else "not recorded"
