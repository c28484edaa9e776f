"""The false-alarm meter in words, tables and JSON: how often verdicts on equals were wrong, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfci.report.fields import Json, series_fields
from perfci.report.names import printable
from perfci.report.text import aligned
from perfci.report.units import counting, percent
from perfci.verdicts.calibration import Calibration, Convictions, Floor, Meter, Nominations, Rate, Window

HEADINGS = ("", "verdicts", "first look", "share, 95 %", "convicted", "share, 95 %")
FLOOR_HEADINGS = ("noise floor", "from", "bar", "series")
MOST_FLOORS = 20
"""The noisiest come first; the rest is in the JSON."""

NO_EQUALS = "No commit was compared with itself yet: perfci compare HEAD HEAD does, best every night."


def calibration_text(found: Calibration) -> str:
    """Everything a terminal shows of it."""
    ever = found.windows[0]
    parts = [meter_sentence(ever)]
    if ever.comparisons:
        parts += [aligned(HEADINGS, [row for window in found.windows for row in _rows(window)])]
    parts += [nominations_sentence(ever.nominations), convictions_sentence(ever.convictions)]
    parts += [floor_table(found.floors)] if found.floors else []
    return "\n\n".join(parts) + "\n"


def meter_sentence(window: Window) -> str:
    """What equals were told, in one breath."""
    if not window.comparisons:
        return NO_EQUALS
    rate = window.overall.convicted
    compared = counting(window.comparisons, "comparison")
    told = counting(rate.alarms, "false alarm") if rate.alarms else "no false alarm"
    return f"{compared} of a commit with itself: {told} in {counting(rate.verdicts, 'verdict')}, {share_text(rate)}"


def share_text(rate: Rate) -> str:
    """``0.1 % (95 %: 0.0 % to 0.3 %)``; nothing for none tried."""
    if rate.share is None:
        return ""
    low, high = rate.interval
    return f"{percent(rate.share)} (95 %: {percent(low)} to {percent(high)})"


def nominations_sentence(found: Nominations) -> str:
    if not found.suspected:
        return "No first look has suspected a change between two different commits yet."
    fates = {
        "confirmed": found.confirmed, "refuted": found.refuted, "left undecided": found.undecided,
        "not looked at again": found.unsettled,
    }  # fmt: skip
    told = ", ".join(f"{count:,} {fate}" for fate, count in fates.items() if count)
    return (
        f"Between different commits, first looks suspected {counting(found.suspected, 'change')}, which fresh pairs "
        f"settled: {told}. A refuted suspicion is no false alarm."
    )


def convictions_sentence(found: Convictions) -> str:
    if not found.given:
        return "No change was convicted yet."
    taken = f"{found.retracted:,} of them" if found.retracted else "none of them"
    return f"{counting(found.given, 'change was', 'changes were')} convicted; of {taken} something else was said later."


def window_name(window: Window) -> str:
    return "all time" if window.days is None else f"last {window.days} days"


def floor_table(floors: Sequence[Floor]) -> str:
    rows = [
        (
            percent(floor.noise_floor) if floor.noise_floor else "exact",
            counting(floor.comparisons, "A/A"),
            f"raised to {percent(floor.bar)}" if floor.raised else percent(floor.bar),
            printable(floor.series.label),
        )
        for floor in floors[:MOST_FLOORS]
    ]
    more = f"\n... and {len(floors) - MOST_FLOORS:,} quieter ones, see --json" if len(floors) > MOST_FLOORS else ""
    return aligned(FLOOR_HEADINGS, rows, frozenset({3})) + more


def _rows(window: Window) -> Iterator[tuple[str, ...]]:
    yield _row(window_name(window), window.overall)
    yield from (_row(f"  suite {name or 'not known'}", one) for name, one in window.suites.items())
    yield from (_row(f"  {kind.value}", one) for kind, one in window.classes.items())


def _row(name: str, one: Meter) -> tuple[str, ...]:
    first, last = one.first_look, one.convicted
    return (
        printable(name), f"{first.verdicts:,}", f"{first.alarms:,}", share_text(first), f"{last.alarms:,}",
        share_text(last),
    )  # fmt: skip


# ------------------------------------------------------------------ for programs


def calibration_fields(project: str, found: Calibration) -> Json:
    return {
        "project": project,
        "last_compared_with_itself": found.last_at.isoformat(timespec="seconds") if found.last_at else None,
        "windows": [_window_fields(window) for window in found.windows],
        "noise_floors": [floor_fields(floor) for floor in found.floors],
    }


def floor_fields(floor: Floor) -> Json:
    return {
        "series": series_fields(floor.series),
        "noise_floor": floor.noise_floor,
        "comparisons": floor.comparisons,
        "bar": floor.bar,
        "raised": floor.raised,
    }


def _window_fields(window: Window) -> Json:
    suspected, convicted = window.nominations, window.convictions
    return {
        "days": window.days,
        "comparisons_of_equals": window.comparisons,
        "false_alarms": _meter_fields(window.overall),
        "suites": {name: _meter_fields(one) for name, one in window.suites.items()},
        "classes": {kind.value: _meter_fields(one) for kind, one in window.classes.items()},
        "different_commits": {
            "suspected": suspected.suspected,
            "confirmed": suspected.confirmed,
            "refuted": suspected.refuted,
            "undecided": suspected.undecided,
            "unsettled": suspected.unsettled,
            "convicted": convicted.given,
            "retracted": convicted.retracted,
        },
    }


def _meter_fields(one: Meter) -> Json:
    return {
        "first_look": _rate_fields(one.first_look),
        "convicted": _rate_fields(one.convicted),
        "set_aside": one.set_aside,
    }


def _rate_fields(rate: Rate) -> Json:
    return {
        "alarms": rate.alarms,
        "verdicts": rate.verdicts,
        "share": rate.share,
        "interval": list(rate.interval),
    }
