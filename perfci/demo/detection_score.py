"""Score of the demo: detected changes against planted ones, which the detector never sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.demo.sample_repository import PlantedChange
from perfci.model import Commit, Stage, Verdict, VerdictKind
from perfci.number_format import format_count, format_percent, format_signed_percent
from perfci.report.text_table import align_table
from perfci.verdicts.comparison_rule import MOVE_KINDS

ALARM_KINDS = (*MOVE_KINDS, VerdictKind.FAILED)
"""Verdicts that count as a detection."""


@dataclass(frozen=True, slots=True)
class DetectionScore:
    """Each planted change with the verdict that detected it, and what was reported without being
    planted."""

    detections: Sequence[tuple[PlantedChange, Verdict | None]]
    false_alarms: Sequence[Verdict]
    inconclusive: Sequence[Verdict]

    @property
    def missed_changes(self) -> list[PlantedChange]:
        """Planted changes without a verdict."""
        return [planted for planted, verdict in self.detections if verdict is None]

    @property
    def is_perfect(self) -> bool:
        """Whether everything planted was detected and nothing else."""
        return not self.missed_changes and not self.false_alarms


def score_verdicts(planted: Sequence[PlantedChange], verdicts: Iterable[Verdict]) -> DetectionScore:
    """Score verdicts: a change is detected only at its own commit, benchmark and direction."""
    settled = [v for v in verdicts if v.stage is Stage.CONFIRMATION]
    alarms = {(v.head, v.series.benchmark.name, v.kind): v for v in settled if v.kind in ALARM_KINDS}
    expected = {(p.sha, p.benchmark, VerdictKind(p.kind)): p for p in planted}
    return DetectionScore(
        detections=[(p, alarms.get(place)) for place, p in expected.items()],
        false_alarms=[v for place, v in alarms.items() if place not in expected],
        inconclusive=[v for v in settled if v.kind is VerdictKind.INCONCLUSIVE],
    )


def format_score_table(result: DetectionScore, commits: dict[str, Commit]) -> str:
    """Planted beside detected, one line each, in the order of the history."""
    headings = ("", "commit", "subject", "benchmark", "planted", "detected", "95 % interval", "pairs")
    order = list(commits)
    rows = [(p.sha, _planted_row(p, v, commits)) for p, v in result.detections]
    rows += [(v.head, _unplanted_row(v, commits)) for v in result.false_alarms]
    rows.sort(key=lambda row: order.index(row[0]))
    return align_table(headings, [cells for _, cells in rows], frozenset(range(7)))


def format_detection_errors(result: DetectionScore, commits: dict[str, Commit]) -> list[str]:
    """One line per miss or false alarm."""
    lines = [
        f"missed: {p.kind} of {p.benchmark} at {commits[p.sha].short_sha} ({p.subject})"
        for p in result.missed_changes
    ]
    lines += [
        f"false alarm: {v.kind} of {v.series.label} at {_commit_text(commits[v.head])}"
        for v in result.false_alarms
    ]
    return lines


def format_inconclusive_verdicts(result: DetectionScore, commits: dict[str, Commit]) -> list[str]:
    """What stays open, and how many more pairs would decide it."""
    return [
        f"inconclusive: {v.series.label} at {_commit_text(commits[v.head])}, {_format_pairs_to_decide(v)}"
        for v in result.inconclusive
    ]


def _commit_text(commit: Commit) -> str:
    return f"{commit.short_sha} ({commit.subject})"


def _format_pairs_to_decide(verdict: Verdict) -> str:
    if verdict.pairs_to_decide is None:
        return "and no reasonable number of pairs would decide it"
    return f"about {format_count(verdict.pairs_to_decide, 'more pair')} would decide"


def _planted_row(
    planted: PlantedChange, verdict: Verdict | None, commits: dict[str, Commit]
) -> tuple[str, ...]:
    effect = f"{planted.kind} of about {format_percent(abs(planted.relative_change))}"
    cells = (
        "✓" if verdict else "✗",
        commits[planted.sha].short_sha,
        _truncate(planted.subject),
        planted.benchmark,
        effect,
    )
    return (*cells, *_verdict_cells(verdict))


def _unplanted_row(verdict: Verdict, commits: dict[str, Commit]) -> tuple[str, ...]:
    commit = commits[verdict.head]
    return (
        "✗",
        commit.short_sha,
        _truncate(commit.subject),
        verdict.series.benchmark.name,
        "nothing",
        *_verdict_cells(verdict),
    )


def _verdict_cells(verdict: Verdict | None) -> tuple[str, str, str]:
    if verdict is None:
        return ("nothing", "", "")
    change = "" if verdict.ratio is None else " " + format_signed_percent(verdict.ratio - 1)
    bounds = verdict.interval
    interval = (
        f"[{format_signed_percent(bounds.lo - 1)}, {format_signed_percent(bounds.hi - 1)}]" if bounds else ""
    )
    return (f"{verdict.kind}{change}", interval, str(verdict.pairs))


def _truncate(text: str, width: int = 38) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
