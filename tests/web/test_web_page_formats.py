"""Every page of a project is JSON and every list CSV, as its foot links them and the documentation says."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from every_format_store import (
    FORMULA,
    PULL,
    PULL_HEAD,
    list_page_addresses,
    open_every_format_store,
)
from flask import Flask
from flask.testing import FlaskClient
from page_reading import P
from web_builders import NOW, a_commit
from werkzeug.routing import Rule

from perfci.report.escaping import escape_csv_cell
from perfci.store import Store
from perfci_web import create_app
from perfci_web.view_parts.csv_response import SERIES_COLUMNS
from perfci_web.view_parts.page_formats import FORMAT_LABELS, find_format_extensions

DOCUMENT = Path(__file__).parents[2] / "docs" / "page-formats.md"

NO_PAGE = {
    "series.series_figure": "the drawing of a chart, for its script",
    "graphs.graph_figure": "the drawing of a chart, for its script",
    "series.series_panel": "a part of the page of a series, for its script",
    "changes.old_changes_page": "redirects to where the page is now",
    "noise.old_noise_page": "redirects to where the page is now",
    "weeks.current_week": "redirects to the week of today",
    "pull_requests.pull_request_page": "redirects to its comparison, as JSON and CSV too",
}
"""Addresses below a project that show no page of their own, with the reason."""

NO_LIST = {
    "overview.overview_page": "the heads of several lists, which have CSV themselves",
    "settings.settings_page": "several short tables of different kinds",
    "weeks.week_page": "a report; its changes and incidents have CSV",
}
"""Pages that are no list."""


@pytest.fixture(scope="module")
def every_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    yield from open_every_format_store(tmp_path_factory.mktemp("formats"))


@pytest.fixture(scope="module")
def app(every_store: Store) -> Iterator[Flask]:
    app = create_app(every_store, read_only=False, clock=lambda: NOW)
    yield app
    app.extensions["perfci"].group_commit.close()


@pytest.fixture(scope="module")
def admin(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture(scope="module")
def addresses(every_store: Store) -> dict[str, str]:
    return list_page_addresses(every_store)


def page_rules(app: Flask) -> dict[str, Rule]:
    """The rules below a project that answer with a page, by endpoint."""
    return {
        rule.endpoint: rule
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/<project:project>/")
        and "GET" in (rule.methods or ())
        and not rule.rule.endswith(tuple(f".{suffix}" for suffix in FORMAT_LABELS))
        and rule.endpoint not in NO_PAGE
    }


def test_every_page_writes_percentages_and_dates_in_one_way(
    admin: FlaskClient, addresses: dict[str, str]
) -> None:
    texts = {address: read_page_text(admin.get(address).text) for address in addresses.values()}

    wrong = {
        address: match
        for address, text in texts.items()
        if (match := re.findall(r"\S*\d%(?!\w)|(?<!\w)-\d[\d.]* %|\d Sept\b", text))
    }

    assert sum(text.count(" %") for text in texts.values()) > 50
    assert wrong == {}


def read_page_text(html: str) -> str:
    """The text of a page without its addresses, styles and commands."""
    return unescape(re.sub(r"<(style|script|code|pre)\b.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL))


def test_every_page_of_a_project_has_an_address_here(app: Flask, addresses: dict[str, str]) -> None:
    assert set(page_rules(app)) == set(addresses)


def test_every_page_is_json_and_every_list_csv(app: Flask) -> None:
    rules = list(app.url_map.iter_rules())
    formats = {
        endpoint: set(find_format_extensions(rule, rules)) for endpoint, rule in page_rules(app).items()
    }

    assert {endpoint for endpoint, extensions in formats.items() if "json" not in extensions} == set()
    assert {endpoint for endpoint, extensions in formats.items() if "csv" not in extensions} == set(NO_LIST)


def test_the_foot_of_a_page_links_every_format(
    app: Flask, admin: FlaskClient, addresses: dict[str, str]
) -> None:
    rules = list(app.url_map.iter_rules())
    for endpoint, rule in page_rules(app).items():
        path, _, query = addresses[endpoint].partition("?")
        expected = [
            f"{path.removesuffix('/')}.{extension}{f'?{query}' if query else ''}"
            for extension in find_format_extensions(rule, rules)
        ]

        assert linked_formats(admin, addresses[endpoint])[: len(expected)] == expected


def test_json_has_the_documented_fields(app: Flask, admin: FlaskClient, addresses: dict[str, str]) -> None:
    documented = read_document(app)
    fields = {endpoint: list(read_json(admin, address)) for endpoint, address in addresses.items()}

    assert fields == {endpoint: json_fields for endpoint, (json_fields, _) in documented.items()}


def test_lists_in_json_have_rows(admin: FlaskClient, addresses: dict[str, str]) -> None:
    """So that what serializes a row has run, here and in the tests of CSV."""
    empty = {
        endpoint
        for endpoint, address in addresses.items()
        if not any(isinstance(value, list | dict) and value for value in read_json(admin, address).values())
    }

    assert empty == set()


def test_csv_has_the_documented_columns_and_a_row(
    app: Flask, admin: FlaskClient, addresses: dict[str, str]
) -> None:
    documented = read_document(app)
    for endpoint in addresses.keys() - NO_LIST:
        columns, rows = read_csv(admin, addresses[endpoint])

        assert (endpoint, columns) == (endpoint, documented[endpoint][1])
        assert rows, endpoint
        assert {len(row) for row in rows} == {len(columns)}


def test_no_cell_of_a_csv_is_a_formula(admin: FlaskClient, addresses: dict[str, str]) -> None:
    cells = {
        cell
        for endpoint in addresses.keys() - NO_LIST
        for row in read_csv(admin, addresses[endpoint])[1]
        for cell in row
    }

    assert escape_csv_cell(FORMULA) in cells
    assert {cell for cell in cells if is_formula(cell)} == set()


def test_a_pull_request_leads_to_the_same_format_of_its_comparison(admin: FlaskClient) -> None:
    comparison = f"{P}/compare/{a_commit(PULL_HEAD - 1).sha}...pr:{PULL}"

    for ending in ("", ".json", ".csv"):
        assert admin.get(f"{P}/pr/{PULL}{ending}").headers["Location"] == f"{comparison}{ending}"


def test_a_search_is_json_even_where_its_page_redirects(admin: FlaskClient) -> None:
    assert admin.get(f"{P}/search?q=%231").status_code == 302
    [item] = admin.get(f"{P}/search.json?q=%231").get_json()["results"]
    assert (item["kind"], item["name"], item["address"]) == ("incident", "#1", f"{P}/incidents/1")


def test_settings_tell_a_reader_nothing_of_tokens(every_store: Store, admin: FlaskClient) -> None:
    reader = create_app(every_store, clock=lambda: NOW).test_client()
    everything, shown = (client.get(f"{P}/settings.json").get_json() for client in (admin, reader))

    assert everything["destinations"] == [{"name": "chat", "kind": "slack", "enabled": True}]
    assert set(everything) - set(shown) == {"members", "tokens", "destinations"}


def test_an_incident_as_json_has_the_evidence_of_its_page(
    admin: FlaskClient, addresses: dict[str, str]
) -> None:
    address = addresses["incidents.incident_page"]
    page = unescape(admin.get(address).get_data(as_text=True))
    evidence = read_json(admin, address)["evidence"]

    assert f"<h2>Is it the code? {evidence['sentence']}.</h2>" in page
    assert (
        re.findall(r"<li>(.*?)\.</li>", page[page.index('<ul class="evidence">') :])[: len(evidence["facts"])]
        == (evidence["facts"])
    )
    assert set(evidence["reruns"]) == {"examined", "confirmed", "refuted", "pairs"}
    assert all(place["moved"] <= place["measured"] for place in evidence["places"])


def linked_formats(client: FlaskClient, address: str) -> list[str]:
    html = client.get(address).get_data(as_text=True)
    foot = html.rpartition("<footer")[2]
    return [unescape(link) for link in re.findall(r'href="([^"]+)"', foot)]


def read_json(client: FlaskClient, address: str) -> dict[str, Any]:
    answer = client.get(with_ending(address, "json"))
    assert (address, answer.status_code, answer.mimetype) == (address, 200, "application/json")
    fields = answer.get_json()
    assert isinstance(fields, dict)
    return fields


def read_csv(client: FlaskClient, address: str) -> tuple[list[str], list[list[str]]]:
    answer = client.get(with_ending(address, "csv"))
    assert (address, answer.status_code, answer.mimetype) == (address, 200, "text/csv")
    columns, *rows = csv.reader(io.StringIO(answer.text))
    return columns, rows


def with_ending(address: str, extension: str) -> str:
    path, mark, query = address.partition("?")
    return f"{path.removesuffix('/')}.{extension}{mark}{query}"


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet would evaluate a cell; a negative number is none."""
    return bool(re.match(r"[=+@\t\r-]", cell)) and not re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", cell)


def read_document(app: Flask) -> dict[str, tuple[list[str], list[str]]]:
    """The fields of the JSON and the columns of the CSV of each page, as the document has them."""
    text = DOCUMENT.read_text().replace("*series*, ", "".join(f"`{name}` " for name in SERIES_COLUMNS))
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    names = {address: [re.findall(r"`([^`]+)`", cell) for cell in cells] for address, *cells in rows}
    rules = {format_rule(rule): endpoint for endpoint, rule in page_rules(app).items()}
    return {rules[address]: (fields, columns) for address, (fields, columns) in names.items()}


def format_rule(rule: Rule) -> str:
    """The address of a page as the document writes it: ``/PROJECT/run/KEY``."""
    return re.sub(r"<(?:[^:<>]*:)?(\w+)>", lambda match: match[1].upper(), rule.rule)
