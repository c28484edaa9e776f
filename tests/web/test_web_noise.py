"""The page of noise and its JSON, against a real database of nightly A/A runs."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from browsing import a_server
from flask.testing import FlaskClient
from playwright.sync_api import Browser
from web_builders import NOW, PROJECT, STEP_TIME, TOKENS, a_commit, a_run, a_store, a_verdict

from perfci.config import JudgeTable, Settings
from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.store import Store
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app

PAGE = "/acme:tiny-lm/noise"
NIGHTS = 40


def an_aa_verdict(series: Series, kind: VerdictKind, ratio: float) -> Verdict:
    commit = a_commit(1).sha
    verdict = a_verdict(series, 1, kind, ratio, (ratio - 0.01, ratio + 0.01), stage=Stage.SCREENING)
    return Verdict(
        verdict.kind, verdict.stage, series, commit, commit, ratio, verdict.interval, 1.0, ratio, pairs=5
    )


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Store]:
    """Forty nights of A/A runs, one alarm that was not confirmed, and a series with a high noise floor."""
    store, noise = a_store(tmp_path), random.Random(7)
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(1)])
        for night in range(NIGHTS):
            at, uid = NOW - timedelta(days=NIGHTS - night), f"aa-{night}"
            start_session(tx, PROJECT, uid, "aa", "spec", 7, 0, at)
            if night == 0:
                start_session(tx, PROJECT, "history-1", "history", "spec", 7, 0, at)
                find_or_add_run(tx, a_run(1))
            alarm = VerdictKind.REGRESSION if night == 3 else VerdictKind.UNCHANGED
            noisy = an_aa_verdict(TOKENS, VerdictKind.INCONCLUSIVE, noise.gauss(1, 0.04))
            add_verdicts(
                tx, PROJECT, uid, [an_aa_verdict(STEP_TIME, alarm, noise.gauss(1, 0.005)), noisy], at
            )
    yield store
    store.close()


def client_of(store: Store, settings: Settings | None = None) -> FlaskClient:
    return create_app(store, clock=lambda: NOW, settings=settings).test_client()


def read(client: FlaskClient, path: str = PAGE) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def test_shows_the_false_alarm_rate_with_its_interval(nights: Store) -> None:
    content = read(client_of(nights))

    assert "40 A/A runs: no false alarm in 79 verdicts (95 % interval up to 4.6 %)." in content
    assert "A candidate that was never re-measured counts under screening only." in content
    assert "All time 80 1 1.2 % 0.03 % to 6.8 % 0 0.0 % up to 4.6 %" in content
    assert "Last 30 days 60 0 0.0 % up to 6.0 % 0 0.0 % up to 6.0 %" in content


def test_raises_the_bar_of_a_series_with_a_high_noise_floor(nights: Store) -> None:
    content = read(client_of(nights))

    assert re.search(r"serve\. Generate\. track_ throughput throughput [78]\.\d % 40 raised to", content)


def test_shows_the_bar_of_the_policy(nights: Store) -> None:
    document = client_of(nights, Settings(judge=JudgeTable(bar=0.1))).get(f"{PAGE}.json").get_json()

    assert [
        (floor["series"]["metric"], floor["bar"], floor["raised"]) for floor in document["noise_floors"]
    ] == [
        ("throughput", 0.1, False),
        ("cpu_time", 0.1, False),
    ]


def test_serves_the_content_of_the_page_as_json(nights: Store) -> None:
    ever, lately = client_of(nights).get(f"{PAGE}.json").get_json()["windows"]

    assert ever["false_alarms"]["screening"] | {"interval": []} == {
        "alarms": 1,
        "verdicts": 80,
        "share": 0.0125,
        "interval": [],
    }
    assert (lately["days"], lately["aa_comparisons"]) == (30, 30)


def test_explains_how_to_make_missing_aa_runs(client: FlaskClient) -> None:
    content = read(client)

    assert "No commit was compared with itself yet" in content
    assert "screening found 1 candidate change: 1 not validated." in content


@pytest.mark.browser
def test_fits_on_a_phone(nights: Store, browser: Browser) -> None:
    with a_server(nights.url) as url:
        page = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True).new_page()
        page.goto(url.rstrip("/") + PAGE)

        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.context.close()
