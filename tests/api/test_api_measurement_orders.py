"""Orders over HTTP: people ask, workers measure, and a lost answer changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from api_client import Api
from github_jobs import Jobs
from werkzeug.test import TestResponse

from perfci.store import Store
from perfci.store.projects import create_project
from tests.support import signed_job_tokens
from tests.support.builders import NOON, PROJECT, a_sha

HERE = "/api/v1/projects/acme:model/orders"
COMPARISON = {"base": a_sha(1), "head": a_sha(2), "bench": "step", "pairs": 8}


@pytest.fixture(autouse=True)
def project(store: Store, request: pytest.FixtureRequest) -> None:
    if "jobs" not in request.fixturenames:
        with store.begin() as tx:
            create_project(tx, PROJECT, "private", NOON)


def post(api: Api, path: str, body: dict[str, Any] | None = None) -> TestResponse:
    return api.client.post(HERE + path, json=body)


def claim(api: Api, worker: str = "box") -> Any:
    answer = post(api, "/claim", {"worker": worker})
    return answer.json if answer.status_code == 200 else None


def test_two_orders_of_equal_content_are_one(api: Api) -> None:
    first, second = post(api, "", COMPARISON), post(api, "", {**COMPARISON, "incident": 3})
    other = post(api, "", {"head": a_sha(2)})

    assert [answer.status_code for answer in (first, second, other)] == [201, 200, 201]
    assert (first.json["id"], first.json["kind"], first.json["state"]) == (1, "compare", "queued")
    assert [request.get("incident") for request in second.json["requests"]] == [None, 3]
    assert (other.json["kind"], other.json["requests"][0]["source"]) == ("measure", "api")
    assert api.client.get(f"{HERE}/1").json == second.json


def test_lists_orders_newest_first_page_after_page(api: Api) -> None:
    for bench in "abc":
        post(api, "", {**COMPARISON, "bench": bench})
    post(api, "/2/cancel")

    page = api.client.get(f"{HERE}?limit=2").json
    rest = api.client.get(f"{HERE}?limit=2&cursor={page['next']}").json

    assert [order["bench"] for order in page["items"] + rest["items"]] == ["c", "b", "a"]
    states = {state: api.client.get(f"{HERE}?state={state}").json["items"] for state in ("open", "cancelled")}
    assert {state: [order["id"] for order in orders] for state, orders in states.items()} == {
        "open": [3, 1],
        "cancelled": [2],
    }


def test_a_worker_claims_reports_and_closes(api: Api) -> None:
    post(api, "", COMPARISON)

    claimed = claim(api)
    beat = post(api, "/1/heartbeat", {"lease": claimed["lease"], "progress": "3 of 8 pairs"})

    assert (claimed["lease_s"], claimed["order"]["worker"]) == (120.0, "box")
    assert beat.json == {"held": True, "state": "running"}
    assert api.client.get(f"{HERE}/1").json["progress"] == "3 of 8 pairs"
    result = {"verdict": "regression", "counts": {"regression": 1, "unchanged": 3}, "sessions": ["s"]}
    finished = post(api, "/1/finish", {"lease": claimed["lease"], "result": result})
    assert (finished.json["state"], finished.json["result"]) == ("done", result)
    assert claim(api) is None


def test_an_answer_that_was_lost_is_given_again(api: Api) -> None:
    post(api, "", COMPARISON)
    post(api, "", {"head": a_sha(2)})

    assert claim(api) == claim(api) != claim(api, "other box")
    finish = {"lease": 1, "result": {"verdict": "unchanged"}}
    assert [post(api, "/1/finish", finish).status_code for _ in range(2)] == [200, 200]
    fail = {"lease": 1, "problem": "There is no such commit."}
    assert [post(api, "/2/fail", fail).status_code for _ in range(2)] == [200, 200]
    assert post(api, "/1/fail", fail).json["detail"] == (
        "Order 1 is done and no longer this worker's: claim another one."
    )


def test_a_cancelled_order_is_no_longer_held(api: Api) -> None:
    post(api, "", COMPARISON)
    claim(api)

    assert post(api, "/1/cancel").json["problem"] == "Cancelled by local."

    assert post(api, "/1/heartbeat", {"lease": 1}).json == {"held": False, "state": "cancelled"}
    assert post(api, "/1/release", {"lease": 1}).status_code == 409
    assert post(api, "/1/cancel").json["detail"] == "Order 1 is cancelled already."


def test_a_released_order_waits_for_the_next_worker(api: Api) -> None:
    post(api, "", COMPARISON)
    claim(api)

    assert [post(api, "/1/release", {"lease": 1}).json["state"] for _ in range(2)] == ["queued", "queued"]
    assert claim(api, "next")["lease"] == 2
    assert post(api, "/1/finish", {"lease": 1, "result": {"verdict": "unchanged"}}).status_code == 409


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"head": "main"}, 400),
        ({"base": "--upload-pack=x"}, 400),
        ({"bench": "--results=/"}, 400),
        ({"bench": "a\nb"}, 400),
        ({"bench": "("}, 409),
        ({"pairs": 3}, 400),
        ({"base": None}, 409),
        ({"engine": "ray"}, 409),
        ({"engine": "k8s"}, 400),
        ({"kind": "bisect"}, 409),
        ({"kind": "backfill", "pairs": None, "stride": 0}, 400),
        ({"engine": "github"}, 409),
        ({"suite": "../x"}, 400),
    ],
)
def test_refuses_what_a_machine_should_not_get(api: Api, change: dict[str, Any], status: int) -> None:
    assert post(api, "", {**COMPARISON, **change}).status_code == status


def test_an_order_of_another_project_is_unknown(api: Api, store: Store) -> None:
    post(api, "", COMPARISON)
    with store.begin() as tx:
        create_project(tx, "acme/other", "private", NOON)
    other = "/api/v1/projects/acme:other/orders"

    assert api.client.get(f"{other}/1").status_code == 404
    assert api.client.post(f"{other}/1/heartbeat", json={"lease": 1}).status_code == 404
    assert api.client.post(f"{other}/claim", json={"worker": "box"}).status_code == 204


def test_a_token_of_a_job_carries_out_no_order(jobs: Jobs) -> None:
    answer = jobs.app.test_client().post(
        f"{HERE}/claim", json={"worker": "box"}, headers=jobs.job(signed_job_tokens.a_job()).headers
    )

    assert (answer.status_code, answer.json["detail"]) == (
        403,
        "A job's token is for what the job itself measured; a worker needs a token of "
        "`perfci token create` with the scope results:write.",
    )
