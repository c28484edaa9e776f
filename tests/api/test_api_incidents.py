"""Incidents over the API: listed, changed at a revision, merged and split."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from api_client import NOW, Api
from werkzeug.test import TestResponse

from perfci.formats.evidence.evidence_bundle import read_bundle
from perfci.net.url_segments import encode_segment
from perfci.service.evidence.verify_evidence import verify_evidence
from perfci.store import Store
from tests.support.builders import PROJECT
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

P = f"/projects/{encode_segment(PROJECT)}"


@pytest.fixture(autouse=True)
def incidents(store: Store) -> None:
    """Three, of which the first has three series."""
    reconcile(
        store,
        NOW - timedelta(days=1),
        a_budgeted_incident("c3", a_move("v", at=30), good=29, bad=30),
        a_budgeted_incident("b2", a_move("w", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x"), a_move("y"), a_move("z")),
    )


def send(
    api: Api, method: str, path: str, body: Mapping[str, Any], revision: int | None = None
) -> TestResponse:
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    return api.client.open(f"/api/v1{P}{path}", method=method, json=body, headers=headers)


def test_lists_page_by_page_newest_first(api: Api) -> None:
    first = api.get(f"{P}/incidents?limit=2").get_json()
    rest = api.get(f"{P}/incidents?limit=2&cursor={first['next']}").get_json()

    assert [item["number"] for item in first["items"] + rest["items"]] == [3, 2, 1]
    assert "next" not in rest


def test_filters_by_state(api: Api) -> None:
    send(api, "PATCH", "/incidents/2", {"state": "investigating"}, 1)

    items = api.get(f"{P}/incidents?state=investigating").get_json()["items"]

    assert [(item["number"], item["revision"]) for item in items] == [(2, 2)]


def test_filters_by_a_sha_prefix(api: Api) -> None:
    commit = api.get(f"{P}/incidents/1").get_json()["commit"]
    part, other = commit[:8], "f" * 8

    numbers = [item["number"] for item in api.get(f"{P}/incidents?commit={part}").get_json()["items"]]
    moved = {item["commit"] for item in api.get(f"{P}/impact?commit={part}").get_json()["items"]}

    assert (1 in numbers, moved) == (True, {commit})
    assert api.get(f"{P}/incidents?commit={other}").get_json() == {"items": []}
    assert api.get(f"{P}/impact?commit={other}").get_json() == {"items": []}


def test_returns_series_candidates_and_history_of_an_incident(api: Api) -> None:
    answer = api.get(f"{P}/incidents/1")

    document = answer.get_json()
    assert (answer.headers["ETag"], document["headline"][:8], len(document["members"])) == (
        '"1"',
        "x and 2 ",
        3,
    )
    assert [event["action"] for event in document["events"]] == ["state"]


def test_serves_the_evidence_of_an_incident(api: Api) -> None:
    """Nothing was measured of these, so that nothing gives the changes they state."""
    answer = api.get(f"{P}/incidents/1/evidence")

    assert (answer.status_code, answer.content_type) == (200, "application/gzip")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="incident-1.evidence.tar.gz"'
    verification = verify_evidence(read_bundle(answer.data))
    assert [member.stands for member in verification.members] == [False, False, False]
    assert api.get(f"{P}/incidents/77/evidence").status_code == 404


def test_requires_the_current_revision_for_a_change(api: Api) -> None:
    assert send(api, "PATCH", "/incidents/1", {"state": "investigating"}).status_code == 428
    assert (
        send(api, "PATCH", "/incidents/1", {"state": "investigating", "assignee": "ada"}, 1).status_code
        == 200
    )

    late = send(api, "PATCH", "/incidents/1", {"state": "invalid"}, 1)

    assert (late.status_code, late.get_json()["revision"]) == (412, 2)
    assert api.get(f"{P}/incidents/1").get_json()["state"] == "investigating"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"state": "accepted"}, 409),
        ({"state": "sleeping"}, 400),
        ({"status": "fixed"}, 400),
        ({"issue_url": "javascript:alert(1)"}, 400),
        ({"assignee": "a\u202eda"}, 400),
        ({"due_at": "tomorrow"}, 400),
        ({"duplicate_of": 1, "state": "duplicate"}, 409),
    ],
)
def test_refuses_invalid_changes_with_a_problem(api: Api, body: Mapping[str, Any], status: int) -> None:
    assert send(api, "PATCH", "/incidents/1", body, 1).status_code == status

    assert api.get(f"{P}/incidents/1").get_json()["revision"] == 1


@pytest.mark.parametrize("number", ["99", "0", "2147483648", "99999999999999999999"])
def test_answers_404_for_an_unknown_number(api: Api, number: str) -> None:
    answer = api.get(f"{P}/incidents/{number}")

    assert (answer.status_code, answer.content_type) == (404, "application/problem+json")


def test_clears_a_field_by_null_and_preserves_omitted_fields(api: Api) -> None:
    send(api, "PATCH", "/incidents/1", {"assignee": "ada", "fix_sha": "f" * 40}, 1)

    document = send(api, "PATCH", "/incidents/1", {"assignee": None}, 2).get_json()

    assert (document["assignee"], document["fix_sha"]) == ("", "f" * 40)


def test_reports_which_incidents_of_a_bulk_change_succeeded(api: Api) -> None:
    send(api, "PATCH", "/incidents/2", {"assignee": "bob"}, 1)
    seen = [{"number": number, "revision": 1} for number in (1, 2, 3, 77)]

    reply = send(
        api, "POST", "/incidents/bulk", {"incidents": seen, "change": {"state": "invalid", "reason": "noise"}}
    )

    assert reply.get_json() == {
        "changed": [1, 3],
        "stale": [2],
        "rejected": [{"number": 77, "reason": "there is no such incident"}],
    }


def test_adds_a_note_without_a_revision(api: Api) -> None:
    assert send(api, "POST", "/incidents/1/notes", {"text": "first line\nsecond line"}).status_code == 200

    assert api.get(f"{P}/incidents/1/events").get_json()["items"][-1]["text"] == "first line\nsecond line"


def test_undoes_the_last_state_change_at_a_revision(api: Api) -> None:
    send(api, "PATCH", "/incidents/1", {"state": "invalid"}, 1)

    stale = api.client.post(f"/api/v1{P}/incidents/1/undo", headers={"If-Match": '"1"'})
    reply = api.client.post(f"/api/v1{P}/incidents/1/undo", headers={"If-Match": '"2"'})
    again = api.client.post(f"/api/v1{P}/incidents/1/undo", headers={"If-Match": '"3"'})

    assert (stale.status_code, stale.get_json()["revision"]) == (412, 2)
    assert (reply.get_json()["state"], reply.headers["ETag"]) == ("new", '"3"')
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("merge", {"others": [{"number": 1, "revision": 1}]}, "cannot be merged with itself"),
        ("move-boundary", {"commit_offset": 0}, "cannot move by 0 commits"),
    ],
)
def test_rejects_a_regrouping_that_changes_nothing(
    api: Api, path: str, body: dict[str, object], sentence: str
) -> None:
    answer = send(api, "POST", f"/incidents/1/{path}", body, 1)

    assert answer.status_code in (400, 409, 422)
    assert sentence in answer.get_json()["detail"]


def test_merges_and_splits(api: Api) -> None:
    merged = send(api, "POST", "/incidents/1/merge", {"others": [{"number": 2, "revision": 1}]}, 1).get_json()
    member = api.get(f"{P}/incidents/1").get_json()["members"][0]["series_id"]

    parted = send(api, "POST", "/incidents/1/split", {"series": [member]}, merged["revision"]).get_json()

    assert (merged["series_count"], parted["remaining"]["series_count"], parted["new"]["number"]) == (4, 3, 4)
    assert api.get(f"{P}/incidents/2").get_json()["duplicate_of"] == 1


def test_refuses_a_boundary_move_without_a_valid_target(api: Api) -> None:
    assert send(api, "POST", "/incidents/1/move-boundary", {}, 1).status_code == 409
    assert send(api, "POST", "/incidents/1/move-boundary", {"commit_offset": 900}, 1).status_code == 409


def test_lists_the_impact_of_each_commit(api: Api) -> None:
    document = api.get(f"{P}/impact?limit=2").get_json()

    assert [(item["relative_change"], item["accepted"]) for item in document["items"]] == [
        (pytest.approx(0.2), False)
    ] * 2
    assert document["next"]


def test_counts_invalid_incidents_in_the_alert_quality(api: Api) -> None:
    send(api, "PATCH", "/incidents/1", {"state": "invalid"}, 1)
    send(api, "PATCH", "/incidents/2", {"state": "fixed"}, 1)

    document = api.get(f"{P}/incidents/alert-quality").get_json()

    assert (document["paged"], document["judged"], document["false_rate"], document["hours_to_triage"]) == (
        3,
        2,
        0.5,
        24.0,
    )


def test_mutes_and_unmutes_a_benchmark(api: Api) -> None:
    body = {"benchmark": "x", "reason": "noisy neighbour", "days": 7}

    there = send(api, "PUT", "/muted-benchmarks", body).get_json()["items"]
    gone = send(api, "PUT", "/muted-benchmarks", body | {"days": 0}).get_json()["items"]

    assert ([item["benchmark"] for item in there], gone) == (["x"], [])


def test_records_every_incident_change_in_the_audit_log(api: Api, store: Store) -> None:
    project = a_project(store)
    send(api, "PATCH", "/incidents/1", {"state": "fixed", "reason": "reverted"}, 1)

    (line, *_) = api.get(f"{P}/audit").get_json()["items"]

    assert (line["action"], line["subject"], line["actor"]) == ("incident.change", "incident 1", "local")
    assert project.slug == PROJECT
