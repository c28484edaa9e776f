"""The page of one run."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import COMMITS, a_commit

from perfci.config import ForgeTable
from perfci_web.forge_links import build_forge_links


@pytest.fixture
def address(client: FlaskClient) -> str:
    """The address of the run of the newest commit, as its page links to it."""
    page = read(client, f"{P}/commit/{a_commit(COMMITS - 1).sha}")
    (found,) = re.findall(rf'href="({P}/run/[0-9a-f]{{64}})"', page)
    return found


def test_says_what_a_run_measured_and_on_what(client: FlaskClient, address: str) -> None:
    text = words(read(client, address))

    assert "9 series measured, 1 failed, 5 not available." in text
    assert "oom: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512 MiB <b>at once</b>" in text
    assert "started 2026-04-12 11:50 UTC, took 3 min" in text
    assert "torch2.13.0" in text


def test_gives_the_same_as_json(client: FlaskClient, address: str) -> None:
    document = client.get(f"{address}.json").get_json()

    assert document["commit"]["commit"] == a_commit(COMMITS - 1).sha
    assert len(document["results"]) == 9
    assert document["environment"]["torch"] == "2.13.0"


def test_an_unknown_run_gets_a_sentence(client: FlaskClient) -> None:
    answer = client.get(f"{P}/run/{'0' * 64}")

    assert answer.status_code == 404
    assert "has no run 000000000000…" in words(answer.text)


def test_links_jobs_by_their_numbers_alone() -> None:
    links = build_forge_links(ForgeTable(repository="https://github.com/acme/model"))

    assert links.job("12", "") == "https://github.com/acme/model/actions/runs/12/attempts/1"
    assert links.job("12/../../evil", "1") == links.job("", "") == ""
    assert build_forge_links(ForgeTable(repository="https://gitlab.com/acme/model")).job("12", "1") == ""
