"""The false-alarm meter in words, tables and JSON: how often verdicts on equals were wrong, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfci.report.escaping import printable
from perfci.report.number_format import counting, percent
from perfci.report.serializers import Json, series_fields
from perfci.report.text_tables import aligned
from perfci.verdicts.calibration import Calibration, Convictions, Floor, Meter, Nominations, Rate, Window

HEADINGS = ("", "verdicts", "first look", "share", "95 % interval", "convicted", "share", "95 % interval")
FLOOR_HEADINGS = ("noise floor", "A/A", "bar", "series")
MOST_FLOORS = 20
"""The noisiest come first; the rest is in the JSON."""

REFUTED = "A suspicion that is refuted is no false alarm: nobody was asked."
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
    verdicts = counting(rate.verdicts, "verdict")
    return f"{compared} of a commit with itself: {told} in {verdicts} (95 % interval {interval_text(rate)})."


def share_text(rate: Rate) -> str:
    return "" if rate.share is None else percent(rate.share)


def interval_text(rate: Rate) -> str:
    """``0.02 % to 4.6 %``, and ``up to 6.0 %`` where nothing was seen; nothing where nothing was tried."""
    low, high = rate.interval
    if not rate.verdicts:
        return ""
    return f"{percent(low)} to {percent(high)}" if rate.alarms else f"up to {percent(high)}"


def nominations_sentence(found: Nominations) -> str:
    if not found.suspected:
        return "No first look has suspected a change between two different commits yet."
    fates = {
        "confirmed on fresh pairs": found.confirmed, "refuted by them": found.refuted,
        "left undecided": found.undecided, "not looked at again": found.unsettled,
    }  # fmt: skip
    told = ", ".join(f"{count:,} {fate}" for fate, count in fates.items() if count)
    suspected = f"Between different commits, first looks suspected {counting(found.suspected, 'change')}: {told}."
    return f"{suspected}\n{REFUTED}" if found.refuted else suspected


def convictions_sentence(found: Convictions) -> str:
    if not found.given:
        return "No change was convicted yet."
    given = counting(found.given, "change was", "changes were")
    return f"{given} convicted. Taken back since: {found.retracted or 'none'}."


def window_name(window: Window) -> str:
    return "all time" if window.days is None else f"last {window.days} days"


def floor_table(floors: Sequence[Floor]) -> str:
    rows = [
        (
            percent(floor.noise_floor) if floor.noise_floor else "exact",
            f"{floor.comparisons:,}",
            bar_text(floor),
            printable(floor.series.label),
        )
        for floor in floors[:MOST_FLOORS]
    ]
    more = f"\n... and {len(floors) - MOST_FLOORS:,} quieter ones, see --json" if len(floors) > MOST_FLOORS else ""
    return aligned(FLOOR_HEADINGS, rows, frozenset({3})) + more


def bar_text(floor: Floor) -> str:
    if not floor.bar:
        return "any change"
    return f"raised to {percent(floor.bar)}" if floor.raised else percent(floor.bar)


def _rows(window: Window) -> Iterator[tuple[str, ...]]:
    yield _row(window_name(window), window.overall)
    yield from (_row(f"  suite {name or 'not known'}", one) for name, one in window.suites.items())
    yield from (_row(f"  {kind.value}", one) for kind, one in window.classes.items())


def _row(name: str, one: Meter) -> tuple[str, ...]:
    first, last = one.first_look, one.convicted
    return (
        printable(name), f"{first.verdicts:,}", f"{first.alarms:,}", share_text(first), interval_text(first),
        f"{last.alarms:,}", share_text(last), interval_text(last),
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
