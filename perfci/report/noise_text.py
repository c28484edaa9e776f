"""Format the false-alarm meter: alarm rates on A/A runs with their intervals, as text and tables."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.number_format import format_count, format_percent
from perfci.report.escaping import make_printable
from perfci.report.text_table import align_table
from perfci.verdicts.project_noise import (
    CandidateCounts,
    ConfirmationCounts,
    FalseAlarmMeter,
    FalseAlarmRate,
    NoiseWindow,
    ProjectNoise,
    SeriesNoiseFloor,
)

HEADINGS = (
    "",
    "verdicts",
    "screening alarms",
    "share",
    "95 % interval",
    "confirmed alarms",
    "share",
    "95 % interval",
)
FLOOR_HEADINGS = ("noise floor", "A/A", "threshold", "series")
MAX_FLOORS_SHOWN = 20
"""The number of series listed, noisiest first; the JSON holds all of them."""

REFUTED_NOTE = "A refuted candidate is not a false alarm: it raised no alert."
NO_AA_RUNS = "No A/A run yet. Run `perfci compare HEAD HEAD`, preferably every night."


def format_project_noise(noise: ProjectNoise) -> str:
    """Format the noise of a project for a terminal."""
    all_time = noise.windows[0]
    parts = [false_alarm_sentence(all_time)]
    if all_time.comparisons:
        rows = []
        for window in noise.windows:
            rows.append(_meter_row(format_noise_window_span(window), window.overall))
            for name, meter in window.suites.items():
                rows.append(_meter_row(f"  suite {name}" if name else "  unknown suite", meter))
            for kind, meter in window.classes.items():
                rows.append(_meter_row(f"  {kind.value}", meter))
        parts.append(align_table(HEADINGS, rows))
    parts += [
        screening_outcomes_sentence(all_time.candidates),
        confirmations_sentence(all_time.confirmations),
    ]
    if noise.floors:
        parts.append(format_noise_floor_table(noise.floors))
    return "\n\n".join(parts) + "\n"


def false_alarm_sentence(window: NoiseWindow) -> str:
    """Summarize the false alarms of all A/A runs of a window in one sentence."""
    if not window.comparisons:
        return NO_AA_RUNS
    rate = window.overall.confirmed
    runs = format_count(window.comparisons, "A/A run")
    alarms = format_count(rate.alarms, "false alarm") if rate.alarms else "no false alarm"
    verdicts = format_count(rate.verdicts, "verdict")
    return f"{runs}: {alarms} in {verdicts} (95 % interval {format_rate_interval(rate)})."


def format_alarm_share(rate: FalseAlarmRate) -> str:
    """Format the share of false alarms; empty without verdicts."""
    return "" if rate.share is None else format_percent(rate.share)


def format_rate_interval(rate: FalseAlarmRate) -> str:
    """Format the 95 % interval of a rate.

    ``0.02 % to 4.6 %``; ``up to 6.0 %`` without alarms; empty without verdicts.
    """
    low, high = rate.interval
    if not rate.verdicts:
        return ""
    if not rate.alarms:
        return f"up to {format_percent(high)}"
    return f"{format_percent(low)} to {format_percent(high)}"


def screening_outcomes_sentence(candidates: CandidateCounts) -> str:
    """Summarize what became of the candidate changes between different commits."""
    if not candidates.total:
        return "Screening has found no candidate change between different commits yet."
    counts = {
        "confirmed on new pairs": candidates.confirmed,
        "refuted": candidates.refuted,
        "undecided": candidates.undecided,
        "not validated": candidates.unsettled,
    }
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count)
    total = format_count(candidates.total, "candidate change")
    sentence = f"Between different commits, screening found {total}: {outcomes}."
    return f"{sentence}\n{REFUTED_NOTE}" if candidates.refuted else sentence


def confirmations_sentence(confirmations: ConfirmationCounts) -> str:
    """Count the confirmed changes and how many of them were retracted."""
    if not confirmations.total:
        return "No change has been confirmed yet."
    changes = format_count(confirmations.total, "change was", "changes were")
    return f"{changes} confirmed. Retracted since: {confirmations.retracted or 'none'}."


def format_noise_window_span(window: NoiseWindow) -> str:
    """Format the time span of a window, such as ``last 30 days``."""
    return "all time" if window.days is None else f"last {window.days} days"


def format_noise_floor_table(floors: Sequence[SeriesNoiseFloor]) -> str:
    """Format the noise floors of the noisiest series as a table."""
    rows = [
        (
            format_percent(floor.noise_floor) if floor.noise_floor else "exact",
            f"{floor.comparisons:,}",
            format_effective_bar(floor),
            make_printable(floor.series.label),
        )
        for floor in floors[:MAX_FLOORS_SHOWN]
    ]
    table = align_table(FLOOR_HEADINGS, rows, frozenset({3}))
    if len(floors) > MAX_FLOORS_SHOWN:
        table += f"\n... and {len(floors) - MAX_FLOORS_SHOWN:,} less noisy series, see --json"
    return table


def format_effective_bar(floor: SeriesNoiseFloor) -> str:
    """Format the smallest change that counts for a series, and whether its noise floor raised it."""
    if not floor.bar:
        return "any change"
    return f"raised to {format_percent(floor.bar)}" if floor.raises_bar else format_percent(floor.bar)


def _meter_row(name: str, meter: FalseAlarmMeter) -> tuple[str, ...]:
    screening, confirmed = meter.screening, meter.confirmed
    return (
        make_printable(name),
        f"{screening.verdicts:,}",
        f"{screening.alarms:,}",
        format_alarm_share(screening),
        format_rate_interval(screening),
        f"{confirmed.alarms:,}",
        format_alarm_share(confirmed),
        format_rate_interval(confirmed),
    )
