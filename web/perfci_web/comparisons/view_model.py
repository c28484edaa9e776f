"""The view model of the comparison of two commits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import ChangePoint, Commit, Environment, Run, Series, Status, Verdict, VerdictKind
from perfci.report.commits.measurements_by_series import (
    collect_processes_by_series,
    merge_runs_into_dots,
)
from perfci.report.page_summaries import PageSummary, comparison_summary
from perfci.report.serializers import serialize_commit, serialize_series, serialize_verdict
from perfci.report.series_trend import Dot
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_text import (
    VerdictKindCount,
    count_verdicts_by_kind,
    rank_verdicts_by_severity,
)
from perfci.store.queries.query_records import VerdictRecord
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.judging_policy import Policy
from perfci_web.view_parts.list_search_and_paging import (
    ListPage,
    ListQuery,
    build_cell_list_page,
    build_list_page,
    search_rows,
)
from perfci_web.view_parts.table_row_groups import (
    CellRows,
    MissingReason,
    group_series_by_reason,
    serialize_missing_reason,
)

MIN_SPAN, MAX_SPAN = 1.1, 4.0
"""Limits of the ratio axis that all interval bars of a page share: at least ±10 %, at most a factor of
four.
"""

DEFAULT_POLICY = Policy()
MAX_COMMITS = 12
MAX_PAIRS = 50


@dataclass(frozen=True, slots=True)
class SeriesAtTwoCommits:
    """A series measured at both commits without a verdict; its change is shown, not judged.

    ``change`` is the change point of its history between exactly these commits: then levels and size are
    those of it, as on every other page, since two single points would give another size.
    """

    series: Series
    base: Dot
    head: Dot
    change: ChangePoint | None = None

    @property
    def base_level(self) -> float | None:
        return self.change.before if self.change else self.base.level

    @property
    def head_level(self) -> float | None:
        return self.change.after if self.change else self.head.level

    @property
    def relative_change(self) -> float | None:
        if self.change:
            return self.change.relative_change
        if not self.base.level or self.head.level is None:
            return None
        return self.head.level / self.base.level - 1

    @property
    def absolute_log_change(self) -> float:
        """How far the level moved either way: halved is as far as doubled; 0 where it is not known."""
        if self.relative_change is None:
            return 0.0
        return abs(math.log1p(self.relative_change)) if self.relative_change > -1 else math.inf

    @property
    def is_unavailable_at_both(self) -> bool:
        """Whether neither side could measure it."""
        return self.base.status is self.head.status is Status.SKIPPED


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """The page of a comparison.

    ``notable`` are the verdicts other than unchanged, one for each change, without those on series that
    neither side could measure; ``explaining`` moved with one of them, or gate nothing. ``span`` is the
    largest ratio on the axis of the interval bars.
    """

    project: str
    base: Commit
    head: Commit
    sentence: PageSummary
    counts: tuple[VerdictKindCount, ...]
    verdicts: tuple[Verdict, ...]
    notable: tuple[Verdict, ...]
    explaining: tuple[Verdict, ...]
    unchanged: tuple[Verdict, ...]
    span: float
    informational: tuple[SeriesAtTwoCommits, ...]
    not_compared: tuple[SeriesAtTwoCommits, ...]
    unavailable: tuple[MissingReason, ...]
    environment: tuple[tuple[str, str, str], ...]
    commits: tuple[Commit, ...]
    commits_between: int

    @property
    def primary_verdicts(self) -> list[Verdict]:
        """The verdicts, one for each change."""
        explaining_ids = set(map(id, self.explaining))
        return [verdict for verdict in self.verdicts if id(verdict) not in explaining_ids]

    @property
    def series(self) -> list[Series]:
        """All series that the page lists."""
        return [
            *(verdict.series for verdict in self.verdicts),
            *(row.series for row in (*self.not_compared, *self.informational)),
            *(series for reason in self.unavailable for series in reason.series),
        ]

    @property
    def is_same_commit(self) -> bool:
        return self.base.sha == self.head.sha


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two commits that were compared, with the verdicts."""

    base: Commit
    head: Commit
    verdicts: tuple[Verdict, ...]

    @property
    def verdict_kind_counts(self) -> list[VerdictKindCount]:
        return count_verdicts_by_kind(self.verdicts)


def list_compared_pairs(records: Iterable[VerdictRecord], commits: Sequence[Commit]) -> list[ComparedPair]:
    """List the stored comparisons, latest first; ``records`` come newest first."""
    commits_by_sha = {commit.sha: commit for commit in commits}
    verdicts_by_pair: dict[tuple[str, str], list[Verdict]] = {}
    for record in records:
        verdict = record.verdict
        verdicts_by_pair.setdefault((verdict.base, verdict.head), []).append(verdict)
    return [
        ComparedPair(
            commits_by_sha.get(base, Commit(base)), commits_by_sha.get(head, Commit(head)), tuple(verdicts)
        )
        for (base, head), verdicts in list(verdicts_by_pair.items())[:MAX_PAIRS]
    ]


