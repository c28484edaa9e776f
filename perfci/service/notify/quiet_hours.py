"""When a destination wants to hear: not in its quiet hours, or once a day; in its own time zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from perfci.model import PerfciError

CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
DIGEST = re.compile(r"daily@(([01]\d|2[0-3]):[0-5]\d)", re.ASCII)


def send_at(now: datetime, quiet: Mapping[str, str], digest: str = "", *, urgent: bool = False) -> datetime:
    """The first moment from now on at which a message may leave."""
    if urgent:
        return now
    zone = zone_of(quiet.get("tz", ""))
    if digest:
        return _next(now, zone, digest_time(digest))
    if "from" not in quiet or "to" not in quiet:
        return now
    begin, end, local = clock(quiet["from"]), clock(quiet["to"]), now.astimezone(zone).time()
    over_night = begin > end
    inside = (local >= begin or local < end) if over_night else begin <= local < end
    return _next(now, zone, end) if inside else now


def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PerfciError(f"{name!r} is no time zone; expected for example Europe/Berlin.") from error


def clock(text: str) -> time:
    if not CLOCK.fullmatch(text):
        raise PerfciError(f"{text!r} is no time of day; expected for example 22:00.")
    return time.fromisoformat(text)


def digest_time(text: str) -> time:
    if not (found := DIGEST.fullmatch(text)):
        raise PerfciError(f"{text!r} is no digest; expected for example daily@09:00, or nothing for one message each.")
    return time.fromisoformat(found[1])


def _next(now: datetime, zone: ZoneInfo, wanted: time) -> datetime:
    """The next time a clock on the wall shows this.

    An hour that the clocks skip is taken as if they had not, one that they show twice counts both times.
    """
    today = now.astimezone(zone).date()
    for day in (today, today + timedelta(days=1)):
        for fold in (0, 1):
            found = datetime.combine(day, wanted.replace(fold=fold), zone).astimezone(UTC)
            if found > now:
                return found
    return now + timedelta(days=1)
