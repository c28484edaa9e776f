"""The comparison of two commits: is head worse than base?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import Commit, Run, Series, Status, Verdict, VerdictKind
from perfci.report.charts.series_trend import Dot
from perfci.report.serializers import commit_fields, series_fields, verdict_fields
from perfci.report.verdict_sentences import Count, Told, comparison_sentence, counts, ranked
from perfci.store.queries.records import VerdictRecord
from perfci.verdicts.judged_series import gated
from perfci_web.view_parts.cells import Part, by_cell, parts
from perfci_web.view_parts.commit_values import dots_of_runs, environment_difference, processes_of_runs
from perfci_web.view_parts.missing_reasons import Reason, by_reason, reason_fields

LEAST_SPAN, MOST_SPAN = 1.1, 4.0
"""The ratio axis all interval bars of a page share shows at least ±10 %, and never more than four times."""

MOST_COMMITS = 12
MOST_PAIRS = 50


@dataclass(frozen=True, slots=True)
class Reading:
    """A series measured at both commits that no verdict was given on; its change is shown, not judged."""

    series: Series
    base: Dot
    head: Dot

    @property
    def change(self) -> float | None:
        return self.head.level / self.base.level - 1 if self.base.level and self.head.level is not None else None

    @property
    def unavailable(self) -> bool:
        """Whether neither side could measure it."""
        return self.base.status is self.head.status is Status.SKIPPED


@dataclass(frozen=True, slots=True)
class Comparison:
    """``notable`` are the verdicts to read: not those that say unchanged, nor what neither side could measure."""

    project: str
    base: Commit
    head: Commit
    sentence: Told
    counts: tuple[Count, ...]
    verdicts: tuple[Verdict, ...]
    notable: tuple[Verdict, ...]
    unchanged: tuple[Verdict, ...]
    span: float
    witnesses: tuple[Reading, ...]
    not_compared: tuple[Reading, ...]
    unavailable: tuple[Reason, ...]
    environment: tuple[tuple[str, str, str], ...]
    commits: tuple[Commit, ...]
    commits_between: int

    @property
    def witness_parts(self) -> tuple[Part[Reading], ...]:
        return _parts(self.witnesses)

    @property
    def not_compared_parts(self) -> tuple[Part[Reading], ...]:
        return _parts(self.not_compared)

    @property
    def same(self) -> bool:
        return self.base.sha == self.head.sha


@dataclass(frozen=True, slots=True)
class Pair:
    """Two commits that were compared, and how that ended."""

    base: Commit
    head: Commit
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> list[Count]:
        return counts(self.verdicts)


def compared_pairs(records: Iterable[VerdictRecord], commits: Sequence[Commit]) -> list[Pair]:
    """The comparisons the store holds, those decided last first; ``records`` come newest first."""
    known = {commit.sha: commit for commit in commits}
    found: dict[tuple[str, str], list[Verdict]] = {}
    for record in records:
        found.setdefault((record.verdict.base, record.verdict.head), []).append(record.verdict)
    return [
        Pair(known.get(base, Commit(base)), known.get(head, Commit(head)), tuple(verdicts))
        for (base, head), verdicts in list(found.items())[:MOST_PAIRS]
    ]


def comparison(
    project: str,
    base: Commit,
    head: Commit,
    records: Sequence[VerdictRecord],
    base_runs: Sequence[Run],
    head_runs: Sequence[Run],
    commits: Sequence[Commit],
) -> Comparison:
    """Join verdicts and runs of two commits; ``commits`` come newest first."""
    verdicts = ranked(record.verdict for record in records)
    sessions = {record.session_uid for record in records}
    base_runs, head_runs = _of_sessions(base_runs, sessions), _of_sessions(head_runs, sessions)
    both = _readings(base_runs, head_runs)
    nowhere = {reading.series for reading in both if reading.unavailable}
    decided = {verdict.series for verdict in verdicts}
    on_trial = set(gated(processes_of_runs([*base_runs, *head_runs])))
    left = [reading for reading in both if reading.series not in nowhere | decided]
    others = [reading for reading in left if reading.series in on_trial]
    told = [one for one in verdicts if one.kind is not VerdictKind.MISSING or one.series not in nowhere]
    between = _between(commits, base, head)
    return Comparison(
        project=project,
        base=base,
        head=head,
        sentence=_sentence(verdicts, base, head, others),
        counts=tuple(counts(verdicts)),
        verdicts=tuple(verdicts),
        notable=tuple(one for one in told if one.kind is not VerdictKind.UNCHANGED),
        unchanged=tuple(one for one in verdicts if one.kind is VerdictKind.UNCHANGED),
        span=_span(verdicts),
        witnesses=tuple(reading for reading in left if reading.series not in on_trial),
        not_compared=tuple(others),
        unavailable=by_reason((one.head.reason, one.series) for one in both if one.unavailable),
        environment=tuple(environment_difference(base_runs, head_runs)),
        commits=tuple(between[:MOST_COMMITS]),
        commits_between=len(between),
    )


def comparison_fields(page: Comparison) -> dict[str, Any]:
    """The JSON twin: the same verdicts, sentence and readings as the page."""
    return {
        "project": page.project,
        "base": commit_fields(page.base),
        "head": commit_fields(page.head),
        "sentence": str(page.sentence),
        "counts": dict(Counter(verdict.kind.value for verdict in page.verdicts)),
        "verdicts": [verdict_fields(verdict) for verdict in page.verdicts],
        "witnesses": [_reading_fields(reading) for reading in page.witnesses],
        "not_compared": [_reading_fields(reading) for reading in page.not_compared],
        "unavailable": [reason_fields(reason) for reason in page.unavailable],
        "environment": [{"name": name, "base": before, "head": after} for name, before, after in page.environment],
    }


def _sentence(verdicts: Sequence[Verdict], base: Commit, head: Commit, others: Sequence[Reading]) -> Told:
    if verdicts:
        return comparison_sentence(verdicts)
    if others and base.sha == head.sha:
        return Told(f"{base.short} was measured, but never against itself")
    if others:
        return Told(f"{base.short} and {head.short} were measured, but never against each other")
    return Told(f"Nothing was measured at both {base.short} and {head.short}")


def _of_sessions(runs: Sequence[Run], sessions: set[str]) -> list[Run]:
    """The runs the verdicts rest on; without verdicts all there are."""
    return [run for run in runs if run.session in sessions] or list(runs)


def _readings(base_runs: Sequence[Run], head_runs: Sequence[Run]) -> list[Reading]:
    """What both sides gave, by name."""
    base, head = dots_of_runs(base_runs), dots_of_runs(head_runs)
    return [Reading(one, base[one], head[one]) for one in sorted(base, key=lambda one: one.cell) if one in head]


def _parts(readings: Sequence[Reading]) -> tuple[Part[Reading], ...]:
    return parts(by_cell(readings, lambda reading: reading.series))


def _between(commits: Sequence[Commit], base: Commit, head: Commit) -> list[Commit]:
    """The commits after base up to head, newest first; none where the two do not follow each other."""
    line = [commit for commit in commits if not commit.dirty]
    places = {commit.sha: place for place, commit in enumerate(line)}
    if base.sha not in places or head.sha not in places:
        return []
    return line[places[head.sha] : places[base.sha]]


def _span(verdicts: Iterable[Verdict]) -> float:
    reaches = [1.0]
    for verdict in verdicts:
        ends = [verdict.ratio, *((verdict.interval.lo, verdict.interval.hi) if verdict.interval else ())]
        reaches += [max(end, 1 / end) for end in ends if end is not None and end > 0]
    return min(MOST_SPAN, max(LEAST_SPAN, max(reaches) * 1.02))


def _reading_fields(reading: Reading) -> dict[str, Any]:
    ratio = None if reading.change is None else reading.change + 1
    values = {"base_level": reading.base.level, "head_level": reading.head.level, "ratio": ratio}
    return {"series": series_fields(reading.series), **values}
