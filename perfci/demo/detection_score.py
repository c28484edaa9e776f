"""What was found held against what was planted; the detector never sees this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.demo.sample_repository import Planted
from perfci.model import Commit, Stage, Verdict, VerdictKind
from perfci.report.number_format import counting, percent, signed_percent
from perfci.report.text_tables import aligned
from perfci.verdicts.rule import MOVES

ALARMS = (*MOVES, VerdictKind.FAILED)


@dataclass(frozen=True, slots=True)
class Score:
    """Each planted change with the verdict that found it, and what was reported although nothing was planted."""

    found: Sequence[tuple[Planted, Verdict | None]]
    false_alarms: Sequence[Verdict]
    still_open: Sequence[Verdict]

    @property
    def misses(self) -> list[Planted]:
        return [planted for planted, verdict in self.found if verdict is None]

    @property
    def perfect(self) -> bool:
        return not self.misses and not self.false_alarms


def score(planted: Sequence[Planted], verdicts: Iterable[Verdict]) -> Score:
    """A change counts as found only at its own commit, in its own benchmark and in its own direction."""
    settled = [v for v in verdicts if v.stage is Stage.CONVICTION]
    alarms = {_place(v): v for v in settled if v.kind in ALARMS}
    expected = {(p.sha, p.benchmark, VerdictKind(p.kind)): p for p in planted}
    return Score(
        found=[(p, alarms.get(place)) for place, p in expected.items()],
        false_alarms=[v for place, v in alarms.items() if place not in expected],
        still_open=[v for v in settled if v.kind is VerdictKind.INCONCLUSIVE],
    )


def score_table(result: Score, commits: dict[str, Commit]) -> str:
    """Planted beside found, one line each, in the order of the history."""
    headings = ("", "commit", "subject", "benchmark", "planted", "found", "95 % interval", "pairs")
    order = list(commits)
    rows = [(p.sha, _planted_row(p, v, commits)) for p, v in result.found]
    rows += [(v.head, _unplanted_row(v, commits)) for v in result.false_alarms]
    rows.sort(key=lambda row: order.index(row[0]))
    return aligned(headings, [cells for _, cells in rows], frozenset(range(7)))


def complaints(result: Score, commits: dict[str, Commit]) -> list[str]:
    """One line per miss or false alarm."""
    lines = [f"missed: {p.kind} of {p.benchmark} at {commits[p.sha].short} ({p.subject})" for p in result.misses]
    lines += [
        f"false alarm: {v.kind} of {v.series.label} at {commits[v.head].short} ({commits[v.head].subject})"
        for v in result.false_alarms
    ]
    return lines


def open_lines(result: Score, commits: dict[str, Commit]) -> list[str]:
    """What stays open, and how many more pairs would decide it."""
    return [
        f"inconclusive: {v.series.label} at {commits[v.head].short} ({commits[v.head].subject}), {_would_decide(v)}"
        for v in result.still_open
    ]


def _would_decide(verdict: Verdict) -> str:
    if verdict.pairs_to_decide is None:
        return "and no reasonable number of pairs would decide it"
    return f"about {counting(verdict.pairs_to_decide, 'more pair')} would decide"


def _place(verdict: Verdict) -> tuple[str, str, VerdictKind]:
    return (verdict.head, verdict.series.benchmark.name, verdict.kind)


def _planted_row(planted: Planted, verdict: Verdict | None, commits: dict[str, Commit]) -> tuple[str, ...]:
    about = f"{planted.kind} of about {percent(abs(planted.about))}"
    left = ("✓" if verdict else "✗", commits[planted.sha].short, _cut(planted.subject), planted.benchmark, about)
    return (*left, *_found_cells(verdict))


def _unplanted_row(verdict: Verdict, commits: dict[str, Commit]) -> tuple[str, ...]:
    commit = commits[verdict.head]
    return ("✗", commit.short, _cut(commit.subject), verdict.series.benchmark.name, "nothing", *_found_cells(verdict))


def _found_cells(verdict: Verdict | None) -> tuple[str, str, str]:
    if verdict is None:
        return ("nothing", "", "")
    change = "" if verdict.ratio is None else " " + signed_percent(verdict.ratio - 1)
    bounds = verdict.interval
    interval = f"[{signed_percent(bounds.lo - 1)}, {signed_percent(bounds.hi - 1)}]" if bounds else ""
    return (f"{verdict.kind}{change}", interval, str(verdict.pairs))


def _cut(text: str, width: int = 38) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
