"""The view model of the comparison of two sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfci.model import Commit, Environment, Series, Verdict, VerdictKind
from perfci.number_format import format_count, format_signed_percent
from perfci.report.comparisons.comparison_rows import ComparisonRow, Outcome
from perfci.report.comparisons.group_summaries import GroupSummary, summarize_rows
from perfci.report.comparisons.row_table import RowTable
from perfci.report.page_summaries import PageSummary, comparison_summary
from perfci.report.serializers import serialize_commit, serialize_series, serialize_verdict
from perfci.report.verdict_text import (
    VerdictKindCount,
    count_verdicts_by_kind,
    format_in_common_unit,
    rank_verdicts_by_severity,
    short_series_name,
)
from perfci.store.queries.query_records import RunRecord
from perfci_web.comparisons.load_comparison import LoadedComparison
from perfci_web.comparisons.sides import Side
from perfci_web.view_parts.table_row_groups import (
    MissingReason,
    group_series_by_reason,
    serialize_missing_reason,
)


@dataclass(frozen=True)
class ComparisonView:
    """The page of a comparison; ``rows`` are the worst first, without what neither side can measure;
    ``decided`` are those of them that have a verdict."""

    project: str
    base: Side
    head: Side
    rows: RowTable
    decided: tuple[ComparisonRow, ...]
    verdicts: tuple[Verdict, ...]
    unavailable: tuple[MissingReason, ...]
    environment: tuple[tuple[str, str, str], ...]
    machines: tuple[tuple[str, ...], tuple[str, ...]]
    commits: tuple[Commit, ...]
    commits_between: int

    @cached_property
    def overall(self) -> GroupSummary:
        """What all rows came to together."""
        return summarize_rows(self.rows)

    @property
    def primary_verdicts(self) -> list[Verdict]:
        """The verdicts, one for each change."""
        return [row.verdict for row in self.decided if row.verdict is not None and not row.explains]

    @property
    def counts(self) -> list[VerdictKindCount]:
        return count_verdicts_by_kind(self.primary_verdicts)

    @cached_property
    def separate_rows(self) -> RowTable:
        """The rows of separate runs, which no verdict was given on; without context metrics."""
        columns = self.rows.columns
        return self.rows.where(~columns["has_verdict"] & ~columns["is_context"])

    @property
    def unavailable_series(self) -> list[Series]:
        """The series that neither side can measure."""
        return [series for reason in self.unavailable for series in reason.series]

    @property
    def is_same_commit(self) -> bool:
        return self.base.commit.sha == self.head.commit.sha and not self.base.is_place

    @cached_property
    def sentence(self) -> PageSummary:
        if self.verdicts:
            return comparison_summary(self.primary_verdicts, compared=True)
        return _summarize_separate_runs(self)


def build_comparison_view(project: str, loaded: LoadedComparison) -> ComparisonView:
    """Sort the rows of a comparison, and set apart what neither side can measure."""
    table = loaded.rows.sort("severity")
    verdicts = rank_verdicts_by_severity(record.verdict for record in loaded.verdicts)
    may_be = np.flatnonzero(table.columns["is_unavailable"])
    is_left_out = np.zeros(len(table), bool)
    is_left_out[may_be] = [_may_be_unavailable(row) for row in table.take(may_be)]
    unavailable, rows = table.where(is_left_out), table.where(~is_left_out)
    return ComparisonView(
        project=project,
        base=loaded.base,
        head=loaded.head,
        rows=rows,
        decided=tuple(rows.where(rows.columns["has_verdict"])),
        verdicts=tuple(verdicts),
        unavailable=group_series_by_reason(
            (row.head.reason or row.base.reason, row.series) for row in unavailable
        ),
        environment=tuple(_diff_environments(loaded.base_runs, loaded.head_runs)),
        machines=(_machine_labels(loaded.base_runs), _machine_labels(loaded.head_runs)),
        commits=loaded.commits,
        commits_between=loaded.commits_between,
    )


def _may_be_unavailable(row: ComparisonRow) -> bool:
    """Whether a row says no more than that neither side could measure it."""
    return row.verdict is None or row.verdict.kind is VerdictKind.MISSING


def _summarize_separate_runs(page: ComparisonView) -> PageSummary:
    """Describe the differences of separate runs, which are never called a regression."""
    ends = (
        f"{page.base.name or page.base.commit.short_sha} and {page.head.name or page.head.commit.short_sha}"
    )
    if not len(page.separate_rows):
        return PageSummary(f"Nothing was measured at both {ends}")
    counts = page.overall.counts
    order = (
        Outcome.LIKELY_WORSE,
        Outcome.LIKELY_BETTER,
        Outcome.UNKNOWN,
        Outcome.WITHIN_NOISE,
        Outcome.MISSING,
    )
    parts = [f"{counts[outcome]:,} {outcome.value}" for outcome in order if outcome in counts]
    headline = f"Separate runs of {ends}: {', '.join(parts)}"
    [worst] = page.separate_rows.build([0])
    if worst.outcome is not Outcome.LIKELY_WORSE or worst.ratio is None:
        return PageSummary(headline)
    base, head = format_in_common_unit((worst.base_level, worst.head_level), worst.series.metric)
    size = format_signed_percent(worst.ratio - 1)
    return PageSummary(
        headline, f"Farthest outside its noise: {short_series_name(worst.series)} {size}, {base} → {head}"
    )


def _machine_labels(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.machine.label for run in runs))


def _diff_environments(base: Iterable[RunRecord], head: Iterable[RunRecord]) -> list[tuple[str, str, str]]:
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


def format_mean_ratio(summary: GroupSummary) -> str:
    """Format the geometric mean of a group: ``+0.3 % [−0.1, +0.8] of 60 series``."""
    if summary.mean_ratio is None:
        return ""
    interval = summary.interval
    ends = ""
    if interval is not None:
        low, high = (format_signed_percent(end - 1).removesuffix(" %") for end in (interval.lo, interval.hi))
        ends = f" [{low}, {high}]"
    excluded = f", {summary.excluded:,} without a ratio left out" if summary.excluded else ""
    scope = format_count(summary.common, "series", "series")
    return f"{format_signed_percent(summary.mean_ratio - 1)}{ends} over {scope}{excluded}"


def serialize_comparison(page: ComparisonView) -> dict[str, Any]:
    """Return the comparison as JSON-able fields."""
    by_name = sorted(page.rows, key=lambda row: row.series.label)
    unjudged = [row for row in by_name if row.verdict is None and row.ratio is not None]
    context = [row for row in unjudged if row.is_context]
    separate = [row for row in unjudged if not row.is_context]
    return {
        "project": page.project,
        "base": serialize_commit(page.base.commit),
        "head": serialize_commit(page.head.commit),
        "sides": [page.base.text, page.head.text],
        "sentence": str(page.sentence),
        "counts": _count_kinds(page.primary_verdicts),
        "outcomes": {outcome.value: count for outcome, count in page.overall.counts.items()},
        "mean": _serialize_mean(page.overall),
        "verdicts": [serialize_verdict(verdict) for verdict in page.verdicts],
        "explaining": [row.series.label for row in page.rows if row.explains],
        "informational": [serialize_row(row) for row in context],
        "not_compared": [serialize_row(row) for row in separate],
        "unavailable": [serialize_missing_reason(reason) for reason in page.unavailable],
        "environment": [
            {"name": name, "base": before, "head": after} for name, before, after in page.environment
        ],
    }


def _count_kinds(verdicts: Sequence[Verdict]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.kind.value] = counts.get(verdict.kind.value, 0) + 1
    return counts


def _serialize_mean(summary: GroupSummary) -> dict[str, Any]:
    interval = summary.interval
    return {
        "ratio": summary.mean_ratio,
        "interval": [interval.lo, interval.hi] if interval else None,
        "series": summary.common,
        "excluded": summary.excluded,
    }


def serialize_row(row: ComparisonRow) -> dict[str, Any]:
    """Return one row without a verdict as JSON-able fields."""
    interval = row.interval
    return {
        "series": serialize_series(row.series),
        "base_level": row.base_level,
        "head_level": row.head_level,
        "ratio": row.ratio,
        "interval": [interval.lo, interval.hi] if interval else None,
        "is_change_point": row.change is not None,
        "outcome": row.outcome.value,
        "noise": row.noise,
    }


CSV_COLUMNS = (
    *("benchmark", "version", "parameters", "metric", "unit", "direction", "machine", "variant"),
    *(
        "base",
        "head",
        "ratio",
        "ci_lo",
        "ci_hi",
        "outcome",
        "stage",
        "pairs",
        "noise",
        "mde",
        "p_value",
        "reason",
    ),
)


def serialize_csv_row(row: ComparisonRow) -> Mapping[str, Any]:
    """Return one row of the CSV: every row of a comparison, with or without a verdict."""
    series, verdict, interval = row.series, row.verdict, row.interval
    return {
        "benchmark": series.benchmark.name,
        "version": series.benchmark.version,
        "parameters": " ".join(f"{name}={value}" for name, value in series.parameters),
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "direction": series.metric.direction,
        "machine": series.machine.label,
        "variant": series.variant.label,
        "base": row.base_level,
        "head": row.head_level,
        "ratio": row.ratio,
        "ci_lo": interval.lo if interval else None,
        "ci_hi": interval.hi if interval else None,
        "outcome": verdict.kind.value if verdict else row.outcome.value,
        "stage": verdict.stage.value if verdict else "",
        "pairs": verdict.pairs if verdict else None,
        "noise": verdict.noise_floor if verdict else row.noise,
        "mde": verdict.mde if verdict else None,
        "p_value": verdict.p_value if verdict else None,
        "reason": verdict.reason if verdict else row.advice,
    }
