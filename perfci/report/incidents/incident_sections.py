"""Group the incidents of a project into the sections of a list, and count those of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from perfci.number_format import format_count
from perfci.verdicts.incidents.paging_budget import BudgetedIncident, Disposition

LIST_SECTIONS: tuple[tuple[str, Callable[[BudgetedIncident], bool]], ...] = (
    ("Open", lambda budgeted: budgeted.needs_attention),
    ("Not alerted", lambda budgeted: budgeted.disposition in (Disposition.HELD_BACK, Disposition.TOO_WEAK)),
    ("Waiting", lambda budgeted: budgeted.disposition is Disposition.WAITING),
    ("Closed or informational", lambda budgeted: True),
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
    if not budgeted.needs_attention:
        return True, 2.0, 0  # after every open one: p values are at most 1
    return not incident.confirmed_count, incident.smallest_p_value, -len(incident.members)


def incident_counts_sentence(
    budgeted_incidents: Sequence[BudgetedIncident], retests: int, creeps: int
) -> str:
    """Count incidents: ``2 open incidents, 1 not alerted, 3 closed or informational, 1 retest due``."""
    opened = sum(budgeted.needs_attention for budgeted in budgeted_incidents)
    held = sum(
        budgeted.disposition in (Disposition.HELD_BACK, Disposition.TOO_WEAK)
        for budgeted in budgeted_incidents
    )
    waiting = sum(budgeted.disposition is Disposition.WAITING for budgeted in budgeted_incidents)
    rest = len(budgeted_incidents) - opened - held - waiting
    return section_counts_sentence(
        {"open": opened, "held": held, "waiting": waiting, "rest": rest}, retests, creeps
    )


def section_counts_sentence(
    counts: Mapping[str, int], retests: int, creeps: int, *, confirmed_only: bool = False
) -> str:
    """Format incident counts that are already known per section, or those of confirmed incidents."""
    noun = "confirmed open incident" if confirmed_only else "open incident"
    parts = [format_count(counts["open"], noun) if counts["open"] else f"No {noun}"]
    headings = {
        "held": "not alerted",
        "waiting": "waiting",
        "snoozed": "snoozed",
        "rest": "closed or informational",
    }
    parts += [f"{counts[name]:,} {heading}" for name, heading in headings.items() if counts.get(name)]
    parts += [f"{format_count(retests, 'retest')} due"] if retests else []
    parts += [f"{format_count(creeps, 'series', 'series')} drifting slowly"] if creeps else []
    return ", ".join(parts)