def build_comparison_view(
    project: str,
    base: Commit,
    head: Commit,
    records: Sequence[VerdictRecord],
    base_runs: Sequence[Run],
    head_runs: Sequence[Run],
    commits: Sequence[Commit],
    changes: Iterable[ChangePoint] = (),
    gates: Callable[[Series], bool] = DEFAULT_POLICY.is_gating,
) -> ComparisonView:
    """Join verdicts and runs of two commits; ``commits`` come newest first, ``changes`` are the change
    points between the two."""
    verdicts = rank_verdicts_by_severity(record.verdict for record in records)
    groups = group_verdicts(verdicts, gates)
    primary_verdicts = rank_verdicts_by_severity(group.primary for group in groups if group.gates)
    primary_ids = set(map(id, primary_verdicts))
    sessions = {record.session_uid for record in records}
    base_runs, head_runs = _runs_of_sessions(base_runs, sessions), _runs_of_sessions(head_runs, sessions)
    # what was compared needs no values, unless the verdict may only say that neither side can measure it
    compared = {verdict.series for verdict in verdicts if verdict.kind is not VerdictKind.MISSING}
    values = _join_values(base_runs, head_runs, {change.series: change for change in changes}, compared)
    unavailable = [value for value in values if value.is_unavailable_at_both]
    unavailable_series = {value.series for value in unavailable}
    settled_series = unavailable_series | {verdict.series for verdict in verdicts}
    judged_series = set(select_judged_series(collect_processes_by_series([*base_runs, *head_runs])))
    undecided = [value for value in values if value.series not in settled_series]
    not_compared = [value for value in undecided if value.series in judged_series]
    notable = [
        verdict
        for verdict in primary_verdicts
        if verdict.kind is not VerdictKind.UNCHANGED
        and not (verdict.kind is VerdictKind.MISSING and verdict.series in unavailable_series)
    ]
    between = _commits_between(commits, base, head)
    return ComparisonView(
        project=project,
        base=base,
        head=head,
        sentence=_format_sentence(primary_verdicts, base, head, not_compared, compared=bool(verdicts)),
        counts=tuple(count_verdicts_by_kind(primary_verdicts)),
        verdicts=tuple(verdicts),
        notable=tuple(notable),
        explaining=tuple(verdict for verdict in verdicts if id(verdict) not in primary_ids),
        unchanged=tuple(verdict for verdict in verdicts if verdict.kind is VerdictKind.UNCHANGED),
        span=_axis_span(verdicts),
        informational=tuple(value for value in undecided if value.series not in judged_series),
        not_compared=tuple(not_compared),
        unavailable=group_series_by_reason((value.head.reason, value.series) for value in unavailable),
        environment=tuple(_diff_environments(base_runs, head_runs)),
        commits=tuple(between[:MAX_COMMITS]),
        commits_between=len(between),
    )


@dataclass(frozen=True, slots=True)
class ComparisonLists:
    """The lists of a comparison as an address selects them, what moved most first."""

    query: ListQuery
    notable: ListPage[Verdict]
    explaining: ListPage[Verdict]
    unchanged: ListPage[Verdict]
    not_compared: ListPage[CellRows[SeriesAtTwoCommits]]
    informational: ListPage[CellRows[SeriesAtTwoCommits]]
    unavailable: tuple[MissingReason, ...]

    @property
    def lists(self) -> tuple[ListPage[Any], ...]:
        return self.notable, self.explaining, self.unchanged, self.not_compared, self.informational


LIST_NAMES = ("notable", "explaining", "unchanged", "not_compared", "informational")
"""Names of lists as an address has them."""


def paginate_lists(page: ComparisonView, query: ListQuery) -> ComparisonLists:
    """Cut the lists of a comparison to the page that an address selects."""

    def cut_verdicts(name: str, title: str, verdicts: Sequence[Verdict]) -> ListPage[Verdict]:
        return build_list_page(name, title, verdicts, query, lambda verdict: verdict.series)

    def cut_values(
        name: str, title: str, values: Sequence[SeriesAtTwoCommits]
    ) -> ListPage[CellRows[SeriesAtTwoCommits]]:
        most_moved_first = sorted(values, key=lambda value: -value.absolute_log_change)
        return build_cell_list_page(name, title, most_moved_first, query, lambda value: value.series)

    reasons = (
        MissingReason(reason.text, tuple(search_rows(reason.series, query, lambda series: series)))
        for reason in page.unavailable
    )
    return ComparisonLists(
        query,
        notable=cut_verdicts("notable", "Decided and open", page.notable),
        explaining=cut_verdicts("explaining", "Explaining", page.explaining),
        unchanged=cut_verdicts("unchanged", "Unchanged", page.unchanged),
        not_compared=cut_values("not_compared", "Measured, not compared", page.not_compared),
        informational=cut_values("informational", "Informational", page.informational),
        unavailable=tuple(reason for reason in reasons if reason.series),
    )


