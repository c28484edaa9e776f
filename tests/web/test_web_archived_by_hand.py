"""Series that somebody archives: they leave overview, counts, lists and incidents, and come back by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import COMMITS, LEVELS, NOW, PROJECT, STEP_TIME, a_run, a_store, fill

from perfci.config import HistoryTable
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.store import Store
from perfci.store.access.audit_log import list_entries
from perfci.store.column_conversions import series_identity
from perfci.store.projects import find_project
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci.verdicts.judging_policy import Policy
from perfci_web import create_app

IDENTITY = series_identity(PROJECT, STEP_TIME)
SERIES = f"{P}/s/train.Step.time_step/cpu_time?p.batch=8&p.dtype='bf16'"


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlaskClient, Store]]:
    store = a_store(tmp_path_factory.mktemp("archived"))
    fill(store)
    app = create_app(store, read_only=False, clock=lambda: NOW)
    yield app.test_client(), store
    app.extensions["perfci"].group_commit.close()
    store.close()


def archive(client: FlaskClient, **form: str) -> tuple[int, str]:
    answer = client.post(f"{P}/settings/archive", data=form)
    return answer.status_code, answer.headers.get("Location", words(answer.text))


def find_incident_series(store: Store) -> set[str]:
    with store.read() as tx:
        evaluation = evaluate_project(tx, PROJECT, Policy(), HistoryTable())
    return {
        change.series.benchmark.name
        for budgeted in evaluation.incidents
        for change in budgeted.incident.members
    }


def test_an_archived_series_leaves_pages_and_incidents_until_it_is_brought_back(
    client: tuple[FlaskClient, Store],
) -> None:
    pages, store = client
    before = pages.get(f"{P}.json").json
    assert "train.Step.time_step" in find_incident_series(store)

    status, address = archive(
        pages, kind="series", name=IDENTITY, reason="replaced by <b>two</b>", page="series"
    )

    assert (status, address.partition("?")[0]) == (303, SERIES.partition("?")[0])
    own = words(read(pages, address))
    assert "by local: replaced by <b>two</b>. New results are stored, but do not bring it back." in own
    assert "<b>two" not in read(pages, address)
    after = pages.get(f"{P}.json").json
    assert after["series"] == before["series"] - 1
    assert after["coverage"]["measured"] == before["coverage"]["measured"] - 1
    assert after["coverage"]["archived"] == 1
    changed = {
        (change["series"]["benchmark"], change["series"]["metric"]) for change in after["largest_changes"]
    }
    assert ("train.Step.time_step", "cpu_time") not in changed
    assert "1 archived: not measured for 90 days, or archived by hand" in words(read(pages, f"{P}/"))
    assert pages.get(f"{P}/benchmarks.json").json["archived"] == 1
    assert "replaced by <b>two</b>." in words(read(pages, f"{P}/benchmarks?show=archived"))

    assert archive(pages, kind="series", name=IDENTITY, undo="1", page="series")[0] == 303
    assert pages.get(f"{P}.json").json == before
    assert "Archived on" not in words(read(pages, address))


def test_a_benchmark_leaves_its_incidents_and_a_new_result_does_not_bring_it_back(
    client: tuple[FlaskClient, Store],
) -> None:
    pages, store = client

    assert archive(
        pages, kind="benchmark", name="train.Step.time_step", reason="retired", page="benchmark"
    ) == (
        303,
        f"{P}/b/train.Step.time_step",
    )
    with store.begin() as tx:
        start_session(tx, PROJECT, "history-2", "history", "spec-3", 7, 1, NOW)
        find_or_add_run(tx, a_run(COMMITS - 1))

    assert "train.Step.time_step" not in find_incident_series(store)
    names = {each["benchmark"] for each in pages.get(f"{P}/benchmarks.json").json["series"]}
    assert names
    assert "train.Step.time_step" not in names
    assert "All series were archived by hand." in words(read(pages, f"{P}/b/train.Step.time_step"))
    # Its results stay: the series and its points are still there.
    assert (
        len(pages.get(f"{SERIES.partition('?')[0]}.json?{SERIES.partition('?')[2]}").json["points"])
        == COMMITS
    )


def test_a_machine_is_archived_and_listed_in_the_settings(client: tuple[FlaskClient, Store]) -> None:
    pages, store = client

    assert archive(pages, kind="machine", name="AMD EPYC 9354, 2 cores, 16 GB", reason="sold")[0] == 303

    settings = pages.get(f"{P}/settings.json").json["archived"]
    assert len(settings) >= len(LEVELS)
    assert {(each["reason"], each["archived_by"]) for each in settings} == {("sold", "local")}
    assert pages.get(f"{P}/benchmarks.json").json["series"] == []
    assert archive(pages, kind="machine", name="AMD EPYC 9354, 2 cores, 16 GB", reason="again")[0] == 409
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        lines = list_entries(tx, project.id, limit=5)
    assert [(line.action, line.subject) for line in lines] == [
        ("series.archive", "machine AMD EPYC 9354, 2 cores, 16 GB")
    ]


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (
            {"kind": "benchmark", "name": "nothing", "reason": "x"},
            f"{PROJECT} has no benchmark nothing; nothing was changed.",
        ),
        (
            {"kind": "benchmark", "name": "train.Step.time_step", "reason": " "},
            "A reason of one line with at most 500 characters is needed: "
            "why should nobody look at it any more?",
        ),
        (
            {"kind": "benchmark", "name": "train.Step.time_step", "undo": "1"},
            "The benchmark train.Step.time_step is not archived.",
        ),
        ({"kind": "galaxy", "name": "x", "reason": "x"}, "Name a benchmark, or a machine as pages show it."),
    ],
)
def test_a_refusal_says_why(form: dict[str, str], sentence: str, client: tuple[FlaskClient, Store]) -> None:
    status, text = archive(client[0], **form)

    assert status == 409
    assert sentence in text
