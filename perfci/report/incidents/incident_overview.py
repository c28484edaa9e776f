"""Describe a project's incidents, suggested retests and slow drifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perfci.model import Retest
from perfci.report.incidents.incident_text import format_compare_command
from perfci.report.number_format import format_count, format_signed_percent
from perfci.report.verdict_text import format_interval, short_series_name
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
