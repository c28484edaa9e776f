"""Dates as bodies and queries say them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from perfci.net.shapes.incidents import IncidentChange
from perfci.net.shapes.runs import RunFilter
from perfci_web.api.problems import Declined
from perfci_web.api.request_body import parsed


def test_takes_a_date_with_a_zone() -> None:
    body = parsed(b'{"due_at":"2026-03-01T12:00:00Z"}', IncidentChange)

    assert getattr(body, "due_at", None) == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert RunFilter.model_validate({"since": "2026-03-01T13:00:00+01:00"}).since == datetime(
        2026, 3, 1, 12, tzinfo=UTC
    )


@pytest.mark.parametrize("value", [0, 1.5, True, "0", "1772366400", "2026-03-01", "2026-03-01T12:00:00", "soon"])
def test_takes_no_number_and_no_time_without_a_zone(value: object) -> None:
    with pytest.raises(Declined) as refused:
        parsed(json.dumps({"due_at": value}).encode(), IncidentChange)

    assert refused.value.word == "bad-request"
