"""Write the headline and detail of a page: of a comparison, a project, a trend, an unmeasurable series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from perfci.model import Series, Verdict, VerdictKind
from perfci.number_format import (
    format_count,
    format_day,
    format_percent,
    format_quantity,
    format_signed_percent,
)
from perfci.report.escaping import MAX_REASON_LENGTH, make_printable
from perfci.report.series_trend import ChangeMark, Trend
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import (
    change_levels_phrase,
    most_severe_verdict,
    short_series_name,
    verdict_counts_sentence,
    verdict_sentence,
)
from perfci.verdicts.history.trend_sensitivity import COMMITS_AFTER_STEP, TrendSensitivity


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


def recent_incidents_summary(
    opened: int, *, new: int, fixed: int, window: str, confirmed_only: bool = False
) -> str:
    """Say what became of a project in a time window: ``1 new incident, 2 fixed in the last 7 days; 5 open``.

    ``new`` are the open incidents whose change lies in the window, ``fixed`` those fixed or reverted in it.
    With ``confirmed_only`` the counts are of those that an A/B rerun confirmed, and the words say so.
    """
    noun = "confirmed incident" if confirmed_only else "incident"
    still_open = (
        f"{format_count(opened, f'{noun} is', f'{noun}s are')} open" if opened else f"no {noun} is open"
    )
    parts = [format_count(new, f"new {noun}")] if new else []
    parts += [f"{fixed:,} fixed"] if fixed else []
    if parts:
        return f"{', '.join(parts)} {window}; {still_open}"
    nothing = "Nothing is confirmed to have got worse" if confirmed_only else "Nothing got worse"
    return f"{nothing} {window}; {still_open}"


def stale_summary(without_data_for: str, summary: PageSummary) -> PageSummary:
    """Put first that results have ended: ``No data for 26 hours; before that: 5 open incidents``."""
    headline = f"{summary.headline[:1].lower()}{summary.headline[1:]}"
    return PageSummary(f"No data for {without_data_for}; before that: {headline}", summary.detail)


def trend_summary(
    trend: Trend,
    sensitivity: TrendSensitivity | None = None,
    incident_numbers: Mapping[str, int] = MappingProxyType({}),
) -> PageSummary:
    """Describe the current level of a series and its last change, or why it has no value.

    A series without levels is informational: only its last value is given. ``sensitivity`` adds what its
    noise hides, ``incident_numbers`` the incident of the last change by its commit.
    """
    name, metric = short_series_name(trend.series), trend.series.metric
    failed = trend.failed_commit_count
    failures = [f"{format_count(failed, 'commit')} failed"] if failed else []
    if trend.newest_measured_level is None:
        if trend.dots and not trend.failed_dots:
            return unmeasurable_series_summary(trend.series, trend.dots[-1].reason)
        return PageSummary(f"{name} has no measured value yet", "".join(failures))
    if broken_dots := trend.dots_since_last_value:
        return _broken_series_summary(trend, broken_dots)
    if not trend.levels:
        level = format_quantity(trend.newest_measured_level, metric.unit, metric.name)
        return PageSummary(
            f"{name} was {level} at {trend.measured_dots[-1].commit.sha[:10]}", "".join(failures)
        )
    level = format_quantity(trend.levels[-1].value, metric.unit, metric.name)
    shown = [mark for mark in trend.marks if mark.state != "refuted"]
    noise = [_noise_phrase(sensitivity)] if sensitivity else []
    if not shown:
        measured = trend.measured_dots[-1].commit.committed_at
        when = f" (last measured {format_day(measured)})" if measured else ""
        unchanged = f"No change is recorded over {format_count(trend.commit_count, 'commit')}"
        return PageSummary(f"{name} is {level}{when}", ". ".join([unchanged, *failures, *noise]))
    change = _last_change_phrase(trend, shown[-1], incident_numbers)
    facts = "; ".join([*_level_before(trend, shown[-1]), *_other_candidates(shown), *failures])
    return PageSummary(f"{name} is {level}, {change}", ". ".join(filter(None, (facts, *noise))))


def _broken_series_summary(trend: Trend, broken_dots: Sequence[Dot]) -> PageSummary:
    """Say since when a benchmark fails, and what its value was before."""
    name, metric, first = short_series_name(trend.series), trend.series.metric, broken_dots[0].commit
    since = format_day(first.committed_at) if first.committed_at else first.sha[:10]
    last_value = trend.levels[-1].end if trend.levels else trend.newest_measured_level
    assert last_value is not None
    was = f"was {format_quantity(last_value, metric.unit, metric.name)}"
    failures = format_count(sum(dot.merged for dot in broken_dots), "failure")
    return PageSummary(
        f"{name} is broken since {since}: {failures}; {was}",
        f"Last reason: {make_printable(broken_dots[-1].reason, MAX_REASON_LENGTH)}"
        if broken_dots[-1].reason
        else "",
    )


def _last_change_phrase(trend: Trend, mark: ChangeMark, incident_numbers: Mapping[str, int]) -> str:
    """A change and how sure it is: ``+38.0 % since c9eb16a (3 Aug 2026, not confirmed, #19)``."""
    states = {"confirmed": "confirmed by A/B rerun", "candidate": "not confirmed", "refuted": ""}
    number = incident_numbers.get(mark.commit)
    commit = trend.find_commit(mark.index)
    moment = commit.committed_at if commit else None
    notes = [format_day(moment) if moment else "", states[mark.state], f"#{number}" if number else ""]
    return (
        f"{format_signed_percent(mark.change.relative_change)} since {mark.commit[:7]} "
        f"({', '.join(filter(None, notes))})"
    )


def _level_before(trend: Trend, mark: ChangeMark) -> list[str]:
    """The level before a change, with the commits that it held for."""
    before = next((level for level in trend.levels if level.first <= mark.index - 1 <= level.last), None)
    if mark.on_pairs or before is None:
        phrase = change_levels_phrase(mark.change)
        return [f"Measured in pairs: {phrase}"] if phrase else []
    metric = trend.series.metric
    value = format_quantity(mark.change.before, metric.unit, metric.name)
    return [f"Before: {value} for {format_count(mark.index - before.first, 'commit')}"]


def _other_candidates(shown: Sequence[ChangeMark]) -> list[str]:
    others = [mark for mark in shown[:-1] if mark.state == "candidate"]
    return [f"{format_count(len(others), 'earlier change')} not confirmed"] if others else []


def _noise_phrase(sensitivity: TrendSensitivity) -> str:
    """What noise hides of a series."""
    if sensitivity.smallest_step == 0:
        return "Values repeat exactly: any step shows"
    smallest = format_percent(sensitivity.smallest_step)
    noise = f"Noise ±{format_percent(sensitivity.noise)}"
    return f"{noise}; steps under {smallest} would not show within {COMMITS_AFTER_STEP} commits"


def unmeasurable_series_summary(series: Series, reason: str) -> PageSummary:
    """Describe why a machine cannot measure a series, which is no failure."""
    cause = make_printable(reason, MAX_REASON_LENGTH).rstrip(".")
    detail = f"Reason: {cause}" if cause else ""
    return PageSummary(f"{short_series_name(series)} cannot be measured on this machine", detail)