def serialize_comparison(page: ComparisonView) -> dict[str, Any]:
    """Return the comparison as JSON-able fields."""
    return {
        "project": page.project,
        "base": serialize_commit(page.base),
        "head": serialize_commit(page.head),
        "sentence": str(page.sentence),
        "counts": dict(Counter(verdict.kind.value for verdict in page.primary_verdicts)),
        "verdicts": [serialize_verdict(verdict) for verdict in page.verdicts],
        "explaining": [verdict.series.label for verdict in page.explaining],
        "informational": [_serialize_value(value) for value in page.informational],
        "not_compared": [_serialize_value(value) for value in page.not_compared],
        "unavailable": [serialize_missing_reason(reason) for reason in page.unavailable],
        "environment": [
            {"name": name, "base": before, "head": after} for name, before, after in page.environment
        ],
    }


def _format_sentence(
    verdicts: Sequence[Verdict],
    base: Commit,
    head: Commit,
    not_compared: Sequence[SeriesAtTwoCommits],
    *,
    compared: bool,
) -> PageSummary:
    if verdicts or compared:
        return comparison_summary(verdicts, compared=compared)
    if not_compared and base.sha == head.sha:
        return PageSummary(f"{base.short_sha} was measured, but never against itself")
    if not_compared:
        return PageSummary(
            f"{base.short_sha} and {head.short_sha} were measured, but never against each other"
        )
    return PageSummary(f"Nothing was measured at both {base.short_sha} and {head.short_sha}")


def _runs_of_sessions(runs: Sequence[Run], sessions: set[str]) -> list[Run]:
    """Return the runs that the verdicts are based on; without verdicts, all."""
    return [run for run in runs if run.session in sessions] or list(runs)


def _join_values(
    base_runs: Sequence[Run],
    head_runs: Sequence[Run],
    changes: Mapping[Series, ChangePoint],
    left_out: Container[Series],
) -> list[SeriesAtTwoCommits]:
    """Return the series measured on both sides, sorted by name."""
    base, head = merge_runs_into_dots(base_runs, left_out), merge_runs_into_dots(head_runs, left_out)
    return [
        SeriesAtTwoCommits(series, base[series], head[series], changes.get(series))
        for series in sorted(base, key=lambda series: series.cell)
        if series in head
    ]


def _commits_between(commits: Sequence[Commit], base: Commit, head: Commit) -> list[Commit]:
    """Return the commits after base up to head, newest first; none if head does not follow base."""
    # A working tree has no place between commits.
    line = [commit for commit in commits if not commit.dirty]
    positions = {commit.sha: position for position, commit in enumerate(line)}
    if base.sha not in positions or head.sha not in positions:
        return []
    return line[positions[head.sha] : positions[base.sha]]


def _axis_span(verdicts: Iterable[Verdict]) -> float:
    factors = [1.0]
    for verdict in verdicts:
        ends = [verdict.ratio, *((verdict.interval.lo, verdict.interval.hi) if verdict.interval else ())]
        factors += [max(end, 1 / end) for end in ends if end is not None and end > 0]
    return min(MAX_SPAN, max(MIN_SPAN, max(factors) * 1.02))


def _diff_environments(base: Iterable[Run], head: Iterable[Run]) -> list[tuple[str, str, str]]:
    """Return what differs between the environments of two sides: name, values at base, values at head."""
    before, after = (_observed_values(run.environment for run in runs) for runs in (base, head))
    names = dict.fromkeys([*before, *after])
    rows = [(name, _format_values(before.get(name)), _format_values(after.get(name))) for name in names]
    return [row for row in rows if row[1] != row[2]]


def _observed_values(environments: Iterable[Environment]) -> dict[str, set[str]]:
    values_by_name: dict[str, set[str]] = {}
    for environment in environments:
        for name, value in environment.values:
            values_by_name.setdefault(name, set()).add(value)
    return values_by_name


def _format_values(values: set[str] | None) -> str:
    return ", ".join(sorted(values)) if values else "not recorded"


def _serialize_value(series_value: SeriesAtTwoCommits) -> dict[str, Any]:
    ratio = None if series_value.relative_change is None else series_value.relative_change + 1
    interval = series_value.change.interval if series_value.change else None
    return {
        "series": serialize_series(series_value.series),
        "base_level": series_value.base_level,
        "head_level": series_value.head_level,
        "ratio": ratio,
        "interval": [interval.lo, interval.hi] if interval else None,
        "is_change_point": series_value.change is not None,
    }
