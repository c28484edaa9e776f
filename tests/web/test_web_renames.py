"""The page of renames counts, renames and takes back; old addresses lead to the new ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from page_reading import read, words
from web_builders import NOW

from perfci.formats import run_document
from perfci.history.result_summaries import summarize_processes
from perfci.model import Machine
from perfci.net.url_segments import encode_segment
from perfci.store import Store
from perfci_web import create_app
from tests.support.builders import a_commit, a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

P = "/acme:model"
OLD = "suite.time_<old>"
SERIES = a_series(OLD, machine=Machine(name="asv-box"))
FORM = {"kind": "benchmark", "old": OLD, "new": "suite.time_new", "defaults": "dtype='fp32'"}
ADDRESS = f"{P}/s/{encode_segment(OLD)}/time"


@pytest.fixture
def client(empty_store: Store) -> Iterator[FlaskClient]:
    with empty_store.begin() as tx:
        for number in range(1, 4):
            run = a_run(
                a_result(SERIES, a_process(1.0)),
                commit=a_commit(number),
                session=f"s{number}",
                machine=SERIES.machine,
            )
            key = run_document.idempotency_key(run)
            ingest_run(tx, run, key, "body", kind="history", summarize=summarize_processes)
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def test_counts_before_it_renames_and_old_addresses_lead_to_the_new_one(client: FlaskClient) -> None:
    old_address = client.get(ADDRESS).headers["Location"]
    counted = words(client.post(f"{P}/renames", data=FORM).text)
    renamed = client.post(f"{P}/renames", data=FORM | {"confirmed": "1"})
    answer = client.get(old_address)

    assert f"{OLD} would go on as suite.time_new: 3 results in 1 series." in counted
    assert (renamed.status_code, renamed.headers["Location"]) == (303, f"{P}/renames")
    assert answer.status_code == 301
    assert "suite.time_new" in read(client, answer.headers["Location"])
    assert client.get(f"{P}/b/{encode_segment(OLD)}").headers["Location"].endswith("/b/suite.time_new")
    assert (
        client.get(old_address.replace("/time?", "/time.csv?"))
        .headers["Location"]
        .partition("?")[0]
        .endswith("/suite.time_new/time.csv")
    )
    page = read(client, f"{P}/renames")
    assert f"{OLD} benchmark suite.time_new dtype='fp32' 1" in words(page)
    assert OLD not in page


def test_an_address_with_the_old_name_of_a_machine_leads_to_the_new_one(client: FlaskClient) -> None:
    old_address = client.get(ADDRESS).headers["Location"]
    form = {"kind": "machine", "old": "asv-box", "new": "lab", "confirmed": "1"}

    client.post(f"{P}/renames", data=form)
    answer = client.get(old_address)
    client.post(f"{P}/renames", data=form | {"old": "lab", "new": "asv-box"})

    assert (answer.status_code, answer.headers["Location"]) == (301, old_address.replace("asv-box", "lab"))
    assert client.get(old_address).status_code == 200


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"old": "suite.time_odl"}, 409, "has no results of a benchmark suite.time_odl"),
        ({"defaults": "dtype"}, 400, "defaults as NAME=VALUE"),
        ({"new": " "}, 400, "Give the old and the new name"),
    ],
)
def test_says_what_is_wrong(client: FlaskClient, change: dict[str, str], status: int, sentence: str) -> None:
    answer = client.post(f"{P}/renames", data=FORM | change)

    assert (answer.status_code, sentence in words(answer.text)) == (status, True)
