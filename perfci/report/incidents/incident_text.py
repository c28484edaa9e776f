"""Describe incidents: what changed, between which commits, the likely cause and the next measurement."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from perfci.model import ChangePoint, Commit, EnvironmentChange, Incident, IncidentKind, Retest
from perfci.report.escaping import make_printable, series_name
from perfci.report.number_format import format_count, format_signed_percent
from perfci.report.verdict_labels import Tone
from perfci.report.verdict_sentences import format_interval, level_change_phrase
from perfci.verdicts.history.release_creep import Creep
from perfci.verdicts.incidents.page_budget import BudgetedIncident, Disposition
from perfci.verdicts.incidents.step_causes import is_next_commit

MAX_OBSERVED_SHOWN = 4
"""The number of environment changes named; an upgrade may change many at once."""

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

CommitsBySha = Mapping[str, Commit]


def incident_headline(incident: Incident, commits: CommitsBySha) -> str:
    """Describe what changed and where: ``2 series got worse at 3f2a9c8 Fuse the optimizer step``."""
    return f"{_change_phrase(incident)} {_commit_phrase(incident, commits)}"


def incident_explanation(incident: Incident, commits: CommitsBySha) -> str:
    """Explain why no commit is blamed, or whether the change is confirmed; one or two sentences."""
    if incident.kind is IncidentKind.ENVIRONMENT:
        return _environment_explanation(incident)
    if incident.kind is IncidentKind.RESOLVED:
        return f"It recovered at {_commit_name(incident.reverted_by, commits)}, so no alert was raised."
    if incident.kind is IncidentKind.MACHINE:
        return MACHINE_CAUSE_TEXTS[incident.cause].format(sessions=_format_sessions(incident))
    if incident.confirmed_count:
        if incident.confirmed_count >= len(incident.members):
            return "Confirmed on new pairs."
        return f"Confirmed on new pairs in {incident.confirmed_count} of {len(incident.members)} series."
    return "Detected in the history only; not yet confirmed on new pairs." if incident.settled else ""


MACHINE_CAUSE_TEXTS = {
    "mode_switching": (
        "The level keeps switching between earlier values: the machine changes mode, not the code."
    ),
    "refuted": "New pairs of the same two commits show no change: the machine drifted, not the code.",
    "canary": "A canary benchmark that no commit affects changed by the same amount.",
    "machine_wide": "Most series on this machine changed alike, across unrelated suites.",
    "bad_session": (
        "Too many changes in both directions for one commit: the machine was disturbed in {sessions}."
    ),
    "transient": "Most of it was gone in the next run: the machine was disturbed in {sessions}.",
}
"""The explanation of each cause that lies in the machine."""


def largest_change_sentence(incident: Incident) -> str:
    """Describe the largest change of an incident, which is its first member."""
    return member_sentence(incident.members[0])


def member_sentence(change: ChangePoint) -> str:
    """Describe the change of one series."""
    metric = change.series.metric
    if change.before > 0:
        return f"{series_name(change.series)} {level_change_phrase(1 + change.relative_change, metric)}"
    return f"{series_name(change.series)} went from {change.before:g} to {change.after:g}"


def observed_sentence(change: EnvironmentChange) -> str:
    """Describe an environment change: ``torch 2.12.1 → 2.13.0``; a missing value is not known."""
    before, after = (make_printable(value, 60) or "not known" for value in (change.before, change.after))
    return f"{make_printable(change.name, 40)} {before} → {after}"


def disposition_sentence(budgeted: BudgetedIncident, pages_per_week: int) -> str:
    """Describe whether an incident raises an alert, and why not."""
    week = f"in week {budgeted.week}" if budgeted.week else "in runs without a date"
    if budgeted.is_expected:
        return "as expected: no alert"
    if budgeted.disposition is Disposition.PAGE:
        recovered = "" if budgeted.incident.ongoing else "; recovered since"
        return f"alert {budgeted.page_number} of at most {pages_per_week} {week}{recovered}"
    return {
        Disposition.HELD_BACK: _over_budget_phrase(pages_per_week, budgeted.week),
        Disposition.TOO_WEAK: "not alerted: evidence too weak for this many series",
        Disposition.WAITING: "waiting for a third measurement or confirmation",
        Disposition.NOTE: "informational: no alert",
    }[budgeted.disposition]


def expected_change_sentence(budgeted: BudgetedIncident) -> str:
    """Compare an incident with the expected changes declared for it; empty if there are none."""
    if budgeted.expected_change_match is None:
        return ""
    merged = budgeted.expected_change_match.merged
    sources = ", ".join(dict.fromkeys(make_printable(match.source, 60) for match in merged))
    if budgeted.expected_change_match.covers_all:
        reasons = dict.fromkeys(make_printable(match.expected.reason) for match in merged)
        return f"expected, declared in {sources}: {'; '.join(reasons)}"
    largest = budgeted.expected_change_match.exceeding[0]
    sizes = [match.expected.change for match in merged if match.expected.matches_series(largest.series)]
    declared = f" declared {format_signed_percent(max(sizes, key=abs))}" if sizes else ""
    return f"larger than expected: {sources}{declared}; {member_sentence(largest)}"


def _over_budget_phrase(pages_per_week: int, week: str) -> str:
    if not pages_per_week:
        return "not alerted: alerts are disabled"
    limit = format_count(pages_per_week, "alert")
    return f"not alerted: weekly limit of {limit} reached ({week or 'runs without a date'})"


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


def measure_command(incident: Incident) -> str:
    """Return the command for the next measurement; empty if none is needed."""
    if incident.pair_to_measure is None:
        return ""
    return compare_command(*incident.pair_to_measure, (change.series.cell for change in incident.members))


def retest_sentence(retest: Retest) -> str:
    """Describe why a series is due for a retest."""
    return f"{series_name(retest.series)}: {retest.reason}"


def retest_command(retest: Retest) -> str:
    """Return the command that runs a retest."""
    return compare_command(retest.base, retest.head, [retest.series.cell])


def creep_sentence(creep: Creep) -> str:
    """Describe the drift of a series since a release, and the part that its change points explain."""
    interval = f" {format_interval(creep.interval)}" if creep.interval else ""
    method = "measured in new pairs" if creep.paired else "from nearby points"
    size = f"{format_signed_percent(creep.drift_ratio - 1)}{interval}"
    drift = f"{series_name(creep.series)} drifted {size} since {creep.release}, {method}"
    if abs(creep.total_ratio / creep.drift_ratio - 1) < 5e-4:
        return f"{drift}; no change point explains it"
    total = format_signed_percent(creep.total_ratio - 1)
    return f"{drift}; its change points explain the rest of the total {total}"


def creep_command(creep: Creep) -> str:
    """Return the command that measures the drift in pairs."""
    return compare_command(creep.base, creep.head, [creep.series.cell])


MAX_COMMAND_CELLS = 5
"""The number of cells a command names, the largest changes first."""


def compare_command(base: str, head: str, cells: Iterable[str]) -> str:
    """Build ``perfci compare BASE HEAD --bench REGEX`` for some cells."""
    names = list(dict.fromkeys(cells))[:MAX_COMMAND_CELLS]
    pattern = "|".join(f"^{re.escape(name)}$" for name in names)
    return f"perfci compare {base[:10]} {head[:10]} --bench {shlex.quote(pattern)}"


LIST_SECTIONS: tuple[tuple[str, Callable[[BudgetedIncident], bool]], ...] = (
    ("Open", lambda budgeted: budgeted.is_open),
    ("Not alerted", lambda budgeted: budgeted.disposition in (Disposition.HELD_BACK, Disposition.TOO_WEAK)),
    ("Waiting", lambda budgeted: budgeted.disposition is Disposition.WAITING),
    ("Resolved or informational", lambda budgeted: True),
)
"""The sections of the incident list and their predicates, in the order they are tried."""


def group_by_section(
    budgeted_incidents: Sequence[BudgetedIncident],
) -> list[tuple[str, list[BudgetedIncident]]]:
    """Put every incident into the first section that accepts it, open ones sorted by evidence."""
    sections, remaining = [], sorted(budgeted_incidents, key=_urgency_key)
    for title, fits in LIST_SECTIONS:
        members = [budgeted for budgeted in remaining if fits(budgeted)]
        remaining = [budgeted for budgeted in remaining if not fits(budgeted)]
        sections += [(title, members)] if members else []
    return sections


def _urgency_key(budgeted: BudgetedIncident) -> tuple[object, ...]:
    """Sort key: open ones first, confirmed and clearest ahead; the others keep their order."""
    incident = budgeted.incident
    if not budgeted.is_open:
        return True, 2.0, 0  # after every open one: p values are at most 1
    return not incident.confirmed_count, incident.p_value, -len(incident.members)


def incidents_summary(budgeted_incidents: Sequence[BudgetedIncident], retests: int, creeps: int) -> str:
    """Count incidents: ``2 open incidents, 1 not alerted, 3 resolved or informational, 1 retest due``."""
    opened = sum(budgeted.is_open for budgeted in budgeted_incidents)
    held = sum(
        budgeted.disposition in (Disposition.HELD_BACK, Disposition.TOO_WEAK)
        for budgeted in budgeted_incidents
    )
    waiting = sum(budgeted.disposition is Disposition.WAITING for budgeted in budgeted_incidents)
    rest = len(budgeted_incidents) - opened - held - waiting
    return format_incident_counts(
        {"open": opened, "held": held, "waiting": waiting, "rest": rest}, retests, creeps
    )


def format_incident_counts(counts: Mapping[str, int], retests: int, creeps: int) -> str:
    """Format incident counts that are already known per section."""
    parts = [format_count(counts["open"], "open incident") if counts["open"] else "No open incident"]
    headings = {
        "held": "not alerted",
        "waiting": "waiting",
        "snoozed": "snoozed",
        "rest": "resolved or informational",
    }
    parts += [f"{counts[name]:,} {heading}" for name, heading in headings.items() if counts.get(name)]
    parts += [f"{format_count(retests, 'retest')} due"] if retests else []
    parts += [f"{format_count(creeps, 'series', 'series')} drifting slowly"] if creeps else []
    return ", ".join(parts)


def _change_phrase(incident: Incident) -> str:
    count = len({change.series for change in incident.members})
    worse = len({change.series for change in incident.members if change.log_cost > 0})
    series = format_count(count, "series", "series")
    if incident.kind is IncidentKind.REGRESSION:
        return f"{series} got worse"
    if incident.kind is IncidentKind.IMPROVEMENT:
        return f"{series} got better"
    if incident.kind is IncidentKind.MIXED:
        return f"{format_count(worse, 'series', 'series')} got worse and {count - worse:,} better"
    if incident.kind is IncidentKind.ENVIRONMENT:
        return f"{series} changed with the environment"
    if incident.kind is IncidentKind.RESOLVED:
        return f"{series} changed and recovered"
    return f"{series} changed with the machine"


def _commit_phrase(incident: Incident, commits: CommitsBySha) -> str:
    good, last = commits.get(incident.last_good), commits.get(incident.commit)
    if last and (incident.last_good in last.parents or (good and is_next_commit(good, last))):
        return f"at {_commit_name(incident.commit, commits)}"
    return f"between {incident.last_good[:10]} (last good) and {_commit_name(incident.commit, commits)}"


def _commit_name(sha: str, commits: CommitsBySha) -> str:
    commit = commits.get(sha)
    return f"{sha[:10]} {make_printable(commit.subject, 90)}".strip() if commit else sha[:10]


def _environment_explanation(incident: Incident) -> str:
    shown = [observed_sentence(change) for change in incident.environment_changes[:MAX_OBSERVED_SHOWN]]
    more = len(incident.environment_changes) - len(shown)
    values = "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
    if incident.ambiguous:
        return (
            f"{values}. No commit can be blamed or cleared: the commits in between were measured in "
            "neither environment, or the step does not line up with the change. "
            "Comparing both ends in pairs would decide."
        )
    return f"{values}. No commit is blamed."


def _format_sessions(incident: Incident) -> str:
    named = [make_printable(session, 60) for session in incident.sessions[:2]]
    more = len(incident.sessions) - len(named)
    noun = "session" if len(incident.sessions) == 1 else "sessions"
    suffix = f" and {more} more" if more > 0 else ""
    return f"{noun} {', '.join(named)}{suffix}"
