"""When a destination wants to hear: not in its quiet hours, or once a day; in its own time zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from perfci.model import PerfciError

TIME_PATTERN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
DIGEST_PATTERN = re.compile(r"daily@(([01]\d|2[0-3]):[0-5]\d)", re.ASCII)


def compute_send_time(
    now: datetime, quiet: Mapping[str, str], digest: str = "", *, urgent: bool = False
) -> datetime:
    """The first moment from now on at which a message may leave."""
    if urgent:
        return now
    zone = parse_time_zone(quiet.get("tz", ""))
    if digest:
        return _find_next_occurrence(now, zone, parse_digest_time(digest))
    if "from" not in quiet or "to" not in quiet:
        return now
    begin, end, local = parse_time(quiet["from"]), parse_time(quiet["to"]), now.astimezone(zone).time()
    over_night = begin > end
    inside = (local >= begin or local < end) if over_night else begin <= local < end
    return _find_next_occurrence(now, zone, end) if inside else now


def parse_time_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PerfciError(f"{name!r} is no time zone; expected for example Europe/Berlin.") from error


def parse_time(text: str) -> time:
    if not TIME_PATTERN.fullmatch(text):
        raise PerfciError(f"{text!r} is no time of day; expected for example 22:00.")
    return time.fromisoformat(text)


def parse_digest_time(text: str) -> time:
    if not (match := DIGEST_PATTERN.fullmatch(text)):
        raise PerfciError(
            f"{text!r} is no digest; expected for example daily@09:00, or nothing for one message each."
        )
    return time.fromisoformat(match[1])


def _find_next_occurrence(now: datetime, zone: ZoneInfo, wall_time: time) -> datetime:
    """The next time a clock on the wall shows this.

    An hour that the clocks skip is taken as if they had not, one that they show twice counts both times.
    """
    today = now.astimezone(zone).date()
    for day in (today, today + timedelta(days=1)):
        for fold in (0, 1):
            occurrence = datetime.combine(day, wall_time.replace(fold=fold), zone).astimezone(UTC)
            if occurrence > now:
                return occurrence
    return now + timedelta(days=1)
