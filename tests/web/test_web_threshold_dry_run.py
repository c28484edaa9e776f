"""The page that tries another threshold on stored histories."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from page_reading import P, read, words

from perfci.store import Store
from perfci.store.tables.verdicts import ChangePointRow

DRY_RUN = f"{P}/settings/threshold"


def test_a_higher_threshold_flags_fewer_changes(client: FlaskClient, store: Store) -> None:
    def count_stored() -> int:
        with store.read() as tx:
            return tx.scalar(sa.select(sa.func.count()).select_from(ChangePointRow)) or 0

    before = count_stored()

    page = read(client, f"{DRY_RUN}?bar=90&days=365")
    fields = client.get(f"{DRY_RUN}.json?bar=90&days=365").get_json()

    removed = [change for change in fields["changes"] if change["outcome"] == "removed"]
    assert len(removed) > 1
    assert f"0 more and {len(removed)} fewer changes at 90 % than at 5 %." in words(page)
    assert "added" not in {change["outcome"] for change in fields["changes"]}
    assert all(change["relative_change"] < 0.9 for change in removed)
    assert "Flagged no more" in words(page)
    assert "[judge] bar = 0.9" in words(page)
    assert count_stored() == before


def test_the_threshold_in_force_changes_nothing(client: FlaskClient) -> None:
    assert "No series would be judged otherwise." in words(read(client, f"{DRY_RUN}?bar=5&days=30"))


def test_a_lower_threshold_flags_what_the_one_in_force_does(client: FlaskClient) -> None:
    fields = client.get(f"{DRY_RUN}.json?bar=4&days=365").get_json()

    assert [change for change in fields["changes"] if change["outcome"] == "removed"] == []
    assert [change for change in fields["changes"] if change["outcome"] == "kept"] != []


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("bar=0", "A threshold is a percentage from 0.1 to 100, such as 4; found '0'."),
        ("bar=nan", "found 'nan'."),
        ("bar=<script>", "found '<script>'."),
        ("bar=4&days=0", "A number of days from 1 to 365 was expected, not '0'."),
        ("bar=4&days=00000000199999999999", "A number of days from 1 to 365 was expected"),
        ("bar=4&days=99999999999", "A number of days from 1 to 365 was expected"),
    ],
)
def test_says_what_a_threshold_is(client: FlaskClient, query: str, sentence: str) -> None:
    answer = client.get(f"{DRY_RUN}?{query}")

    assert answer.status_code == 409
    assert sentence in words(answer.text)
    assert client.get(f"{DRY_RUN}.json?{query}").status_code == 400
    assert "<script>'" not in answer.text
