"""The comparison of two commits: is head worse than base?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import Commit, Run, Series, Status, Verdict, VerdictKind
from perfci.report.charts.series_trend import Dot
from perfci.report.serializers import serialize_commit, serialize_series, serialize_verdict
from perfci.report.verdict_sentences import (
    PageSummary,
    VerdictKindCount,
    comparison_sentence,
    count_by_kind,
    rank_verdicts,
)
from perfci.store.queries.records import VerdictRecord
from perfci.verdicts.judged_series import select_judged_series
from perfci_web.view_parts.cells import BenchmarkSection, fold_by_benchmark, group_by_cell
from perfci_web.view_parts.commit_values import build_dots, collect_processes, diff_environments
from perfci_web.view_parts.missing_reasons import MissingReason, group_by_reason, serialize_reason

MIN_SPAN, MAX_SPAN = 1.1, 4.0
"""The ratio axis all interval bars of a page share shows at least ±10 %, and never more than four times."""

MAX_COMMITS = 12
MAX_PAIRS = 50


@dataclass(frozen=True, slots=True)
class SeriesAtTwoCommits:
    """A series measured at both commits that no verdict was given on; its change is shown, not judged."""

    series: Series
    base: Dot
    head: Dot

    @property
    def change(self) -> float | None:
        return (
            self.head.level / self.base.level - 1 if self.base.level and self.head.level is not None else None
        )

    @property
    def unavailable(self) -> bool:
        """Whether neither side could measure it."""
        return self.base.status is self.head.status is Status.SKIPPED


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """``notable`` are the verdicts to read: not those that say unchanged, nor what neither side could measure."""

    project: str
    base: Commit
    head: Commit
    sentence: PageSummary
    counts: tuple[VerdictKindCount, ...]
    verdicts: tuple[Verdict, ...]
    notable: tuple[Verdict, ...]
    unchanged: tuple[Verdict, ...]
    span: float
    informational: tuple[SeriesAtTwoCommits, ...]
    not_compared: tuple[SeriesAtTwoCommits, ...]
    unavailable: tuple[MissingReason, ...]
    environment: tuple[tuple[str, str, str], ...]
    commits: tuple[Commit, ...]
    commits_between: int

    @property
    def informational_sections(self) -> tuple[BenchmarkSection[SeriesAtTwoCommits], ...]:
        return _fold_values(self.informational)

    @property
    def not_compared_sections(self) -> tuple[BenchmarkSection[SeriesAtTwoCommits], ...]:
        return _fold_values(self.not_compared)

    @property
    def is_same_commit(self) -> bool:
        return self.base.sha == self.head.sha


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two commits that were compared, and how that ended."""

    base: Commit
    head: Commit
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> list[VerdictKindCount]:
        return count_by_kind(self.verdicts)


def list_compared_pairs(records: Iterable[VerdictRecord], commits: Sequence[Commit]) -> list[ComparedPair]:
    """The comparisons the store holds, those decided last first; ``records`` come newest first."""
    known = {commit.sha: commit for commit in commits}
    found: dict[tuple[str, str], list[Verdict]] = {}
    for record in records:
        found.setdefault((record.verdict.base, record.verdict.head), []).append(record.verdict)
    return [
        ComparedPair(known.get(base, Commit(base)), known.get(head, Commit(head)), tuple(verdicts))
        for (base, head), verdicts in list(found.items())[:MAX_PAIRS]
    ]


