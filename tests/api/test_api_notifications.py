"""Destinations over the API: secrets are accepted and never returned."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from api_client import Api
from werkzeug.test import TestResponse

from perfci.net.url_segments import encode_segment
from perfci.store import Store
from perfci_web.api.operations import notifications
from tests.support.builders import NOON, PROJECT
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

P = f"/projects/{encode_segment(PROJECT)}"
HOOK = {"kind": "webhook", "address": "https://hooks.example.com/T0/B1/very-secret", "secret": "s3cret"}


@pytest.fixture(autouse=True)
def project(store: Store) -> None:
    a_project(store)


def put(api: Api, name: str, body: Mapping[str, Any]) -> TestResponse:
    return api.client.put(f"/api/v1{P}/destinations/{name}", json=body)


def test_creates_changes_and_removes_a_destination(api: Api) -> None:
    made = put(api, "team", HOOK)
    changed = put(api, "team", {**HOOK, "secret": None, "digest": "daily@09:00", "tz": "Europe/Berlin"})

    assert (made.status_code, changed.status_code, changed.get_json()["has_secret"]) == (201, 200, True)
    assert api.client.delete(f"/api/v1{P}/destinations/team").status_code == 204
    assert api.client.delete(f"/api/v1{P}/destinations/team").status_code == 404


def test_returns_no_secret(api: Api) -> None:
    answers = [put(api, "team", HOOK), api.get(f"{P}/destinations"), api.get(f"{P}/audit")]

    assert all("s3cret" not in answer.text and "very-secret" not in answer.text for answer in answers)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "webhook", "address": "ftp://a.example/"},
        {"kind": "webhook", "address": "https://me:pw@a.example/"},
        {"kind": "email", "address": "nobody"},
        {"kind": "email", "address": "a@b.example\r\nBcc: all@b.example"},
        {"kind": "github_issue", "address": "acme/model"},
        {"kind": "github_issue", "address": "../../etc", "secret": "x"},
        {**HOOK, "quiet": {"tz": "Mars/Olympus", "begin": "22:00", "end": "07:00"}},
        {**HOOK, "routes": {"colour": "red"}},
        {"kind": "pigeon", "address": "https://a.example/"},
    ],
)
def test_refuses_invalid_destinations(api: Api, body: Mapping[str, Any]) -> None:
    assert put(api, "team", body).status_code in (400, 409)

    assert api.get(f"{P}/destinations").get_json()["items"] == []


@pytest.mark.parametrize(
    "name", ["x" * 101, "a~E2~80~AEb", "a~0Ab"], ids=["long", "turned round", "two lines"]
)
def test_refuses_unprintable_destination_names(api: Api, name: str) -> None:
    refused = put(api, name, HOOK)

    assert (refused.status_code, refused.content_type) == (409, "application/problem+json")
    assert refused.get_json()["detail"] == (
        "The name of a destination is one line of at most 100 visible characters."
    )
    assert api.get(f"{P}/destinations").get_json()["items"] == []


def test_reports_a_private_address_of_a_test_notification(api: Api) -> None:
    put(api, "inside", {"kind": "webhook", "address": "https://127.0.0.1/"})

    document = api.client.post(f"/api/v1{P}/destinations/inside/test").get_json()

    assert document["sent"] is False
    assert "not a public address" in document["problem"]


def test_sends_few_test_notifications_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    put(api, "inside", {"kind": "webhook", "address": "https://127.0.0.1/"})
    monkeypatch.setattr(notifications, "test_messages", threading.BoundedSemaphore(1))

    with notifications.test_messages:
        refused = api.client.post(f"/api/v1{P}/destinations/inside/test")

    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert api.client.post(f"/api/v1{P}/destinations/inside/test").status_code == 200


def test_lists_waiting_deliveries(api: Api, store: Store) -> None:
    put(api, "team", HOOK)
    reconcile(store, NOON, a_budgeted_incident("a1", a_move("x")))

    (waiting,) = api.get(f"{P}/deliveries").get_json()["items"]

    assert (waiting["destination"], waiting["state"], waiting["incident_state"]) == ("team", "waiting", "new")
