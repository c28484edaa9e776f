"""Dates in bodies and queries."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from perfci.net.api_schemas.incidents import IncidentPatch
from perfci.net.api_schemas.runs import RunQuery
from perfci_web.api.problem_details import ProblemError
from perfci_web.api.request_pipeline import parse_json_body


def test_accepts_a_date_with_a_zone() -> None:
    body = parse_json_body(b'{"due_at":"2026-03-01T12:00:00Z"}', IncidentPatch)

    assert getattr(body, "due_at", None) == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert RunQuery.model_validate({"since": "2026-03-01T13:00:00+01:00"}).since == datetime(
        2026, 3, 1, 12, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "value", [0, 1.5, True, "0", "1772366400", "2026-03-01", "2026-03-01T12:00:00", "soon"]
)
def test_refuses_numbers_and_times_without_a_zone(value: object) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_json_body(json.dumps({"due_at": value}).encode(), IncidentPatch)

    assert refused.value.kind == "bad-request"
