"""Write the headline and detail of a page: of a comparison, a project, a trend, an unmeasurable series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Series, Verdict, VerdictKind
from perfci.report.escaping import MAX_REASON_LENGTH, make_printable
from perfci.report.number_format import (
    format_count,
    format_quantity,
)
from perfci.report.series_trend import Trend
from perfci.report.verdict_text import (
    most_severe_verdict,
    relative_change_phrase,
    short_series_name,
    verdict_counts_sentence,
    verdict_sentence,
)


@dataclass(frozen=True, slots=True)
class PageSummary:
    """The headline of a page and the detail below it; as text, two sentences."""

    headline: str
    detail: str = ""

    def __str__(self) -> str:
        return ". ".join(part for part in (self.headline, self.detail) if part) + "."


def comparison_summary(verdicts: Sequence[Verdict], *, compared: bool = False) -> PageSummary:
    """Summarize a comparison: whether head is worse than base.

    ``compared`` says that there were verdicts besides these, none of which gates.
    """
    if not verdicts:
        return PageSummary("No regression" if compared else "Nothing was compared")
    worst, counts = most_severe_verdict(verdicts), verdict_counts_sentence(verdicts)
    if worst.kind is VerdictKind.UNCHANGED:
        return PageSummary(f"No regression: {counts}")
    if worst.kind is VerdictKind.IMPROVEMENT:
        return PageSummary(f"No regression: {counts}", f"Largest: {verdict_sentence(worst)}")
    if worst.kind in {VerdictKind.REGRESSION, VerdictKind.FAILED}:
        return PageSummary(counts, f"{'Worst: ' if len(verdicts) > 1 else ''}{verdict_sentence(worst)}")
    return PageSummary(f"No regression found, some results inconclusive: {counts}")


def project_overview_summary(
    open_regressions: Sequence[Verdict], *, series: int, commits: int, compared: bool, incidents: int = 0
) -> PageSummary:
    """Summarize a project: whether anything got worse.

    Where nothing was compared, or an incident is open, it does not say that there is no regression.
    """
    scope = f"{format_count(series, 'series', 'series')} over {format_count(commits, 'commit')}"
    if open_regressions:
        worst = most_severe_verdict(open_regressions)
        prefix = "Worst: " if len(open_regressions) > 1 else ""
        return PageSummary(
            format_count(len(open_regressions), "open regression"), f"{prefix}{verdict_sentence(worst)}"
        )
    if incidents:
        return PageSummary(
            format_count(incidents, "open incident"),
            f"No regression has been confirmed on new pairs in {scope}",
        )
    if not series:
        return PageSummary("Nothing was measured yet")
    if not compared:
        return PageSummary("Nothing was compared yet", f"Measured: {scope}")
    return PageSummary(f"No open regression in {scope}")


def recent_incidents_summary(opened: int, *, new: int, fixed: int, window: str) -> str:
    """Say what became of a project in a time window: ``1 new incident, 2 fixed in the last 7 days; 5 open``.

    ``new`` are the open incidents whose change lies in the window, ``fixed`` those fixed or reverted in it.
    """
    still_open = (
        f"{format_count(opened, 'incident is', 'incidents are')} open" if opened else "no incident is open"
    )
    parts = [format_count(new, "new incident")] if new else []
    parts += [f"{fixed:,} fixed"] if fixed else []
    if parts:
        return f"{', '.join(parts)} {window}; {still_open}"
    return f"Nothing got worse {window}; {still_open}"


def stale_summary(silence: str, summary: PageSummary) -> PageSummary:
    """Put first that results have ended: ``No data for 26 hours; before that: 5 open incidents``."""
    headline = f"{summary.headline[:1].lower()}{summary.headline[1:]}"
    return PageSummary(f"No data for {silence}; before that: {headline}", summary.detail)


def trend_summary(trend: Trend) -> PageSummary:
    """Describe the current level of a series and its last change, or why it has no value.

    A series without levels is informational: only its last value is given.
    """
    name, metric = short_series_name(trend.series), trend.series.metric
    failed = trend.failed_commit_count
    failures = [f"{format_count(failed, 'commit')} failed"] if failed else []
    if trend.newest_measured_level is None:
        if trend.dots and not trend.failed_dots:
            return unmeasurable_series_summary(trend.series, trend.dots[-1].reason)
        return PageSummary(f"{name} has no measured value yet", "".join(failures))
    if not trend.levels:
        level = format_quantity(trend.newest_measured_level, metric.unit, metric.name)
        return PageSummary(
            f"{name} was {level} at {trend.measured_dots[-1].commit.sha[:10]}", "".join(failures)
        )
    level = format_quantity(trend.levels[-1].value, metric.unit, metric.name)
    return PageSummary(f"{name} is at {level}", "; ".join([*_change_history(trend), *failures]))


def unmeasurable_series_summary(series: Series, reason: str) -> PageSummary:
    """Describe why a machine cannot measure a series, which is no failure."""
    cause = make_printable(reason, MAX_REASON_LENGTH).rstrip(".")
    detail = f"Reason: {cause}" if cause else ""
    return PageSummary(f"{short_series_name(series)} cannot be measured on this machine", detail)


def _change_history(trend: Trend) -> list[str]:
    """List the recorded changes; unrecorded ones are not ruled out."""
    confirmed = trend.confirmed_marks()
    candidates = [mark for mark in trend.marks if mark.state == "candidate"]
    parts = []
    if confirmed:
        last = confirmed[-1]
        change = relative_change_phrase(last.ratio, trend.series.metric)
        parts.append(f"Last change: {change} at {last.commit[:10]}")
    if candidates:
        parts.append(f"{format_count(len(candidates), 'candidate change')} not confirmed")
    return parts or [f"No change is recorded over {format_count(trend.commit_count, 'commit')}"]
