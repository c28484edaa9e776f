"""The page that tries another threshold on stored histories."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from page_reading import P, read, words

from perfci.model import Role, Stage
from perfci.store import Store
from perfci.store.tables.verdicts import ChangePointRow
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci_web import create_app
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha

SERIES = a_series(metric="step_time")
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


def test_one_class_of_metrics_is_tried_alone(client: FlaskClient) -> None:
    page = words(read(client, f"{DRY_RUN}?bar=90&days=365&metrics=time"))
    fields = client.get(f"{DRY_RUN}.json?bar=90&days=365&metrics=time").get_json()

    assert {change["series"]["unit"] for change in fields["changes"]} == {"seconds"}
    assert fields["metric_class"] == "time"
    names = "backward_time|cpu_step_time|cpu_time|forward_time|step_time|time"
    assert f'[[policy]] match = " · ({names})$" bar = 0.9' in page


@pytest.fixture
def compared(empty_store: Store) -> FlaskClient:
    """A confirmed slowdown of 8 %."""
    noise = (0.0, 0.003, -0.003, 0.002, -0.002, 0.001, -0.001, 0.0, 0.002, -0.002)
    base, head = (
        [a_process(level * (1 + share), pair=pair, role=role) for pair, share in enumerate(noise)]
        for role, level in ((Role.BASE, 1.0), (Role.HEAD, 1.08))
    )
    verdict = interim_analysis(SERIES, a_sha(1), a_sha(2), base, head, stage=Stage.CONFIRMATION).verdict
    with empty_store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(1), a_commit(2)])
        start_session(tx, PROJECT, "pairs", "confirm", "spec", 7, 0, NOON)
        for number, side in ((1, base), (2, head)):
            run = a_run(a_result(SERIES, *side), commit=a_commit(number), session="pairs")
            find_or_add_run(tx, run)
        add_verdicts(tx, PROJECT, "pairs", [verdict], NOON)
    return create_app(empty_store, clock=lambda: NOON).test_client()


def test_says_which_verdicts_of_comparisons_would_be_others(compared: FlaskClient) -> None:
    address = "/acme:model/settings/threshold"
    query = "bar=60&days=30&min_pairs=6&max_pairs=30&strict=1"
    page = words(read(compared, f"{address}?{query}"))
    fields = compared.get(f"{address}.json?{query}").get_json()

    assert (fields["comparisons"], fields["verdicts"], fields["comparisons_left_out"]) == (1, 1, 0)
    [verdict] = fields["different_verdicts"]
    assert (verdict["now"], verdict["tried"]) == ("regression", "unchanged")
    assert "1 of 1 verdict of 1 comparison would be another." in page
    assert "[judge] bar = 0.6 strict = true min_pairs = 6 max_pairs = 30" in page
    assert "The confidence of intervals (95 %) and the rate of false discoveries (1 %)" in page
    same = words(read(compared, f"{address}?bar=5&days=30"))
    assert "None of 1 verdict of 1 comparison would be another." in same


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("bar=0", "A threshold is a percentage from 0.1 to 100, such as 4; found '0'."),
        ("bar=nan", "found 'nan'."),
        ("bar=<script>", "found '<script>'."),
        ("bar=4&days=0", "A number of days from 1 to 365 was expected, not '0'."),
        ("bar=4&days=00000000199999999999", "A number of days from 1 to 365 was expected"),
        ("bar=4&days=99999999999", "A number of days from 1 to 365 was expected"),
        ("bar=4&metrics=<script>", "A class of metrics is one of "),
        ("bar=4&metrics=sla", "has no judged series of the class sla."),
        ("bar=4&min_pairs=4", "A number of pairs from 5 to 200 was expected, not '4'."),
        ("bar=4&min_pairs=30&max_pairs=20", "The least number of pairs, 30, is more than the most, 20."),
    ],
)
def test_says_what_a_threshold_is(client: FlaskClient, query: str, sentence: str) -> None:
    answer = client.get(f"{DRY_RUN}?{query}")

    assert answer.status_code == 409
    assert sentence in words(answer.text)
    assert client.get(f"{DRY_RUN}.json?{query}").status_code == 400
    assert "<script>'" not in answer.text
