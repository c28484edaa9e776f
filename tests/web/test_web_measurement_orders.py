"""The button beside a candidate change orders fresh pairs of it; the page of orders shows their end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import FASTER, NOW, SUSPECT, a_commit, a_store, fill

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.service.audit_context import AuditContext
from perfci.service.orders.bench_expression import build_bench_expression
from perfci.service.orders.carry_out_orders import OrderResult, claim_order, finish_order, heartbeat_order
from perfci.service.orders.choose_engine import choose_order_engine, require_order_engine
from perfci.service.orders.place_orders import place_order
from perfci.service.orders.serve_workers import finish_order_of_worker
from perfci.store import Store
from perfci.store.access.github_bindings import BoundRepository, bind_repository
from perfci.store.jobs.measurement_orders import MeasurementOrder, OrderContent, list_orders
from perfci.store.projects import create_project, find_project
from perfci_web import create_app
from tests.support.builders import a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

CANDIDATE = f"{P}/s/train.Step.peakmem_step/peak_memory"
CONFIRMED = f"{P}/s/serve.Generate.time_token/cpu_time"


@pytest.fixture(scope="module")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = a_store(tmp_path_factory.mktemp("orders"))
    fill(store)
    yield store
    store.close()


@pytest.fixture(scope="module")
def writer(full_store: Store) -> Iterator[FlaskClient]:
    app = create_app(full_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def find_order_forms(page: str) -> list[dict[str, str]]:
    """The hidden fields of each form with the button."""
    forms = re.findall(r'<form[^>]*action="[^"]*/orders">(.*?)</form>', page, re.DOTALL)
    return [dict(re.findall(r'name="([a-z]+)" value="([^"]*)"', form)) for form in forms]


def load_orders(store: Store, slug: str) -> list[MeasurementOrder]:
    with store.read() as tx:
        project = find_project(tx, slug)
        assert project is not None
        return list_orders(tx, project.id)


def test_orders_pairs_of_a_candidate_change(writer: FlaskClient, full_store: Store) -> None:
    [form] = find_order_forms(read(writer, CANDIDATE))

    answers = [writer.post(f"{P}/orders", data=form) for _ in range(2)]

    assert [(answer.status_code, answer.headers["Location"]) for answer in answers] == [
        (303, f"{P}/orders")
    ] * 2
    [order] = load_orders(full_store, "acme/tiny-lm")
    bench = r"^train\.Step\.peakmem_step$"
    commits = form["base"], a_commit(SUSPECT).sha
    assert order.content == OrderContent("compare", *commits, bench)
    assert [(request.source, request.series) for request in order.requests] == [("page", form["series"])] * 2
    page = words(read(writer, f"{P}/orders"))
    assert "1 order is open." in page
    assert f"{commits[0][:7]} → {commits[1][:7]}{bench}" in page


def test_offers_no_pairs_of_a_confirmed_change_nor_to_readers(writer: FlaskClient, full_store: Store) -> None:
    reader = create_app(full_store, clock=lambda: NOW).test_client()

    assert find_order_forms(read(writer, CONFIRMED)) == []
    assert a_commit(FASTER).sha[:7] in read(writer, CONFIRMED)
    assert find_order_forms(read(reader, CANDIDATE)) == []
    assert "/cancel" not in read(reader, f"{P}/orders")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"head": "main"}, "'main' is not the full id of a commit (40 or 64 hexadecimal digits)."),
        ({"base": "--upload-pack=x"}, "'--upload-pack=x' is not the full id of a commit"),
        ({"series": "0" * 64}, "There is no series of this id here: go back to its page and load it again."),
        ({"incident": "x"}, "The number of an incident was expected."),
    ],
)
def test_refuses_a_changed_form(writer: FlaskClient, change: dict[str, str], sentence: str) -> None:
    [form] = find_order_forms(read(writer, CANDIDATE))

    answer = writer.post(f"{P}/orders", data=form | change)

    assert answer.status_code == 409
    assert sentence in words(answer.text)


def test_shows_progress_results_and_cancels(empty_store: Store) -> None:
    reconcile(empty_store, NOW, a_budgeted_incident("a1", a_move("x.<script>"), a_move("y")))
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)
    client, place = app.test_client(), "/acme:model"
    [form] = find_order_forms(read(client, f"{place}/incidents/1"))
    client.post(f"{place}/orders", data=form)
    with empty_store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        content = OrderContent("measure", None, a_sha(12), "<script>alert(1)</script>")
        place_order(tx, AuditContext(LOCAL, NOW), project, content, "cli")
        order = claim_order(tx, "local", "box", NOW)
        assert order is not None
        heartbeat_order(tx, order.id, order.lease_token, NOW, "3 of 10 pairs, about 4 min left")
    running = words(read(client, f"{place}/orders"))
    with empty_store.begin() as tx:
        result = OrderResult("regression", {"regression": 1, "unchanged": 2})
        assert finish_order(tx, order, NOW, result)
    client.post(f"{place}/orders/2/cancel")
    closed = read(client, f"{place}/orders")
    late = client.post(f"{place}/orders/2/cancel")
    app.extensions["perfci"].group_commit.close()

    assert order.content.bench == r"^(x\.<script>|y)$"
    assert "2 orders are open." in running
    assert "running3 of 10 pairs, about 4 min left" in running
    assert "local incident #1" in running
    assert "<script>alert" not in closed
    assert "done1 regression, 2 unchanged" in words(closed)
    assert "cancelledCancelled by local." in words(closed)
    assert (late.status_code, "Order 2 is not open any more." in words(late.text)) == (409, True)


@pytest.mark.parametrize(
    ("app", "bound", "engine"),
    [
        ({"id": "Iv1.7"}, True, "github"),
        ({"id": "Iv1.7", "order_engine": "local"}, True, "local"),
        ({"id": "Iv1.7"}, False, "local"),
        ({}, True, "local"),
    ],
)
def test_the_app_measures_where_it_knows_a_workflow(
    empty_store: Store, app: dict[str, str], bound: bool, engine: str
) -> None:
    settings = Settings.model_validate({"app": app})
    with empty_store.begin() as tx:
        project = create_project(tx, "acme/model", "private", NOW)
        if bound:
            repository = BoundRepository(1, 5, "acme/model", ".github/workflows/perf.yml", "", ())
            bind_repository(tx, project.id, repository, NOW)

        assert choose_order_engine(tx, settings, project) == engine
        require_order_engine(tx, settings, project, engine)


def test_an_expression_selects_the_first_cells_it_has_room_for() -> None:
    cells = [f"suite.{letter * 60}(1)" for letter in "abcd"]

    expression = build_bench_expression(cells)

    assert [bool(re.search(expression, cell)) for cell in cells] == [True, True, False, False]
    assert re.search(build_bench_expression(["x" * 300]), "x" * 300)
    assert len(build_bench_expression(["(" * 300])) <= 200


def test_an_incident_orders_its_bisect_and_shows_how_far_it_is(empty_store: Store) -> None:
    reconcile(empty_store, NOW, a_budgeted_incident("a1", a_move("x.<script>"), a_move("y")))
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)
    client, page = app.test_client(), "/acme:model/incidents/1"
    answers = [client.post(f"{page}/{kind}") for kind in ("bisect", "bisect", "backfill")]
    unknown = client.post("/acme:model/incidents/99/bisect")
    backfill, bisect = load_orders(empty_store, "acme/model")
    fields = {
        "benchmark": "x.<script>",
        "metric": "time",
        "base": bisect.content.base_sha,
        "head": bisect.content.head_sha,
        "candidates": [{"commit": a_sha(7), "probability": 0.9}, {"commit": a_sha(8), "probability": 0.08}],
        "commits": 64,
        "commits_left": 2,
        "processes": 12,
        "commits_measured": 4,
        "machine_s": 185.0,
        "session": "s",
    }
    with empty_store.begin() as tx:
        order = claim_order(tx, "local", "box", NOW)
        assert order is not None
        progress = "2 of 64 commits left at 95 %, 12 processes, 3 min 5 s"
        assert heartbeat_order(tx, order.id, order.lease_token, NOW, progress, {"bisect": fields})
    shown = words(read(client, page))
    found = fields | {
        "outcome": "named",
        "after": a_sha(6),
        "commit": a_sha(7),
        "probability": 0.98,
        "change": 0.104,
        "interval": [0.086, 0.121],
    }
    with empty_store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        result = OrderResult("named", {}, ("s",), {"bisect": found})
        context = AuditContext(LOCAL, NOW)
        assert finish_order_of_worker(tx, context, project, order.id, order.lease_token, result)
    named, fields_of_incident = words(read(client, page)), client.get(f"{page}.json").json
    app.extensions["perfci"].group_commit.close()

    assert [answer.status_code for answer in answers] == [303, 303, 303]
    assert (unknown.status_code, len(bisect.requests)) == (409, 2)
    assert (bisect.content.kind, backfill.content.kind) == ("bisect", "backfill")
    assert "Bisect, order 1 running 2 of 64 commits left at 95 %, 12 processes, 3 min 5 s" in shown
    assert f"90.0 % {a_sha(7)[:10]}" in shown
    answer = f"{a_sha(7)[:10]} moved it by +10.4 % [+8.6, +12.1], 98 % certain"
    assert f"Bisect, order 1: {answer}" in named
    assert (fields_of_incident["state"], fields_of_incident["culprit_sha"]) == ("culprit_found", a_sha(7))
    assert fields_of_incident["orders"][1]["bisect"]["probability"] == 0.98
