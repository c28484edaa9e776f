"""Describe a project's incidents, suggested retests and slow drifts, as text and as JSON fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perfci.model import Retest
from perfci.report.incidents.incident_text import (
    CommitsBySha,
    format_compare_command,
    serialize_derived_incident,
)
from perfci.report.number_format import format_count, format_signed_percent
from perfci.report.serializers import JsonFields, serialize_series
from perfci.report.verdict_labels import short_series_name
from perfci.report.verdict_sentences import format_interval
from perfci.verdicts.history.release_creep import Creep
from perfci.verdicts.incidents.page_budget import BudgetedIncident, Disposition

LIST_SECTIONS: tuple[tuple[str, Callable[[BudgetedIncident], bool]], ...] = (
    ("Open", lambda budgeted: budgeted.is_open),
    ("Not alerted", lambda budgeted: budgeted.disposition in (Disposition.HELD_BACK, Disposition.TOO_WEAK)),
    ("Waiting", lambda budgeted: budgeted.disposition is Disposition.WAITING),
    ("Resolved or informational", lambda budgeted: True),
)
"""The sections of the incident list and their predicates, in the order they are tried."""


def group_incidents_by_section(
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


def incident_counts_sentence(
    budgeted_incidents: Sequence[BudgetedIncident], retests: int, creeps: int
) -> str:
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


def retest_sentence(retest: Retest) -> str:
    """Describe why a series is due for a retest."""
    return f"{short_series_name(retest.series)}: {retest.reason}"


def retest_command(retest: Retest) -> str:
    """Return the command that runs a retest."""
    return format_compare_command(retest.base, retest.head, [retest.series.cell])


def creep_sentence(creep: Creep) -> str:
    """Describe the drift of a series since a release, and the part that its change points explain."""
    interval = f" {format_interval(creep.interval)}" if creep.interval else ""
    method = "measured in new pairs" if creep.paired else "from nearby points"
    size = f"{format_signed_percent(creep.drift_ratio - 1)}{interval}"
    drift = f"{short_series_name(creep.series)} drifted {size} since {creep.release}, {method}"
    if abs(creep.total_ratio / creep.drift_ratio - 1) < 5e-4:
        return f"{drift}; no change point explains it"
    total = format_signed_percent(creep.total_ratio - 1)
    return f"{drift}; its change points explain the rest of the total {total}"


def creep_compare_command(creep: Creep) -> str:
    """Return the command that measures the drift in pairs."""
    return format_compare_command(creep.base, creep.head, [creep.series.cell])


def serialize_derived_overview(
    project: str,
    budgeted_incidents: Sequence[BudgetedIncident],
    retests: Sequence[Retest],
    creeps: Sequence[Creep],
    commits: CommitsBySha,
    pages_per_week: int,
) -> JsonFields:
    """Serialize what ``perfci incidents list`` and the incidents page show."""
    return {
        "project": project,
        "sentence": incident_counts_sentence(budgeted_incidents, len(retests), len(creeps)),
        "pages_per_week": pages_per_week,
        "incidents": [
            serialize_derived_incident(budgeted, commits, pages_per_week) for budgeted in budgeted_incidents
        ],
        "retests": [serialize_retest(retest) for retest in retests],
        "slow_drifts": [serialize_creep(creep) for creep in creeps],
    }


def serialize_retest(retest: Retest) -> JsonFields:
    """Serialize a retest and the command that runs it."""
    return {
        "series": serialize_series(retest.series),
        "base": retest.base,
        "head": retest.head,
        "reason": retest.reason,
        "command": retest_command(retest),
    }


def serialize_creep(creep: Creep) -> JsonFields:
    """Serialize the slow drift of a series since a release."""
    return {
        "series": serialize_series(creep.series),
        "sentence": creep_sentence(creep),
        "release": creep.release,
        "base": creep.base,
        "head": creep.head,
        "drift": creep.drift_ratio,
        "interval": [creep.interval.lo, creep.interval.hi] if creep.interval else None,
        "total": creep.total_ratio,
        "p_value": creep.p_value,
        "paired": creep.paired,
        "command": creep_compare_command(creep),
    }
