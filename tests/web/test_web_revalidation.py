"""Who has the newest data of a series is told so, without the data being read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from page_reading import BF16, SERIES
from sqlalchemy.orm import Session
from web_builders import NOW, PROJECT, STEP_TIME, a_commit, a_verdict, fill

from perfci.model import ChangePoint, VerdictKind
from perfci.store import Store
from perfci.store.projects import find_project, update_project
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci_web import create_app
from perfci_web.series import routes
from tests.support.stored_runs import replace_change_points

FORMS = (f"{SERIES}.json{BF16}", f"{SERIES}.svg{BF16}", f"{SERIES}.csv{BF16}", f"{SERIES}/figure{BF16}")


@pytest.fixture
def client(empty_store: Store) -> FlaskClient:
    fill(empty_store, 12)
    return create_app(empty_store, clock=lambda: NOW).test_client()


def test_reads_nothing_again_for_who_has_the_newest(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = {form: client.get(form).headers["ETag"] for form in FORMS}
    monkeypatch.setattr(routes, "load_series_trends", None)
    monkeypatch.setattr(routes, "load_series", None)

    answers = [client.get(form, headers={"If-None-Match": tag}) for form, tag in tags.items()]

    assert [(answer.status_code, answer.data) for answer in answers] == [(304, b"")] * len(FORMS)
    assert len(set(tags.values())) == len(FORMS)
    assert {answer.headers["Cache-Control"] for answer in answers} == {"private, no-cache"}


def add_commit(tx: Session) -> None:
    upsert_commits(tx, PROJECT, [a_commit(12)])


def correct_commit(tx: Session) -> None:
    upsert_commits(tx, PROJECT, [replace(a_commit(3), subject="Another subject")])


def add_verdict(tx: Session) -> None:
    verdict = a_verdict(STEP_TIME, 5, VerdictKind.REGRESSION, 1.5, (1.4, 1.6))
    add_verdicts(tx, PROJECT, "pairs-1", [verdict], NOW)


def move_level(tx: Session) -> None:
    change = ChangePoint(STEP_TIME, a_commit(5).sha, a_commit(4).sha, 1.0, 1.2, noise=0.01, p_value=1e-9)
    replace_change_points(tx, PROJECT, STEP_TIME, [change])


def raise_bar(tx: Session) -> None:
    project = find_project(tx, PROJECT)
    assert project is not None
    update_project(tx, project.id, settings={"judge": {"bar": 0.3}})


@pytest.mark.parametrize("change", [add_commit, correct_commit, add_verdict, move_level, raise_bar])
def test_what_changes_a_chart_gives_it_another_tag(
    client: FlaskClient, empty_store: Store, change: Callable[[Session], None]
) -> None:
    tag = client.get(FORMS[-1]).headers["ETag"]
    with empty_store.begin() as tx:
        change(tx)

    answer = client.get(FORMS[-1], headers={"If-None-Match": tag})

    assert (answer.status_code, answer.headers["ETag"] != tag) == (200, True)


def test_a_project_that_is_not_there_has_no_tag(client: FlaskClient) -> None:
    answer = client.get(FORMS[0].replace("tiny-lm", "other"), headers={"If-None-Match": '"x"'})

    assert (answer.status_code, "ETag" in answer.headers) == (404, False)
