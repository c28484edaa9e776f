"""What Prometheus and Grafana read: the text format by Prometheus' own parser, rows without nesting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from api_client import NOW, Api
from prometheus_client.parser import text_string_to_metric_families

from perfci.config import Settings
from perfci.model import Status
from perfci.net.api_schemas.monitoring import LevelsQuery
from perfci.net.url_segments import encode_segment
from perfci.store import Store, open_store
from perfci.store.projects import create_project
from perfci_web import create_app
from perfci_web.api.operations.monitoring import OPERATIONS
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series

PAGE = (Path(__file__).parents[2] / "docs" / "other-dashboards.md").read_text()
PROMETHEUS = f"/projects/{encode_segment(PROJECT)}/prometheus"
POINTS = f"/projects/{encode_segment(PROJECT)}/points"
HOSTILE = 'a"b\\c{d="e"}, é'


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two series over three commits; the second failed at the newest."""
    folder = tmp_path_factory.mktemp("monitoring")
    with closing(open_store(f"sqlite:///{folder}/perfci.db", create=True)) as store:
        app = create_app(store, read_only=False, clock=lambda: NOW)
        api = Api(app)
        for number in (1, 2, 3):
            upload_both(api, number)
        yield api
        app.extensions["perfci"].group_commit.close()


def upload_both(api: Api, number: int) -> None:
    failed = {"status": Status.FAILED, "processes": (), "reason": "RuntimeError"} if number == 3 else {}
    results = (
        a_result(a_series("suite.time_a"), a_process(float(number))),
        a_result(a_series(HOSTILE), a_process(2.0), **failed),
    )
    assert api.upload(a_run(*results, commit=a_commit(number), session=f"s{number}")).status_code == 201


def scrape(api: Api, query: str = "") -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = api.get(f"{PROMETHEUS}{query}")
    assert answer.status_code == 200, answer.text
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    assert all(family.documentation and family.type == "gauge" for family in families)
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in families}


def test_prometheus_reads_the_newest_level_of_each_series(filled: Api) -> None:
    metrics = scrape(filled)

    [(labels, level)] = metrics["perfci_level"]
    assert (labels["project"], labels["benchmark"], labels["unit"], level) == (
        PROJECT,
        "suite.time_a",
        "seconds",
        3.0,
    )
    assert metrics["perfci_level_committed_timestamp_seconds"] == [
        ({"project": PROJECT, "series": labels["series"]}, a_commit(3).committed_at.timestamp())
    ]
    assert metrics["perfci_open_incidents"] == [({"project": PROJECT}, 0.0)]
    assert metrics["perfci_levels_truncated"] == [({"project": PROJECT}, 0.0)]


def test_the_level_is_that_of_the_points_of_its_series(api: Api) -> None:
    upload_both(api, 3)
    again = a_run(a_result(a_series("suite.time_a"), a_process(5.0)), commit=a_commit(3), session="again")
    assert api.upload(again).status_code == 201

    [(labels, level)] = scrape(api)["perfci_level"]

    points = api.get(f"/projects/{encode_segment(PROJECT)}/series/{labels['series']}/points").json
    assert level == points["points"][-1]["value"] == 4.0


def test_a_hostile_name_stays_one_label(api: Api) -> None:
    upload_both(api, 2)

    labels = [labels for labels, _ in scrape(api)["perfci_level"]]

    assert {each["benchmark"] for each in labels} == {"suite.time_a", HOSTILE}


@pytest.mark.parametrize(
    ("query", "benchmarks", "truncated"),
    [("?benchmark=suite.time_a", 1, 0), ("?metric=nothing", 0, 0), ("?limit=1&metric=time", 0, 1)],
)
def test_filters_and_limits_what_is_scraped(filled: Api, query: str, benchmarks: int, truncated: int) -> None:
    metrics = scrape(filled, query)

    assert len(metrics.get("perfci_level", [])) == benchmarks
    assert metrics["perfci_levels_truncated"][0][1] == truncated


def test_grafana_gets_rows_without_nesting(filled: Api) -> None:
    answer = filled.get(f"{POINTS}?since=2026-01-01T00:00:00.000Z&metric=time").json

    assert answer["complete"]
    assert len(answer["items"]) == 5
    assert [row["committed_at"] for row in answer["items"]] == sorted(
        row["committed_at"] for row in answer["items"]
    )
    assert {type(value) for row in answer["items"] for value in row.values()} <= {str, float}
    assert len({row["label"] for row in answer["items"]}) == 2


@pytest.mark.parametrize(
    ("query", "rows", "complete"),
    [
        ("?max_points=1", 2, False),
        ("?max_series=1", 2, False),
        ("?benchmark=suite.time_a", 3, True),
        ("?until=2001-01-01T00:00:00Z", 0, True),
    ],
)
def test_says_when_rows_were_left_out(filled: Api, query: str, rows: int, complete: bool) -> None:
    answer = filled.get(f"{POINTS}{query}").json

    assert (len(answer["items"]), answer["complete"]) == (rows, complete)


def test_prometheus_reads_where_its_documented_configuration_says() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    [job] = pytest.importorskip("yaml").safe_load(text)["scrape_configs"]
    [operation] = [each for each in OPERATIONS if each.name == "scrape_levels"]

    assert job["metrics_path"] == operation.url_path.replace("<project:project>", "acme:model")
    assert LevelsQuery.model_validate({name: value for name, [value] in job["params"].items()}).limit == 500


def test_grafana_reads_at_the_documented_address(filled: Api) -> None:
    (address,) = re.findall(r"^https://perf\.example\.com/api/v1(.*)$", PAGE, re.MULTILINE)
    for variable, moment in {"${__from:date:iso}": "2026-01-01", "${__to:date:iso}": "2026-12-31"}.items():
        address = address.replace(variable, f"{moment}T00:00:00.000Z")

    items = filled.get(address.replace("train.Step.time_step", "suite.time_a")).json["items"]

    assert [(row["committed_at"][:10], row["value"]) for row in items] == [
        ("2026-03-01", 1.0),
        ("2026-03-01", 2.0),
        ("2026-03-01", 3.0),
    ]
    assert all(f"`{name}`" in PAGE for name in items[0])


def test_a_private_project_needs_a_token(store: Store) -> None:
    with store.begin() as tx:
        create_project(tx, PROJECT, "private", NOON)
    app = create_app(store, settings=Settings.model_validate({"access": {"mode": "open"}}))

    status_codes = [app.test_client().get(f"/api/v1{path}").status_code for path in (PROMETHEUS, POINTS)]

    assert status_codes == [404, 404]
