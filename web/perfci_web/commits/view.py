"""The page of one commit: what did it measure, and what changed with it?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.model import Commit, Run, Series, Status, Verdict
from perfci.report.charts.series_trend import Dot
from perfci.report.number_format import counting
from perfci.report.verdict_sentences import counts_sentence, ranked
from perfci.store.queries.records import RunRecord, VerdictRecord
from perfci.verdicts.judged_series import gated
from perfci_web.view_parts.cells import Part, by_cell, parts
from perfci_web.view_parts.commit_values import dots_of_runs, processes_of_runs
from perfci_web.view_parts.missing_reasons import Reason, by_reason, failure


@dataclass(frozen=True, slots=True)
class Reading:
    """One series at this commit; a witness is shown and not judged."""

    series: Series
    dot: Dot
    witness: bool

    @property
    def unavailable(self) -> bool:
        return self.dot.status is Status.SKIPPED

    @property
    def failed(self) -> bool:
        return self.dot.level is None and not self.unavailable


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
    failed: tuple[Reason, ...]
    measured: tuple[Part[Reading], ...]
    witnesses: tuple[Part[Reading], ...]
    unavailable: tuple[Reason, ...]
    runs: tuple[RunRecord, ...]
    environment: tuple[tuple[str, str], ...]

    @property
    def linked(self) -> list[Series]:
        """The series that the page names."""
        measured = [reading.series for reading in self.readings]
        return measured + [verdict.series for verdict in (*self.verdicts, *self.later)]


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
        failed=by_reason((failure(one.dot.status, one.dot.reason), one.series) for one in readings if one.failed),
        measured=_parts(one for one in readings if one.dot.level is not None and not one.witness),
        witnesses=_parts(one for one in readings if one.dot.level is not None and one.witness),
        unavailable=by_reason((one.dot.reason, one.series) for one in readings if one.unavailable),
        runs=tuple(records),
        environment=_environment(runs),
    )


def _readings(runs: Sequence[Run]) -> list[Reading]:
    """What the runs gave, in the order it was stored."""
    on_trial = set(gated(processes_of_runs(runs)))
    return [Reading(series, dot, series not in on_trial) for series, dot in dots_of_runs(runs).items()]


def _parts(readings: Iterable[Reading]) -> tuple[Part[Reading], ...]:
    cells = by_cell(readings, lambda reading: reading.series)
    return parts(sorted(cells, key=lambda cell: cell.series.cell))


def _sentence(verdicts: Sequence[Verdict], readings: Sequence[Reading]) -> str:
    unavailable = sum(reading.unavailable for reading in readings)
    failed = sum(reading.failed for reading in readings)
    measured = counting(len(readings) - failed - unavailable, "series", "series") + " measured"
    told = [measured if readings else "Nothing was measured here"]
    told += [f"{failed:,} failed"] if failed else []
    told += [f"{unavailable:,} not available here"] if unavailable else []
    told += [f"compared with another commit: {counts_sentence(verdicts)}"] if verdicts else []
    return "; ".join(told) + "."


def _environment(runs: Sequence[Run]) -> tuple[tuple[str, str], ...]:
    """What was observed while measuring, of the newest run."""
    newest = max(runs, key=lambda run: run.started_at, default=None)
    return newest.environment.values if newest else ()
