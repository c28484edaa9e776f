"""One change has one size: every surface shows levels whose ratio is the size beside them.

Two series step at one commit: one is known from the history alone, the other was confirmed on pairs, which
gave it another size. Both creep, so that the median of a whole segment is not the level next to the change.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from perfci.cli import run_cli
from perfci.config import load_config
from perfci.history.series_histories import update_change_points
from perfci.model import ChangePoint, Interval, Series, TailVerdict, VerdictKind
from perfci.number_format import format_signed_percent
from perfci.report.incidents.notification_text import notification_body
from perfci.report.verdict_text import format_in_common_unit, format_interval
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.service.notify.enqueue_notifications import build_notification_content
from perfci.store import Store, open_store
from perfci.store.incidents.incident_store import find_incident
from perfci.store.projects import find_project
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import add_verdicts, load_change_points
from perfci.store.writes.measured_sessions import start_session
from perfci.verdicts.judging_policy import Policy
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.level_histories import simulate_points
from tests.support.stored_runs import ingest_run

LENGTH, AT = 100, 60
P = "/acme:model"
OF_HISTORY, OF_PAIRS = a_series("training.Step.time_step"), a_series("serving.Gpt.time_token")
RATIO_OF_PAIRS, INTERVAL_OF_PAIRS = 1.21, Interval(1.19, 1.23)
TAIL_OF_PAIRS = TailVerdict(VerdictKind.REGRESSION, 1.34, Interval(1.27, 1.42))


def creeping_level(number: int) -> float:
    return 0.0124 * 1.0006**number * (1.183 if number >= AT else 1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database, judged as a worker judges it."""
    path = tmp_path_factory.mktemp("one-change")
    with closing(open_store(f"sqlite:///{path}/perfci.db", create=True)) as store:
        measure(store)
        evaluate_and_reconcile(store, load_config(path, {}, project=PROJECT))
    return path


def measure(store: Store) -> None:
    points = {
        series: simulate_points(creeping_level, length=LENGTH, noise=0.004, seed=k)
        for k, series in enumerate((OF_HISTORY, OF_PAIRS))
    }
    for k in range(LENGTH):
        moment = NOON + timedelta(hours=k)
        results = [a_result(series, a_process(line[k].level)) for series, line in points.items()]
        run = a_run(*results, commit=a_commit(k + 1), session=f"nightly-{k}", started_at=moment)
        with store.begin() as tx:
            ingest_run(tx, run, str(k), str(k), kind="history")
    confirmed = a_verdict(
        OF_PAIRS,
        base=a_sha(AT - 1),
        head=a_sha(AT),
        ratio=RATIO_OF_PAIRS,
        interval=INTERVAL_OF_PAIRS,
        base_level=0.0131,
        head_level=0.0131 * RATIO_OF_PAIRS,
        p_value=1e-12,
        tail=TAIL_OF_PAIRS,
    )
    with store.begin() as tx:
        update_change_points(tx, PROJECT, list(load_project_series(tx, PROJECT)), Policy())
        start_session(tx, PROJECT, "pairs", "confirm", "spec", 7, 0, NOON + timedelta(days=9))
        add_verdicts(tx, PROJECT, "pairs", [confirmed], NOON + timedelta(days=9))


