"""Runs, series, commits and verdicts over the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from api_client import NOW, Api

from perfci.formats import run_document
from perfci.model import VerdictKind
from perfci.net.url_segments import encode_segment
from perfci.store import Store
from perfci.store.column_conversions import series_identity
from perfci.store.verdicts_and_change_points import add_verdicts
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.stored_runs import replace_change_points

P = f"/projects/{encode_segment(PROJECT)}"
SERIES = series_identity(PROJECT, a_series())


@pytest.fixture
def filled(api: Api, store: Store) -> Api:
    """Five commits of one series with a step, and a verdict on it."""
    for number in range(1, 6):
        level = 1.0 if number < 4 else 1.2
        processes = (a_process(level, index=0), a_process(level, index=1))
        run = a_run(
            a_result(None, *processes),
            commit=a_commit(number),
            session=f"s{number}",
            started_at=NOON + timedelta(hours=number),
        )
        assert api.upload(run).status_code == 201
    change = a_change_point(commit=a_sha(4), last_good=a_sha(3))
    with store.begin() as tx:
        replace_change_points(tx, PROJECT, a_series(), [change])
        add_verdicts(tx, PROJECT, "s4", [a_verdict(base=a_sha(3), head=a_sha(4), evidence=(5, 7))], NOW)
    return api


def get_json(api: Api, path: str) -> Any:
    answer = api.get(P + path)
    assert answer.status_code == 200, answer.json
    return answer.json


def test_lists_runs_page_after_page(filled: Api) -> None:
    first = get_json(filled, "/runs?limit=3")
    second = get_json(filled, f"/runs?limit=3&cursor={first['next']}")

    assert [item["session"] for item in (*first["items"], *second["items"])] == ["s5", "s4", "s3", "s2", "s1"]
    assert "next" not in second


@pytest.mark.parametrize("sha", [a_sha(2), a_sha(2)[:8]], ids=["whole", "part"])
def test_narrows_runs_to_a_commit(filled: Api, sha: str) -> None:
    assert [item["session"] for item in get_json(filled, f"/runs?commit={sha}")["items"]] == ["s2"]


def test_narrows_verdicts_to_parts_of_shas(filled: Api) -> None:
    base, head = a_sha(3)[:8], a_sha(4)[:8]

    assert [item["id"] for item in get_json(filled, f"/verdicts?base={base}&head={head}")["items"]] == [1]
    assert get_json(filled, f"/verdicts?base={head}")["items"] == []


def test_gives_a_run_back_as_the_document_it_was(filled: Api) -> None:
    run = a_run(
        a_result(None, a_process(1.0, index=0), a_process(1.0, index=1)),
        commit=a_commit(1),
        session="s1",
        started_at=NOON + timedelta(hours=1),
    )

    answer = filled.get(f"{P}/runs/{run_document.idempotency_key(run)}")

    assert run_document.read_run(answer.data) == run


def test_names_a_series_by_its_identity(filled: Api) -> None:
    listed = get_json(filled, "/series?benchmark=training.Step.time_step")["items"]

    assert [entry["id"] for entry in listed] == [SERIES]
    assert get_json(filled, f"/series/{SERIES}")["metric"] == "time"


def test_draws_a_series_with_its_change(filled: Api) -> None:
    result = get_json(filled, f"/series/{SERIES}/points")

    assert [point["value"] for point in result["points"]] == [1.0, 1.0, 1.0, 1.2, 1.2]
    assert [(change["commit"], change["state"]) for change in result["changes"]] == [(a_sha(4), "confirmed")]


def test_merges_points_down_to_the_requested_number(filled: Api) -> None:
    for number in range(6, 41):
        filled.upload(a_run(a_result(), commit=a_commit(number), session=f"s{number}"))

    result = get_json(filled, f"/series/{SERIES}/points?max_points=10")

    assert sum(point["merged"] for point in result["points"]) == result["commits"] == 40
    assert len(result["points"]) < 20


def test_cuts_points_to_dates(filled: Api) -> None:
    since = (NOON + timedelta(hours=4)).isoformat().replace("+00:00", "Z")

    assert [
        point["commit"] for point in get_json(filled, f"/series/{SERIES}/points?since={since}")["points"]
    ] == [
        a_sha(4),
        a_sha(5),
    ]


def test_lists_commits_machines_and_environments(filled: Api) -> None:
    assert [item["commit"] for item in get_json(filled, "/commits")["items"]] == [
        a_sha(n) for n in (5, 4, 3, 2, 1)
    ]
    assert get_json(filled, f"/commits/{a_sha(2)[:8]}")["subject"] == "Change number 2"
    assert [item["label"] for item in get_json(filled, "/machines")["items"]] == ["AMD EPYC, 2 cores, 23 GB"]
    assert [item["values"] for item in get_json(filled, "/environments")["items"]] == [{"torch": "2.13.0"}]


def test_returns_a_verdict_with_its_samples(filled: Api) -> None:
    (listed,) = get_json(filled, f"/verdicts?verdict=regression&series={SERIES}")["items"]

    whole = get_json(filled, f"/verdicts/{listed['id']}")

    assert (whole["verdict"], whole["session"]) == ("regression", "s4")
    assert [(process["commit"], process["samples"]) for process in whole["processes"]] == [
        (a_sha(3), [1.0]),
        (a_sha(4), [1.2]),
    ]


def test_compares_two_commits_by_stored_verdicts(filled: Api) -> None:
    result = get_json(filled, f"/comparisons/{a_sha(3)}...{a_sha(4)}")

    assert (result["counts"], result["items"][0]["ratio"]) == ({"regression": 1}, 1.2)


def test_lists_a_comparison_worst_first_page_after_page(filled: Api, store: Store) -> None:
    kinds = ("unchanged", "improvement", "regression", "unchanged", "failed")
    with store.begin() as tx:
        verdicts = [
            a_verdict(a_series(f"b{n}"), VerdictKind(kind), base=a_sha(1), head=a_sha(5))
            for n, kind in enumerate(kinds)
        ]
        add_verdicts(tx, PROJECT, "s4", verdicts, NOW)

    pages = [get_json(filled, path := f"/comparisons/{a_sha(1)}...{a_sha(5)}?limit=2")]
    while following := pages[-1].get("next"):
        pages.append(get_json(filled, f"{path}&cursor={following}"))

    shown = [[(item["verdict"], item["series"]["benchmark"]) for item in page["items"]] for page in pages]
    assert shown == [
        [("regression", "b2"), ("failed", "b4")],
        [("improvement", "b1"), ("unchanged", "b0")],
        [("unchanged", "b3")],
    ]
    assert {str(page["counts"]) for page in pages} == {
        "{'regression': 1, 'failed': 1, 'improvement': 1, 'unchanged': 2}"
    }


def test_pages_through_the_levels_of_two_commits(filled: Api) -> None:
    filled.upload(a_run(a_result(a_series("other"), a_process(7.0)), commit=a_commit(4), session="more"))

    first = get_json(filled, path := f"/comparisons/{a_sha(3)}...{a_sha(4)}/summaries?limit=1")
    second = get_json(filled, f"{path}&cursor={first['next']}")

    assert first["items"] == [{"series": SERIES, "base": 1.0, "head": 1.2}]
    assert second == {"items": [{"series": series_identity(PROJECT, a_series("other")), "head": 7.0}]}


def test_answers_304_until_something_changes(filled: Api) -> None:
    etag = filled.get(f"{P}/series").headers["ETag"]

    before = filled.get(f"{P}/series", headers={"If-None-Match": etag})
    filled.upload(a_run(a_result(), session="more"))
    after = filled.get(f"{P}/series", headers={"If-None-Match": etag})

    assert (before.status_code, before.data, after.status_code) == (304, b"", 200)


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/runs?limit=0", 400, "limit"),
        ("/runs?limit=501", 400, "limit"),
        ("/runs?limit=5&limit=6", 400, "twice"),
        (
            "/runs?order=id",
            400,
            "order is no name here, this takes cursor, limit, commit, suite, session, since, until.",
        ),
        ("/machines/", 404, "There is nothing at this address: openapi.json lists what there is."),
        ("/runs?cursor=AAAA", 400, "cursor"),
        ("/runs?suite=a%00b", 400, "suite"),
        ("/runs?suite=%E2%80%AE", 400, "suite"),
        (f"/runs/{'0' * 64}", 404, "run"),
        ("/runs/0", 404, ""),
        (f"/series/{'0' * 64}", 404, "series"),
        ("/commits/ffffffff", 404, "commit"),
        ("/commits/a~00b", 404, ""),
        ("/verdicts/999999999999999999", 404, "verdict"),
        ("/verdicts/9999999999999999999", 404, ""),
        ("/verdicts?series=x", 400, "series"),
        (f"/comparisons/{a_sha(1)}...ffffffff", 404, "commit"),
    ],
)
def test_refuses_with_a_problem(filled: Api, path: str, status: int, says: str) -> None:
    answer = filled.get(P + path)

    assert (answer.status_code, answer.content_type) == (status, "application/problem+json")
    assert says in answer.json["detail"]


def test_answers_404_for_another_spelling_of_a_project(filled: Api) -> None:
    assert [
        filled.get(f"/projects/{name}/runs").status_code
        for name in ("acme~2Fmodel", "acme", "a~00b", "~ED~A0~80")
    ] == [404] * 4
