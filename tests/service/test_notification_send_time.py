"""Quiet hours and digests, across midnight and across both nights on which the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perfci.model import PerfciError
from perfci.service.notify.notification_send_time import compute_send_time

NIGHT = {"tz": "Europe/Berlin", "from": "22:00", "to": "07:00"}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "sent"),
    [
        ("2026-05-04 12:00", "2026-05-04 12:00"),
        ("2026-05-04 19:59", "2026-05-04 19:59"),
        ("2026-05-04 20:00", "2026-05-05 05:00"),
        ("2026-05-04 23:30", "2026-05-05 05:00"),
        ("2026-05-05 05:00", "2026-05-05 05:00"),
        ("2026-03-28 22:30", "2026-03-29 05:00"),  # the clocks go forward in this night
        ("2026-10-24 21:30", "2026-10-25 06:00"),  # and back in this one
    ],
)
def test_holds_a_message_until_the_quiet_hours_end(now: str, sent: str) -> None:
    assert compute_send_time(utc(now), NIGHT) == utc(sent)


def test_an_urgent_message_is_sent_at_once() -> None:
    assert compute_send_time(utc("2026-05-04 23:30"), NIGHT, urgent=True) == utc("2026-05-04 23:30")


@pytest.mark.parametrize(
    ("now", "sent"),
    [
        ("2026-10-24 23:50", "2026-10-25 00:30"),  # 01:50 in summer: the first 02:30 of the night
        ("2026-10-25 00:40", "2026-10-25 01:30"),  # 02:40 for the first time: the second 02:30
        ("2026-10-25 01:15", "2026-10-25 01:30"),  # 02:15 for the second time
        ("2026-03-29 00:50", "2026-03-29 01:30"),  # 01:50 in winter: 02:30 does not come, 03:30 does
    ],
)
def test_an_end_in_a_daylight_saving_change_is_never_past(now: str, sent: str) -> None:
    quiet = {"tz": "Europe/Berlin", "from": "01:00", "to": "02:30"}

    assert compute_send_time(utc(now), quiet) in (utc(sent), utc(now))
    assert compute_send_time(utc(now), quiet) >= utc(now)


def test_a_digest_waits_for_its_time() -> None:
    assert compute_send_time(utc("2026-05-04 06:59"), {"tz": "Europe/Berlin"}, "daily@09:00") == utc(
        "2026-05-04 07:00"
    )
    assert compute_send_time(utc("2026-05-04 07:00"), {"tz": "Europe/Berlin"}, "daily@09:00") == utc(
        "2026-05-05 07:00"
    )


@pytest.mark.parametrize(
    "quiet", [{"tz": "Mars/Olympus"}, {"from": "25:00", "to": "07:00"}, {"tz": "../etc/passwd"}]
)
def test_an_invalid_time_is_refused_with_its_text(quiet: dict[str, str]) -> None:
    with pytest.raises(PerfciError, match="expected for example"):
        compute_send_time(utc("2026-05-04 12:00"), quiet)
