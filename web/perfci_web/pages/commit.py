"""The page of one commit: what did it measure, and what changed with it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Commit, Run, Series, Verdict
from perfci.report.sentences import counts_sentence, ranked
from perfci.report.trend import Dot
from perfci.report.units import counting
from perfci.store.records import RunRecord, VerdictRecord
from perfci.verdicts.gating import gated
from perfci_web.pages.measured import dots_of_runs, processes_of_runs


@dataclass(frozen=True, slots=True)
class Reading:
    """One series at this commit; a witness is shown and not judged."""

    series: Series
    dot: Dot
    witness: bool


@dataclass(frozen=True, slots=True)
class CommitPage:
    project: str
    commit: Commit
    sentence: str
    before: Commit | None
    after: Commit | None
    verdicts: tuple[Verdict, ...]
    later: tuple[Verdict, ...]
    readings: tuple[Reading, ...]
    runs: tuple[RunRecord, ...]
    environment: tuple[tuple[str, str], ...]


def commit_page(
    project: str,
    commit: Commit,
    commits: Sequence[Commit],
    records: Sequence[RunRecord],
    runs: Sequence[Run],
    verdicts: Sequence[VerdictRecord],
) -> CommitPage:
    """Join what was measured at a commit with what was decided about it; ``commits`` come newest first."""
    line = [one for one in commits if not one.dirty or one.sha == commit.sha]
    place = next((k for k, one in enumerate(line) if one.sha == commit.sha), None)
    into = ranked(one.verdict for one in verdicts if one.verdict.head == commit.sha)
    out = ranked(one.verdict for one in verdicts if one.verdict.base == commit.sha and one.verdict.head != commit.sha)
    readings = _readings(runs)
    return CommitPage(
        project=project,
        commit=commit,
        sentence=_sentence(into, readings),
        before=line[place + 1] if place is not None and place + 1 < len(line) else None,
        after=line[place - 1] if place else None,
        verdicts=tuple(into),
        later=tuple(out),
        readings=tuple(readings),
        runs=tuple(records),
        environment=_environment(runs),
    )


def _readings(runs: Sequence[Run]) -> list[Reading]:
    dots = dots_of_runs(runs)
    on_trial = set(gated(processes_of_runs(runs)))
    ordered = sorted(dots, key=lambda series: (series not in on_trial, series.label))
    return [Reading(series, dots[series], series not in on_trial) for series in ordered]


def _sentence(verdicts: Sequence[Verdict], readings: Sequence[Reading]) -> str:
    failed = sum(reading.dot.level is None for reading in readings)
    measured = counting(len(readings) - failed, "series", "series") + " measured"
    parts = [measured if readings else "Nothing was measured here"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"compared with another commit: {counts_sentence(verdicts)}"] if verdicts else []
    return "; ".join(parts) + "."


def _environment(runs: Sequence[Run]) -> tuple[tuple[str, str], ...]:
    """What was observed while measuring, of the newest run."""
    newest = max(runs, key=lambda run: run.started_at, default=None)
    return newest.environment.values if newest else ()
