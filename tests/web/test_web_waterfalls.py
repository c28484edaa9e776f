"""The page of what moved a series since a release, and its JSON and SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from page_reading import BF16, HERE, P, read, words
from web_builders import COMMITS, NOW, PROJECT, STEP, SUSPECT, a_commit, a_store, fill

from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci_web import create_app

STEP_TIME = f"{P}/waterfall/train.Step.time_step/cpu_time"
MEMORY = f"{P}/waterfall/train.Step.peakmem_step/peak_memory"


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """The project with two releases, the newer one on a commit right before the step."""
    store = a_store(tmp_path_factory.mktemp("tagged"))
    fill(store)
    with store.begin() as tx:
        for number, tag in ((3, "v1.0"), (STEP - 1, "v1.1"), (COMMITS - 1, "nightly-[1]")):
            upsert_commits(tx, PROJECT, [replace(a_commit(number), tags=(tag,))])
    yield create_app(store, clock=lambda: NOW).test_client()
    store.close()


def test_counts_from_the_last_release(tagged: FlaskClient) -> None:
    html = read(tagged, f"{STEP_TIME}{BF16}")

    text = words(html)
    assert re.search(
        r"since v1\.1: 12\.\d\d ms to 14\.\d\d ms \(\+1\d\.\d %\): 1 change \+2\.\d\d ms, "
        r"drift and small changes [+−]?0\.\d\d ms\.",
        text,
    )
    assert html.count("<rect class=") >= 8
    assert f'href="/acme:tiny-lm/commit/{a_commit(STEP).sha}"' in html
    assert "confirmed by A/B rerun" in text


@pytest.mark.parametrize(
    ("since", "start", "steps"),
    [
        ("v1.0", "since v1.0", 1),
        (a_commit(STEP + 1).sha[:9], f"since {a_commit(STEP + 1).sha[:10]}", 0),
        ("nightly-[1]", "since nightly-[1]", 0),
        ("2026-03-04", "since 4 Mar 2026", 1),
        ("1999-01-01", "since its first value", 1),
        ("30d", "since 11 Mar 2026", 1),
        ("all", "since its first value", 1),
    ],
)
def test_counts_from_a_tag_commit_date_or_span(
    tagged: FlaskClient, since: str, start: str, steps: int
) -> None:
    document = tagged.get(f"{STEP_TIME}.json{BF16}&since={since}").json

    assert start in document["sentence"]
    assert len(document["steps"]) == steps
    total = document["start"] + sum(step["added"] for step in document["steps"]) + document["remainder"]
    assert total == pytest.approx(document["now"], abs=1e-12)


@pytest.mark.parametrize("since", ["v9", "2026-13-45", "<script>alert(1)</script>", "x" * 300])
def test_a_start_that_is_not_known_is_no_page(tagged: FlaskClient, since: str) -> None:
    answer = tagged.get(
        STEP_TIME, query_string={"m": HERE[2:], "p.batch": "8", "p.dtype": "'bf16'", "since": since}
    )

    assert answer.status_code == 404
    assert "knows no commit that starts with" in answer.text
    assert "<script>alert" not in answer.text


def test_an_address_without_a_machine_leads_to_the_whole_one(tagged: FlaskClient) -> None:
    answer = tagged.get(f"{MEMORY}?since=v1.0")

    assert answer.status_code == 302
    assert answer.location == f"{MEMORY}?{HERE}&since=v1.0"
    assert "not confirmed" in words(read(tagged, answer.location))
    assert a_commit(SUSPECT).sha in read(tagged, answer.location)


def test_without_a_release_it_counts_from_the_first_value(client: FlaskClient) -> None:
    text = words(read(client, f"{MEMORY}?{HERE}"))

    assert "since its first value" in text


def test_a_series_without_a_value_has_no_picture(client: FlaskClient) -> None:
    missing = f"{P}/waterfall/train.Step.time_compiled/cpu_time"

    assert "has no value." in words(read(client, f"{missing}?{HERE}"))
    assert client.get(f"{missing}.svg?{HERE}").status_code == 404
    assert client.get(f"{missing}.json?{HERE}").json["steps"] == []


def test_series_and_overview_lead_there(client: FlaskClient) -> None:
    series, overview = (
        read(client, path) for path in (f"{P}/s/train.Step.time_step/cpu_time{BF16}", f"{P}/")
    )

    for html in (series, overview):
        assert "/acme:tiny-lm/waterfall/train.Step.time_step/" in html
    assert "What they add up to since a release" in series


def test_the_picture_stands_alone(client: FlaskClient) -> None:
    answer = client.get(f"{STEP_TIME}.svg{BF16}")

    assert answer.content_type.startswith("image/svg+xml")
    assert "train.Step.time_step" in answer.text
    assert "drift and small changes" in answer.text
