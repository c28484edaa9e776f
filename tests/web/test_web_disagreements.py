"""The page of disagreements: better at one place, worse at another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape

import pytest
from flask.testing import FlaskClient
from page_reading import words
from web_builders import NOW

from perfci.model import IncidentKind, Machine
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit, a_series, a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

P = "/acme:model"
H100, HOSTILE = Machine(name="h100-lab"), Machine(name="a100 <script>alert(1)</script>")


@pytest.fixture
def client(empty_store: Store) -> Iterator[FlaskClient]:
    """``train`` got worse on one machine and better on the other; ``serve`` worse on both."""
    with empty_store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(1, 61)])
    train = [a_series("train", machine=machine) for machine in (H100, HOSTILE)]
    serve = [a_series("serve", machine=machine) for machine in (H100, HOSTILE)]
    gain = a_budgeted_incident(
        "b1", a_move(train[1], at=40, rel=-0.2), good=39, bad=40, kind=IncidentKind.IMPROVEMENT
    )
    loss = a_budgeted_incident("a1", a_move(train[0]), *(a_move(series, rel=0.05) for series in serve))
    reconcile(empty_store, NOW - timedelta(days=1), gain, loss)
    app = create_app(empty_store, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def rows(page: str) -> list[str]:
    body = page.partition("</thead>")[2].partition("</table>")[0]
    plain = [re.sub(r"<(?!wbr)[^>]+>", " ", row).replace("<wbr>", "") for row in body.split("</tr>")]
    return [" ".join(unescape(line).split()) for line in plain if line.strip()]


def test_lists_what_moved_in_opposite_directions(client: FlaskClient) -> None:
    page = client.get(f"{P}/disagreements?since=all").text

    assert "1 benchmark got better at one place and worse at another so far." in words(page)
    assert rows(page) == [
        "train time",
        "h100-lab ▲ +20.0 % worse 1.000 s → 1.200 s 0000000 Change number 12 2 Mar 2026",
        "a100 <script>alert(1)</script> ▼ −20.0 % better 1.000 s → 0.8000 s "
        "0000002 Change number 40 3 Mar 2026",
    ]
    assert "<script>alert" not in page


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "in the last 7 days."),
        ("since=all&machine=h100-lab", "so far."),
        (f"after={a_sha(30)}", f"since {a_sha(30)[:10]}."),
    ],
)
def test_finds_none_where_only_one_place_moved(client: FlaskClient, query: str, sentence: str) -> None:
    text = words(client.get(f"{P}/disagreements?{query}").text)

    assert f"No benchmark moved in opposite directions at two places {sentence}" in text


def test_looks_at_what_came_after_a_commit(client: FlaskClient) -> None:
    items = client.get(f"{P}/disagreements.json?after={a_sha(5)}").get_json()["items"]

    assert [[move["worse"] for move in each["moves"]] for each in items] == [[True, False]]
    assert client.get(f"{P}/disagreements?after=nothing").status_code == 404
