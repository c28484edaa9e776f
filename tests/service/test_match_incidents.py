"""Derived incidents are matched with stored ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from perfci.model import Incident, IncidentKind, IncidentState
from perfci.service.incidents.match_incidents import DerivedIncident, StoredIncident, match_incidents
from perfci.store.incidents.incident_records import IncidentMember, IncidentRecord
from perfci.verdicts.incidents.paging_budget import BudgetedIncident, Disposition
from tests.support.builders import a_sha

NOW = datetime(2026, 5, 4, tzinfo=UTC)
LINE = {a_sha(number): number for number in range(1, 60)}


def derived_incident(
    name: str, good: int, bad: int, *series: int, kind: IncidentKind = IncidentKind.REGRESSION
) -> DerivedIncident:
    incident = Incident(name, kind, a_sha(good), a_sha(bad), ())
    return DerivedIncident(
        BudgetedIncident(incident, Disposition.PAGE),
        {
            series_item: IncidentMember(series_item, a_sha(bad), a_sha(good), 0.1, 1, 1.1)
            for series_item in series
        },
    )


def stored_incident(
    row_id: int, name: str, good: int, bad: int, *series: int, pinned: bool = False, kind: str = "regression"
) -> StoredIncident:
    record = IncidentRecord(
        row_id,
        row_id,
        name,
        kind,
        IncidentState.NEW,
        1,
        1,
        a_sha(good),
        a_sha(bad),
        NOW,
        NOW,
        "",
        1,
        pinned=pinned,
    )
    return StoredIncident(record, frozenset(series))


def match_pairs(
    incidents: list[DerivedIncident], stored: list[StoredIncident]
) -> list[tuple[str, set[int], int | None]]:
    return [
        (record.budgeted.incident.id, set(record.members), to.record.id if to else None)
        for record, to in match_incidents(incidents, stored, LINE)
    ]


def test_matches_by_the_derived_id() -> None:
    assert match_pairs(
        [derived_incident("a", 4, 5, 1)], [stored_incident(1, "a", 4, 5, 1), stored_incident(2, "b", 4, 5, 1)]
    ) == [("a", {1}, 1)]


def test_matches_an_overlapping_range_with_a_shared_series() -> None:
    assert match_pairs([derived_incident("new", 3, 5, 1, 2)], [stored_incident(1, "old", 4, 8, 2, 3)]) == [
        ("new", {1, 2}, 1)
    ]


def test_does_not_match_adjacent_ranges() -> None:
    assert match_pairs([derived_incident("new", 5, 6, 1)], [stored_incident(1, "old", 4, 5, 1)]) == [
        ("new", {1}, None)
    ]


def test_does_not_match_without_a_shared_series() -> None:
    assert match_pairs([derived_incident("new", 4, 5, 2)], [stored_incident(1, "old", 4, 5, 1)]) == [
        ("new", {2}, None)
    ]


def test_matches_the_candidate_that_shares_most_series() -> None:
    stored = [stored_incident(1, "x", 4, 5, 1), stored_incident(2, "y", 4, 6, 1, 2)]

    assert match_pairs([derived_incident("new", 3, 6, 1, 2)], stored) == [("new", {1, 2}, 2)]


def test_prefers_a_candidate_of_a_related_kind() -> None:
    stored = [stored_incident(1, "x", 4, 5, 1, 2, kind="improvement"), stored_incident(2, "y", 4, 5, 1)]

    assert match_pairs([derived_incident("new", 3, 5, 1, 2, kind=IncidentKind.MIXED)], stored) == [
        ("new", {1, 2}, 2)
    ]


def test_matches_a_regression_that_becomes_an_environment_change() -> None:
    stored = [stored_incident(1, "x", 4, 5, 1)]

    assert match_pairs([derived_incident("new", 4, 5, 1, kind=IncidentKind.ENVIRONMENT)], stored) == [
        ("new", {1}, 1)
    ]


def test_keeps_merged_incidents_together() -> None:
    stored = [stored_incident(1, "x", 4, 5, 1, 2, pinned=True)]

    assert match_pairs([derived_incident("a", 4, 5, 1), derived_incident("b", 3, 5, 2)], stored) == [
        ("a", {1}, 1),
        ("b", {2}, 1),
    ]


def test_keeps_split_parts_apart_and_adds_a_new_series_to_the_larger_part() -> None:
    stored = [stored_incident(1, "x", 4, 5, 1, 2, pinned=True), stored_incident(2, "y", 4, 5, 3, pinned=True)]

    assert match_pairs([derived_incident("a", 4, 5, 1, 2, 3, 4)], stored) == [
        ("a", {1, 2, 4}, 1),
        ("a", {3}, 2),
    ]


def test_does_not_return_a_series_removed_by_a_person() -> None:
    stored = [replace(stored_incident(1, "x", 4, 5, 1, pinned=True), dropped=frozenset({2}))]

    assert match_pairs([derived_incident("a", 4, 5, 1, 2)], stored) == [("a", {1}, 1)]
