"""Describe one incident: what changed, where, the likely cause, the next step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from perfci.model import ChangePoint, Commit, Incident, IncidentKind, Series, TailVerdict
from perfci.number_format import format_count, format_day, format_signed_percent
from perfci.report.escaping import make_printable
from perfci.report.verdict_text import (
    Tone,
    change_levels_phrase,
    change_size_phrase,
    relative_change_phrase,
    short_series_name,
    tail_phrase,
)
from perfci.verdicts.incidents.incident_builder import is_provisional
from perfci.verdicts.incidents.machine_shifts import MAX_TIME_UNMEASURED, PROVISIONAL_CAUSES, UNMEASURED_CAUSE
from perfci.verdicts.incidents.paging_budget import BudgetedIncident, Disposition, ExpectedChangeMatch
from perfci.verdicts.incidents.step_causes import is_next_commit
from perfci.verdicts.related_metrics import group_related

MAX_OBSERVED_SHOWN = 4
"""The number of environment changes named; an upgrade may change many at once."""

MAX_COMMAND_CELLS = 5
"""The number of cells a command names, the largest changes first."""

TONES: dict[IncidentKind, Tone] = {
    IncidentKind.REGRESSION: "worse",
    IncidentKind.IMPROVEMENT: "better",
    IncidentKind.MIXED: "worse",
    IncidentKind.ENVIRONMENT: "unsure",
    IncidentKind.MACHINE: "unsure",
    IncidentKind.RESOLVED: "same",
}

GLYPHS = {
    IncidentKind.REGRESSION: "▲",
    IncidentKind.IMPROVEMENT: "▼",
    IncidentKind.MIXED: "◆",
    IncidentKind.ENVIRONMENT: "⚙",
    IncidentKind.MACHINE: "⌂",
    IncidentKind.RESOLVED: "✓",
}

CHANGE_PHRASES = {
    IncidentKind.REGRESSION: "got worse",
    IncidentKind.IMPROVEMENT: "got better",
    IncidentKind.ENVIRONMENT: "changed with the environment",
    IncidentKind.MACHINE: "changed with the machine",
    IncidentKind.RESOLVED: "changed and recovered",
}
"""What the series of an incident did; those of a mixed one did both."""

MACHINE_CAUSE_TEXTS = {
    "refuted": "New pairs of the same two commits show no change: the machine drifted, not the code.",
    "canary": "A canary benchmark that no commit affects changed by the same amount.",
    "machine_wide": "Most series on this machine changed alike, across unrelated suites.",
    "bad_session": "Too many changes in both directions for one commit, all in {sessions}.",
    "transient": "Most of it was gone in the next run: the machine was disturbed in {sessions}.",
}
"""The explanation of each cause that lies in the machine."""

DISPOSITION_TEXTS = {
    Disposition.TOO_WEAK: "not alerted: evidence too weak for this many series",
    Disposition.WAITING: "waiting for a third measurement or confirmation",
    Disposition.NOTE: "informational: no alert",
}

CommitsBySha = Mapping[str, Commit]


def incident_headline(incident: Incident, commits: CommitsBySha) -> str:
    """Describe what changed, by how much, where and when.

    ``Form.time_validate and 12 more series got worse, up to +7,668 %, at c9eb16a2d1 Fix #35 (3 Aug 2026)``.
    """
    name = _commit_name(incident.commit, commits)
    good, last = commits.get(incident.last_good), commits.get(incident.commit)
    place = f"between {incident.last_good[:10]} (last good) and {name}"
    if last and (incident.last_good in last.parents or (good and is_next_commit(good, last))):
        place = f"at {name}"
    date = f" ({format_day(last.committed_at)})" if last and last.committed_at else ""
    return f"{_change_summary(incident)} {place}{date}"


def _change_summary(incident: Incident) -> str:
    """Name the largest change and its size, and count the others."""
    worse = [change for change in incident.members if change.log_cost_change > 0]
    better = [change for change in incident.members if change.log_cost_change <= 0]
    if incident.kind is not IncidentKind.MIXED:
        phrase = "changed together" if is_provisional(incident) else CHANGE_PHRASES[incident.kind]
        return _largest_change_summary(incident.members, phrase)
    summary = _largest_change_summary(worse or better, "got worse" if worse else "got better")
    return f"{summary} and {count_distinct_changes(better):,} better," if worse and better else summary


def _largest_change_summary(changes: Sequence[ChangePoint], phrase: str) -> str:
    largest = max(changes, key=_change_size)
    size = format_signed_percent(largest.relative_change)
    if largest.before <= 0:
        size = f"{largest.before:g} → {largest.after:g}"
    name, more = _headline_series_name(largest), count_distinct_changes(changes) - 1
    if not more:
        return f"{name} {phrase}, {size},"
    return f"{name} and {format_count(more, 'more series', 'more series')} {phrase}, up to {size},"


def _headline_series_name(change: ChangePoint) -> str:
    """The short name of a series without the modules of its benchmark."""
    name, benchmark = short_series_name(change.series), change.series.benchmark.name
    short = ".".join(benchmark.split(".")[-2:]) if re.fullmatch(r"[\w.]+", benchmark) else benchmark
    return name.replace(benchmark, short, 1)


def count_distinct_changes(changes: Sequence[ChangePoint]) -> int:
    """Count the series that moved, related ones of one model once."""
    series = {change.series: change for change in changes}
    return len(group_related(series.values(), lambda change: change.series, _change_size))


def _change_size(change: ChangePoint) -> float:
    return abs(change.log_cost_change)


def incident_explanation(incident: Incident, commits: CommitsBySha) -> str:
    """Explain why no commit is blamed, or whether the change is confirmed; one or two sentences."""
    if incident.kind is IncidentKind.ENVIRONMENT:
        return _environment_explanation(incident)
    if incident.kind is IncidentKind.RESOLVED:
        return f"It recovered at {_commit_name(incident.reverted_by, commits)}, so no alert was raised."
    if incident.kind is IncidentKind.MACHINE:
        return _machine_explanation(incident)
    if incident.cause == UNMEASURED_CAUSE:
        return (
            "The machine was suspected, but no new pairs were measured within "
            f"{format_count(MAX_TIME_UNMEASURED.days, 'day')}, so it counts as a change of the code."
        )
    if incident.confirmed_count:
        if incident.confirmed_count >= len(incident.members):
            return "Confirmed on new pairs."
        return f"Confirmed on new pairs in {incident.confirmed_count} of {len(incident.members)} series."
    return "Detected in the history only; not yet confirmed on new pairs." if incident.settled else ""


def _commit_name(sha: str, commits: CommitsBySha) -> str:
    commit = commits.get(sha)
    return f"{sha[:10]} {make_printable(commit.subject, 90)}".strip() if commit else sha[:10]


def _environment_explanation(incident: Incident) -> str:
    """Name what changed: ``torch 2.12.1 → 2.13.0``; a missing value is not known."""
    parts = []
    for change in incident.environment_changes[:MAX_OBSERVED_SHOWN]:
        before, after = (make_printable(value, 60) or "not known" for value in (change.before, change.after))
        parts.append(f"{make_printable(change.name, 40)} {before} → {after}")
    more = len(incident.environment_changes) - len(parts)
    if more > 0:
        parts.append(f"and {more} more")
    values = "; ".join(parts)
    if incident.ambiguous:
        return (
            f"{values}. No commit can be blamed or cleared: the commits in between were measured in "
            "neither environment, or the step does not line up with the change. "
            "Comparing both ends in pairs would decide."
        )
    return f"{values}. No commit is blamed."


def _machine_explanation(incident: Incident) -> str:
    """Say how the machine was the cause, and in which sessions."""
    named = [make_printable(session, 60) for session in incident.sessions[:2]]
    more = len(incident.sessions) - len(named)
    noun = "session" if len(incident.sessions) == 1 else "sessions"
    suffix = f" and {more} more" if more > 0 else ""
    text = MACHINE_CAUSE_TEXTS[incident.cause].format(sessions=f"{noun} {', '.join(named)}{suffix}")
    if incident.cause not in PROVISIONAL_CAUSES:
        return text
    if is_provisional(incident):
        return (
            f"{text} The machine is suspected; new pairs tell it from a change of the code. Without them, it "
            f"counts as one after {format_count(MAX_TIME_UNMEASURED.days, 'day')}."
        )
    return f"{text} New pairs of one of them show no change: the machine was disturbed, not the code."


def member_change_sentence(change: ChangePoint) -> str:
    """Describe the change of one series."""
    metric = change.series.metric
    if change.before > 0:
        return (
            f"{short_series_name(change.series)} {relative_change_phrase(1 + change.relative_change, metric)}"
        )
    return f"{short_series_name(change.series)} went from {change.before:g} to {change.after:g}"


def member_change_detail(change: ChangePoint, tail: TailVerdict | None = None) -> str:
    """Describe the change of one series: the interval of its size, what its tail did, and both levels."""
    size = change_size_phrase(change, change.series.metric)
    levels = change_levels_phrase(change)
    tail_text = f"; {tail_phrase(tail, change.series.metric)}" if tail else ""
    return f"{short_series_name(change.series)} {size}{f': {levels}' if levels else ''}{tail_text}"


def alert_decision_sentence(budgeted: BudgetedIncident, pages_per_week: int) -> str:
    """Describe whether an incident raises an alert, and why not."""
    if budgeted.is_expected:
        return "as expected: no alert"
    if budgeted.disposition is Disposition.PAGE:
        week = f"in week {budgeted.week}" if budgeted.week else "in runs without a date"
        recovered = "" if budgeted.incident.ongoing else "; recovered since"
        return f"alert {budgeted.page_number} of at most {pages_per_week} {week}{recovered}"
    if budgeted.disposition is Disposition.HELD_BACK:
        if not pages_per_week:
            return "not alerted: alerts are disabled"
        limit, week = format_count(pages_per_week, "alert"), budgeted.week or "runs without a date"
        return f"not alerted: weekly limit of {limit} reached ({week})"
    return DISPOSITION_TEXTS[budgeted.disposition]


def expected_change_sentence(match: ExpectedChangeMatch) -> str:
    """Compare an incident with the expected changes declared for it."""
    sources = ", ".join(dict.fromkeys(make_printable(change.source, 60) for change in match.merged))
    if match.covers_all:
        reasons = dict.fromkeys(make_printable(change.expected.reason) for change in match.merged)
        return f"expected, declared in {sources}: {'; '.join(reasons)}"
    largest = match.exceeding[0]
    sizes = [
        change.expected.change for change in match.merged if change.expected.matches_series(largest.series)
    ]
    declared = f" declared {format_signed_percent(max(sizes, key=abs))}" if sizes else ""
    return f"larger than expected: {sources}{declared}; {member_change_sentence(largest)}"


def candidate_commit_lines(incident: Incident) -> list[str]:
    """List the candidate commits, most likely first, each with the number of series that support it."""
    several = len(incident.candidates) > 1 or len(incident.members) > 1
    return [
        " · ".join(
            [
                f"{candidate.commit.sha[:10]} {make_printable(candidate.commit.subject, 90)}".strip(),
                *([make_printable(candidate.commit.author, 60)] if candidate.commit.author else []),
                *([f"supported by {format_count(candidate.members, 'series', 'series')}"] if several else []),
            ]
        )
        for candidate in incident.candidates
    ]


def next_measurement_command(incident: Incident) -> str:
    """Return the command for the next measurement; empty if none is needed."""
    if incident.pair_to_measure is None:
        return ""
    return format_compare_command(
        *incident.pair_to_measure, (change.series.cell for change in incident.members)
    )


def format_compare_command(base: str, head: str, cells: Iterable[str]) -> str:
    """Build ``perfci compare BASE HEAD --bench REGEX`` for some cells."""
    names = list(dict.fromkeys(cells))[:MAX_COMMAND_CELLS]
    pattern = "|".join(f"^{re.escape(name)}$" for name in names)
    return f"perfci compare {base[:10]} {head[:10]} --bench {shlex.quote(pattern)}"


def format_bisect_command(base: str, head: str, series: Series) -> str:
    """Build ``perfci bisect BASE..HEAD --bench REGEX --metric NAME`` for a series."""
    pattern, metric = shlex.quote(f"^{re.escape(series.cell)}$"), shlex.quote(series.metric.name)
    return f"perfci bisect {base[:10]}..{head[:10]} --bench {pattern} --metric {metric}"
