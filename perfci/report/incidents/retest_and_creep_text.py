"""Describe retests and creeps: why, how much, and the command that measures them."""

from __future__ import annotations

from perfci.model import Retest
from perfci.number_format import format_signed_percent
from perfci.report.incidents.incident_text import format_compare_command
from perfci.report.verdict_text import format_interval, short_series_name
from perfci.verdicts.history.release_creep import Creep


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
