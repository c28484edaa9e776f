"""Parse and format lengths of time as they are typed and shown on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from typing import Any

import click

from perfci.model import PerfciError

SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str, units: str = "smh") -> float | None:
    """Seconds of ``90s``, ``20m``, ``1.5h`` or ``7d``, with the units that are allowed; None for anything
    else.
    """
    match = re.fullmatch(rf"(\d{{1,9}}(?:\.\d+)?)([{units}])", text.strip())
    return float(match[1]) * SECONDS_PER_UNIT[match[2]] if match else None


def parse_budget(text: str) -> float | None:
    """Seconds of a ``--budget``; None for an empty one."""
    if not text:
        return None
    seconds = parse_duration(text)
    if seconds is None:
        raise PerfciError(f"--budget {text!r}: a number with a unit was expected, such as 90s, 20m or 1h")
    return seconds


def parse_days(text: str) -> int | None:
    """Days of ``90d``; None for anything else."""
    match = re.fullmatch(r"([0-9]{1,5})d", text)
    return int(match[1]) if match else None


class DayParam(click.ParamType[datetime]):
    """A calendar day, converted to its last second in UTC."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return datetime.combine(datetime.fromisoformat(value).date(), time(23, 59, 59), UTC)
        except ValueError:
            self.fail(f"{value!r} is not a day; expected for example 2026-05-04", param, ctx)


def format_duration(seconds: float) -> str:
    """``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
