"""Quiet hours and daily digests: compute when a message may be sent, in the time zone of its destination."""

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
    """Compute the earliest time at which a message may be sent."""
    if urgent:
        return now
    zone = parse_time_zone(quiet.get("tz", ""))
    if digest:
        return _find_next_occurrence(now, zone, parse_digest_time(digest))
    if "from" not in quiet or "to" not in quiet:
        return now
    begin, end, local = (
        parse_time_of_day(quiet["from"]),
        parse_time_of_day(quiet["to"]),
        now.astimezone(zone).time(),
    )
    over_night = begin > end
    inside = (local >= begin or local < end) if over_night else begin <= local < end
    return _find_next_occurrence(now, zone, end) if inside else now


def parse_time_zone(name: str) -> ZoneInfo:
    """Parse an IANA time zone name; empty is UTC."""
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PerfciError(f"{name!r} is no time zone; expected for example Europe/Berlin.") from error


def parse_time_of_day(text: str) -> time:
    """Parse a time of day such as ``22:00``."""
    if not TIME_PATTERN.fullmatch(text):
        raise PerfciError(f"{text!r} is no time of day; expected for example 22:00.")
    return time.fromisoformat(text)


def parse_digest_time(text: str) -> time:
    """Parse the time of day of a digest such as ``daily@09:00``."""
    if not (match := DIGEST_PATTERN.fullmatch(text)):
        raise PerfciError(
            f"{text!r} is no digest; expected for example daily@09:00, or nothing for one message each."
        )
    return time.fromisoformat(match[1])


def _find_next_occurrence(now: datetime, zone: ZoneInfo, wall_time: time) -> datetime:
    """Find the next time at which local clocks show ``wall_time``.

    Times in an hour that is skipped by daylight saving are resolved as if it were not; in a repeated hour
    both occurrences count.
    """
    today = now.astimezone(zone).date()
    for day in (today, today + timedelta(days=1)):
        for fold in (0, 1):
            occurrence = datetime.combine(day, wall_time.replace(fold=fold), zone).astimezone(UTC)
            if occurrence > now:
                return occurrence
    return now + timedelta(days=1)