@pytest.fixture(scope="module")
def store(folder: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{folder}/perfci.db", create=False)) as store:
        yield store


@pytest.fixture(scope="module")
def changes(store: Store) -> dict[Series, ChangePoint]:
    """What the incident says of both series."""
    with store.read() as tx:
        (of_history,) = [change for change in load_change_points(tx, PROJECT) if change.series == OF_HISTORY]
    of_pairs = ChangePoint(
        OF_PAIRS, a_sha(AT), a_sha(AT - 1), 0.0131, 0.0131 * RATIO_OF_PAIRS, INTERVAL_OF_PAIRS
    )
    return {OF_HISTORY: of_history, OF_PAIRS: of_pairs}


@pytest.fixture(scope="module")
def client(store: Store) -> Iterator[FlaskClient]:
    app = create_app(store, read_only=False)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def read_page(client: FlaskClient, path: str) -> str:
    """The text of a page as it is read."""
    answer = client.get(path)
    assert answer.status_code == 200, path
    plain = re.sub(r"<(?!wbr)[^>]+>", " ", answer.get_data(as_text=True)).replace("<wbr>", "")
    return " ".join(html.unescape(plain).split())


def run_command(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    run_cli([*arguments, "--db", f"sqlite:///{folder}/perfci.db", "--project", PROJECT])
    return capsys.readouterr().out


SIZES = ("relative_change", "ratio", "rel")
LEVELS = (("before", "after"), ("base_level", "head_level"))


def sizes_in(document: Any) -> list[tuple[float, float, float]]:
    """Before, after and after / before - 1 of every object that has them, however deep."""
    if isinstance(document, list):
        return [triple for item in document for triple in sizes_in(item)]
    if not isinstance(document, dict):
        return []
    inner = [triple for item in document.values() for triple in sizes_in(item)]
    for before, after in LEVELS:
        name = next((name for name in SIZES if document.get(name) is not None), None)
        if name and document.get(before) is not None and document.get(after) is not None:
            size = document[name] - 1 if name == "ratio" else document[name]
            inner.append((document[before], document[after], size))
    return inner


def series_path(changes: dict[Series, ChangePoint], series: Series, *form: str) -> str:
    return ProjectLinks(PROJECT, changes).series(series, *form)


def test_the_levels_are_those_next_to_the_change(changes: dict[Series, ChangePoint]) -> None:
    change = changes[OF_HISTORY]

    assert change.commit == a_sha(AT)
    assert change.before == pytest.approx(creeping_level(AT - 8), rel=0.005)
    assert change.after == pytest.approx(creeping_level(AT + 7), rel=0.005)
    assert change.interval is not None
    assert change.interval.lo < change.after / change.before < change.interval.hi


def test_every_document_has_the_same_size(
    client: FlaskClient,
    folder: Path,
    changes: dict[Series, ChangePoint],
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = "/api/v1/projects/acme:model"
    listed = client.get(f"{api}/series").get_json()["items"]
    paths = [
        f"{P}/incidents/1.json",
        f"{P}/changes.json?since=all",
        f"{P}/compare/{a_sha(AT - 1)}...{a_sha(AT)}.json",
        f"{api}/incidents/1",
        f"{api}/impact",
        *(f"{api}/series/{item['id']}/points" for item in listed),
        *(series_path(changes, series, "json") for series in changes),
    ]
    documents = {path: client.get(path).get_json() for path in paths}
    documents["incidents show"] = json.loads(run_command(folder, capsys, "incidents", "show", "1", "--json"))

    expected = {(change.before, change.after, change.relative_change) for change in changes.values()}
    for path, document in documents.items():
        triples = sizes_in(document)
        assert triples, path
        for before, after, size in triples:
            assert any((before, after, size) == pytest.approx(triple, rel=1e-9) for triple in expected), path


def test_every_text_has_the_same_size(
    client: FlaskClient,
    store: Store,
    folder: Path,
    changes: dict[Series, ChangePoint],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        record = find_incident(tx, project.id, 1)
        assert record is not None
        notification = notification_body(build_notification_content(tx, project, record))
    pages = [f"{P}/incidents/1", f"{P}/incidents", f"{P}/changes?since=all", f"{P}/benchmarks", f"{P}/"]
    texts = {path: read_page(client, path) for path in pages}
    texts["compare"] = read_page(client, f"{P}/compare/{a_sha(AT - 1)}...{a_sha(AT)}")
    texts["notification"] = notification
    texts["incidents show"] = run_command(folder, capsys, "incidents", "show", "1")

    for series, change in changes.items():
        size = format_signed_percent(change.relative_change)
        own = {"series page": read_page(client, series_path(changes, series))}
        own["chart"] = read_page(client, series_path(changes, series, "svg"))
        for name, text in (texts | own).items():
            assert size in text or size.lstrip("+") in text, (name, size)
        assert change.interval is not None
        interval = format_interval(change.interval)
        before, after = format_in_common_unit((change.before, change.after), series.metric)
        for name in ("series page", f"{P}/incidents/1", "incidents show"):
            text = (texts | own)[name]
            assert interval in text or interval.replace("+", "") in text, name
            assert before in text, name
            assert after in text, name


def test_a_change_of_pairs_has_the_tail_of_these_pairs_beside_it(
    folder: Path,
    client: FlaskClient,
    changes: dict[Series, ChangePoint],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sentence = "p90 got 34.0 % slower [27.0, 42.0]"
    tail = {"quantile": "p90", "verdict": "regression", "ratio": 1.34, "interval": [1.27, 1.42]}
    incident = client.get(f"{P}/incidents/1.json").get_json()
    drawn = client.get(series_path(changes, OF_PAIRS, "json")).get_json()["changes"]

    assert {member["series"]["benchmark"]: member["tail"] for member in incident["members"]} == {
        OF_HISTORY.benchmark.name: None,
        OF_PAIRS.benchmark.name: tail,
    }
    assert [(mark["tail"], mark["tail_text"]) for mark in drawn] == [(tail, sentence)]
    assert sentence in read_page(client, f"{P}/incidents/1")
    assert f"10 pairs; {sentence}; noise floor 1.0 %." in read_page(client, f"{P}/")
    assert f"; {sentence}" in run_command(folder, capsys, "incidents", "show", "1")
    assert "+21.0 % [+19.0, +23.0] % +34.0 % [+27.0, +42.0] p90 worse" in read_page(
        client, series_path(changes, OF_PAIRS)
    )
    assert "p90" not in read_page(client, series_path(changes, OF_HISTORY))


def test_the_chart_writes_the_levels_of_the_change(
    client: FlaskClient, changes: dict[Series, ChangePoint]
) -> None:
    """Beside a size that was measured on pairs it writes no level of the history."""
    labels = {
        series: [
            level["label"] for level in client.get(series_path(changes, series, "json")).get_json()["levels"]
        ]
        for series in changes
    }

    change = changes[OF_HISTORY]
    assert labels[OF_HISTORY] == format_in_common_unit((change.before, change.after), OF_HISTORY.metric)
    assert labels[OF_PAIRS][0] == ""


def test_the_csv_of_benchmarks_has_the_same_size(
    client: FlaskClient, changes: dict[Series, ChangePoint]
) -> None:
    text = client.get(f"{P}/benchmarks.csv").get_data(as_text=True)

    for change in changes.values():
        assert str(1 + change.relative_change) in text


def test_the_comment_has_the_size_and_the_levels_of_the_pairs(
    client: FlaskClient, changes: dict[Series, ChangePoint]
) -> None:
    path = f"{P}/compare/{a_sha(AT - 1)}...{a_sha(AT)}.md"
    comment = client.get(path).get_data(as_text=True).replace("\N{NO-BREAK SPACE}", " ")

    change = changes[OF_PAIRS]
    levels = " | ".join(format_in_common_unit((change.before, change.after), OF_PAIRS.metric))
    assert f"{levels} | ▲ **worse {format_signed_percent(change.relative_change)}**" in comment
    assert format_interval(INTERVAL_OF_PAIRS) in comment
