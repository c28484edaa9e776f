"""The search box: one page that a few words mean, else a list."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from page_reading import P, words
from web_builders import STEP, a_commit


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("track_throughput", f"{P}/b/serve.Generate.track_throughput"),
        ("train.Step.time_step", f"{P}/b/train.Step.time_step"),
        (a_commit(STEP).sha[:9], f"{P}/commit/{a_commit(STEP).sha}"),
    ],
)
def test_goes_to_the_only_page_that_is_meant(client: FlaskClient, text: str, address: str) -> None:
    answer = client.get(f"{P}/search", query_string={"q": text})

    assert (answer.status_code, answer.location) == (302, address)


def test_lists_what_an_author_and_a_word_may_mean(client: FlaskClient) -> None:
    by_author = words(client.get(f"{P}/search?q=lovelace").text)
    by_word = words(client.get(f"{P}/search?q=Generate").text)

    assert "40 results for “lovelace”." in by_author
    assert "serve.Generate.track_throughput" in by_word


@pytest.mark.parametrize("text", ["%", "#12", "nothing like it", "<i>nobody"])
def test_says_that_nothing_is_called_so(client: FlaskClient, text: str) -> None:
    page = client.get(f"{P}/search", query_string={"q": text}).text

    assert "Nothing here is called" in page
    assert "<i>" not in page
