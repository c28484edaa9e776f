"""The JSON, CSV, SVG and Markdown of a page hold what the page shows."""

import csv
import io
from xml.etree import ElementTree

from flask.testing import FlaskClient
from page_reading import BF16, COMPARE, SERIES, P, read, words
from web_builders import COMMITS, EMULATED, HOSTILE_SUBJECT, STEP

from perfci.config import Settings
from perfci.store import Store
from perfci_web import create_app


def test_serves_a_series_as_json(client: FlaskClient) -> None:
    document = client.get(f"{SERIES}.json{BF16}").get_json()

    assert document["sentence"] in words(read(client, f"{SERIES}{BF16}"))
    assert len(document["points"]) == COMMITS
    assert document["points"][STEP + 1]["subject"] == HOSTILE_SUBJECT
    assert [change["state"] for change in document["changes"]] == ["confirmed"]


def test_merges_points_for_a_chart_on_request(client: FlaskClient) -> None:
    document = client.get(f"{SERIES}.json{BF16}&max_points=10").get_json()

    assert len(document["points"]) < 20
    assert sum(point["merged"] for point in document["points"]) == COMMITS


def test_serves_a_series_as_exact_csv(client: FlaskClient) -> None:
    answer = client.get(f"{SERIES}.csv{BF16}")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    document = client.get(f"{SERIES}.json{BF16}").get_json()

    assert answer.content_type.startswith("text/csv")
    assert [float(row["value"]) for row in rows] == [point["value"] for point in document["points"]]


def test_serves_a_standalone_svg(client: FlaskClient) -> None:
    answer = client.get(f"{SERIES}.svg{BF16}")

    assert answer.content_type.startswith("image/svg+xml")
    assert "prefers-color-scheme" in answer.text
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    ElementTree.fromstring(answer.text)


def test_serves_the_same_series_as_json_and_csv(client: FlaskClient) -> None:
    document = client.get(f"{P}/benchmarks.json?q=train").get_json()
    rows = list(csv.DictReader(io.StringIO(client.get(f"{P}/benchmarks.csv?q=train").text)))

    assert document["total"] == len(document["series"]) == len(rows) == 10
    assert {row["parameters"] for row in rows} == {
        "",
        "batch=8 dtype='bf16'",
        "batch=8 dtype='fp32'",
        "precision='bf16' batch=4",
    }


def test_serves_the_same_verdicts_as_json_and_markdown(client: FlaskClient) -> None:
    document = client.get(f"{COMPARE}.json").get_json()
    markdown = client.get(f"{COMPARE}.md").text

    assert document["counts"] == dict.fromkeys(
        ("failed", "regression", "inconclusive", "not_comparable", "missing", "improvement"), 1
    ) | {"unchanged": 2}
    assert [reading["series"]["metric"] for reading in document["informational"]] == [
        "data_stall",
        "step_time",
        "time",
    ]
    assert {reason["reason"]: len(reason["series"]) for reason in document["unavailable"]}[EMULATED] == 3
    assert "### perfci: 1 failed, 1 regression, " in markdown
    assert f"[full report](http://localhost{COMPARE})" in markdown


def test_names_the_bars_of_the_project_in_markdown(store: Store) -> None:
    wider = create_app(store, settings=Settings.model_validate({"judge": {"bar": 0.2}})).test_client()

    assert "time 20.0 %" in wider.get(f"{COMPARE}.md").text
