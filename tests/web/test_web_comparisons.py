"""The page of a comparison, the form that leads to one, and the page of a commit."""

import re

from flask.testing import FlaskClient
from page_reading import COMPARE, P, read, words
from web_builders import COMMITS, EMULATED, STEP, a_commit


def test_counts_verdicts_of_every_kind(client: FlaskClient) -> None:
    text = words(read(client, COMPARE))

    counts = "1 failed, 1 regression, 1 inconclusive, 1 not comparable, 1 missing, 1 improvement, 2 unchanged"
    assert counts in text
    assert "about 14 more pairs would decide" in text
    assert "Worst: serve.Generate.time_batch(64) failed" in text


def test_shows_informational_metrics_of_a_comparison(client: FlaskClient) -> None:
    assert re.search(
        r"3 informational metrics, shown and not judged.*time_step\(8, 'bf16'\) time \+1\d\.\d %",
        words(read(client, COMPARE)),
    )


def test_folds_series_that_neither_side_could_measure(client: FlaskClient) -> None:
    text = words(read(client, COMPARE))

    assert f"5 not available on either side 3 {EMULATED}" in text


def test_shows_differences_of_the_environment(client: FlaskClient) -> None:
    assert "torch2.12.12.13.0" in words(read(client, COMPARE))


def test_accepts_sha_prefixes_and_swaps_sides(client: FlaskClient) -> None:
    short = f"{P}/compare/{a_commit(STEP - 1).sha[:8]}...{a_commit(STEP).sha[:8]}"

    assert words(read(client, short)) == words(read(client, COMPARE))
    assert f"{P}/compare/{a_commit(STEP).sha}...{a_commit(STEP - 1).sha}" in read(client, COMPARE)


def test_redirects_the_form_to_the_address_of_the_comparison(client: FlaskClient) -> None:
    answer = client.get(f"{P}/compare?base=abc&head=def")

    assert (answer.status_code, answer.location) == (302, f"{P}/compare/abc...def")
    assert "3 comparisons to read" in words(read(client, f"{P}/compare"))


def test_shows_the_measurements_of_a_commit(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/commit/{a_commit(COMMITS - 1).sha[:10]}"))

    assert "9 series measured; 1 failed; 5 not available here." in text
    assert f"5 not available here 3 {EMULATED}" in text
    assert "3 informational metrics, shown and not judged" in text
    assert "Failed 1 oom: torch.OutOfMemoryError" in text
    assert "governor" in text
    assert f"perfci run {a_commit(COMMITS - 1).short_sha}" in text
