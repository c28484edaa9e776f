"""The page of one benchmark in all its places: small charts, what they say together, and their twins."""

import csv
import io
import re
from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from page_reading import HERE, P, read, words
from web_builders import NOW, PROJECT, a_run

from perfci.model import Machine
from perfci.store import Store
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app

STEP_PAGE = f"{P}/b/train.Step.time_step"
MODELS = f"{P}/b/models.Tiny.measure_training"


def test_a_benchmark_is_drawn_in_each_place_before_its_table(client: FlaskClient) -> None:
    html = read(client, STEP_PAGE)

    assert html.count('class="pc-trend"') == 1
    assert "against its first level" in words(html)
    assert html.index('class="facets"') < html.index("<table")
    assert re.search(r"It (got worse|did not move) in the last 40 commits", words(html))


def test_parameters_and_metrics_are_links(client: FlaskClient) -> None:
    html = read(client, f"{STEP_PAGE}?metric=cpu_time&p.batch=8&p.dtype='bf16'")
    links = re.findall(r'aria-label="Parameters">(.*?)</nav>', html)

    assert re.findall(r">([^<]+)</a>", links[0]) == [
        "batch = 8, dtype = &#39;bf16&#39;",
        "batch = 8, dtype = &#39;fp32&#39;",
    ]
    assert 'aria-current="page">batch = 8, dtype = &#39;bf16&#39;' in links[0]


def test_a_judged_metric_comes_first_and_its_other_clock_is_a_toggle(client: FlaskClient) -> None:
    html = read(client, MODELS)
    tabs = re.search(r'aria-label="Metrics">(.*?)</nav>', html)

    assert tabs is not None
    assert re.findall(r">([^<]+)</a>", tabs[1])[0] == "cpu_step_time"
    assert "Wall time of the same processes" in tabs[1]
    assert ">step_time<" not in tabs[1]


def test_a_metric_that_is_not_judged_claims_no_agreement(client: FlaskClient) -> None:
    text = words(read(client, f"{MODELS}?metric=data_stall"))

    assert "Shown, not judged: no change of level is looked for." in text


def test_the_json_and_the_csv_have_the_places(client: FlaskClient) -> None:
    query = "?metric=cpu_time&p.batch=8&p.dtype='bf16'"
    document = client.get(f"{STEP_PAGE}.json{query}").json
    rows = list(csv.DictReader(io.StringIO(client.get(f"{STEP_PAGE}.csv{query}").text)))

    assert document["sentence"].endswith("in the last 40 commits: +18.3 %")
    assert [place["recent_move"] for place in document["places"]] == ["worse"]
    assert float(rows[0]["level"]) == document["places"][0]["level"]
    assert client.get(f"{P}/b/no.such.json").status_code == 404


@pytest.fixture
def many_places(empty_store: Store) -> FlaskClient:
    """One commit measured on fourteen machines, one with a hostile name."""
    names = ["<b>bold", *(f"box-{number:02d}" for number in range(13))]
    with empty_store.begin() as tx:
        start_session(tx, PROJECT, "history-1", "history", "spec", 7, 1, NOW)
        for name in names:
            machine = Machine(name=name)
            results = tuple(
                replace(result, series=replace(result.series, machine=machine)) for result in a_run(1).results
            )
            find_or_add_run(tx, replace(a_run(1), machine=machine, results=results))
    return create_app(empty_store).test_client()


def test_a_page_has_twelve_charts_and_a_link_to_the_rest(many_places: FlaskClient) -> None:
    first, rest = read(many_places, MODELS), read(many_places, f"{MODELS}?charts=2")

    assert first.count('<div class="facet">') == 12
    assert "2 more charts" in words(first)
    assert rest.count('<div class="facet">') == 2
    assert "<b>bold" not in first + rest
    assert len(many_places.get(f"{MODELS}.json").json["places"]) == 14


def test_ticked_series_make_a_graph_and_a_csv(client: FlaskClient) -> None:
    html = read(client, f"{P}/benchmarks?q=time_step+cpu_time")
    keys = re.findall(r'name="s" value="([^"]+)"', html)

    assert len(keys) == 2
    assert keys[0] == f"train.Step.time_step/cpu_time?{HERE}&amp;p.batch=8&amp;p.dtype=%27bf16%27"
    query = {"s": [key.replace("&amp;", "&") for key in keys]}
    assert client.get(f"{P}/graph", query_string=query).text.count("line-key pc-line-") == 2
    rows = list(csv.DictReader(io.StringIO(client.get(f"{P}/graph.csv", query_string=query).text)))
    assert {row["parameters"] for row in rows} == {"batch=8 dtype='bf16'", "batch=8 dtype='fp32'"}
    assert len(rows) == 80