def build_comparison_view(
    project: str,
    base: Commit,
    head: Commit,
    records: Sequence[VerdictRecord],
    base_runs: Sequence[Run],
    head_runs: Sequence[Run],
    commits: Sequence[Commit],
) -> ComparisonView:
    """Join verdicts and runs of two commits; ``commits`` come newest first."""
    verdicts = rank_verdicts(record.verdict for record in records)
    sessions = {record.session_uid for record in records}
    base_runs, head_runs = _runs_of_sessions(base_runs, sessions), _runs_of_sessions(head_runs, sessions)
    both = _join_values(base_runs, head_runs)
    nowhere = {reading.series for reading in both if reading.unavailable}
    decided = {verdict.series for verdict in verdicts}
    on_trial = set(select_judged_series(collect_processes([*base_runs, *head_runs])))
    left = [reading for reading in both if reading.series not in nowhere | decided]
    others = [reading for reading in left if reading.series in on_trial]
    told = [one for one in verdicts if one.kind is not VerdictKind.MISSING or one.series not in nowhere]
    between = _commits_between(commits, base, head)
    return ComparisonView(
        project=project,
        base=base,
        head=head,
        sentence=_format_sentence(verdicts, base, head, others),
        counts=tuple(count_by_kind(verdicts)),
        verdicts=tuple(verdicts),
        notable=tuple(one for one in told if one.kind is not VerdictKind.UNCHANGED),
        unchanged=tuple(one for one in verdicts if one.kind is VerdictKind.UNCHANGED),
        span=_axis_span(verdicts),
        informational=tuple(reading for reading in left if reading.series not in on_trial),
        not_compared=tuple(others),
        unavailable=group_by_reason((one.head.reason, one.series) for one in both if one.unavailable),
        environment=tuple(diff_environments(base_runs, head_runs)),
        commits=tuple(between[:MAX_COMMITS]),
        commits_between=len(between),
    )


def serialize_comparison(page: ComparisonView) -> dict[str, Any]:
    """The JSON twin: the same verdicts, sentence and readings as the page."""
    return {
        "project": page.project,
        "base": serialize_commit(page.base),
        "head": serialize_commit(page.head),
        "sentence": str(page.sentence),
        "counts": dict(Counter(verdict.kind.value for verdict in page.verdicts)),
        "verdicts": [serialize_verdict(verdict) for verdict in page.verdicts],
        "witnesses": [_serialize_value(reading) for reading in page.informational],
        "not_compared": [_serialize_value(reading) for reading in page.not_compared],
        "unavailable": [serialize_reason(reason) for reason in page.unavailable],
        "environment": [
            {"name": name, "base": before, "head": after} for name, before, after in page.environment
        ],
    }


def _format_sentence(
    verdicts: Sequence[Verdict], base: Commit, head: Commit, not_compared: Sequence[SeriesAtTwoCommits]
) -> PageSummary:
    if verdicts:
        return comparison_sentence(verdicts)
    if not_compared and base.sha == head.sha:
        return PageSummary(f"{base.short_sha} was measured, but never against itself")
    if not_compared:
        return PageSummary(
            f"{base.short_sha} and {head.short_sha} were measured, but never against each other"
        )
    return PageSummary(f"Nothing was measured at both {base.short_sha} and {head.short_sha}")


def _runs_of_sessions(runs: Sequence[Run], sessions: set[str]) -> list[Run]:
    """The runs the verdicts rest on; without verdicts all there are."""
    return [run for run in runs if run.session in sessions] or list(runs)


def _join_values(base_runs: Sequence[Run], head_runs: Sequence[Run]) -> list[SeriesAtTwoCommits]:
    """What both sides gave, by name."""
    base, head = build_dots(base_runs), build_dots(head_runs)
    return [
        SeriesAtTwoCommits(one, base[one], head[one])
        for one in sorted(base, key=lambda one: one.cell)
        if one in head
    ]


def _fold_values(values: Sequence[SeriesAtTwoCommits]) -> tuple[BenchmarkSection[SeriesAtTwoCommits], ...]:
    return fold_by_benchmark(group_by_cell(values, lambda reading: reading.series))


def _commits_between(commits: Sequence[Commit], base: Commit, head: Commit) -> list[Commit]:
    """The commits after base up to head, newest first; none where the two do not follow each other."""
    line = [commit for commit in commits if not commit.dirty]
    places = {commit.sha: place for place, commit in enumerate(line)}
    if base.sha not in places or head.sha not in places:
        return []
    return line[places[head.sha] : places[base.sha]]


def _axis_span(verdicts: Iterable[Verdict]) -> float:
    reaches = [1.0]
    for verdict in verdicts:
        ends = [verdict.ratio, *((verdict.interval.lo, verdict.interval.hi) if verdict.interval else ())]
        reaches += [max(end, 1 / end) for end in ends if end is not None and end > 0]
    return min(MAX_SPAN, max(MIN_SPAN, max(reaches) * 1.02))


def _serialize_value(series_value: SeriesAtTwoCommits) -> dict[str, Any]:
    ratio = None if series_value.change is None else series_value.change + 1
    values = {"base_level": series_value.base.level, "head_level": series_value.head.level, "ratio": ratio}
    return {"series": serialize_series(series_value.series), **values}
