"""Every request of docs/cookbook.md, sent by curl to a server on loopback, is answered as the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from api_client import NOW

from perfci.auth.permissions import LOCAL, Scope
from perfci.config import Settings
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import Store, open_store
from perfci_web import create_app
from tests.support.builders import (
    NOON,
)
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile
from tests.support.judged_step import store_judged_step
from tests.support.loopback_application import served_on_loopback

PAGE = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text()
RECIPE = re.compile(r"^## (\d+)\. ([^\n]+)\n.*?^```sh\n(.*?)^```\n\n^```(\w+)\n(.*?)^```\n", re.M | re.S)
SETTINGS = Settings.model_validate({"access": {"mode": "open"}})


@dataclass(frozen=True)
class Recipe:
    """A command of the page, and the answer below it."""

    number: str
    title: str
    command: str
    kind: str
    answer: str


RECIPES = [Recipe(*groups) for groups in RECIPE.findall(PAGE)]


@dataclass(frozen=True)
class Shell:
    """A folder in which the commands of the page are typed one after the other."""

    folder: Path
    variables: dict[str, str]

    def type(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=os.environ | self.variables,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def fill_store(store: Store) -> str:
    """Five commits of one series with a step that is judged, and an incident; return a token of an admin."""
    with store.begin() as tx:
        store_judged_step(tx)
        admin = AuditContext(LOCAL, NOON)
        token = projects_members_tokens.create_token(tx, admin, None, "cookbook", {Scope.ADMIN}).text
    reconcile(store, NOON + timedelta(days=2), a_budgeted_incident("a1", a_move(at=4), good=3, bad=4))
    return token


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: apt-get install curl")
    folder = tmp_path_factory.mktemp("cookbook")
    with closing(open_store(f"sqlite:///{folder}/perfci.db", create=True)) as store:
        token = fill_store(store)
        app = create_app(store, read_only=False, clock=lambda: NOW, settings=SETTINGS)
        with served_on_loopback(app) as address:
            yield Shell(folder, {"PERFCI_SERVER": address, "PERFCI_TOKEN": token})
        app.extensions["perfci"].group_commit.close()


def is_shown_by(shown: Any, answered: Any) -> bool:
    """Whether an answer has what the page shows: fields may be left out, and of a list what follows "..."."""
    if isinstance(shown, dict):
        return isinstance(answered, dict) and all(
            name in answered and is_shown_by(value, answered[name]) for name, value in shown.items()
        )
    if isinstance(shown, list) and shown[-1:] == ["..."]:
        return is_shown_by(shown[:-1], answered[: len(shown) - 1])
    if isinstance(shown, list):
        return len(shown) == len(answered) and all(map(is_shown_by, shown, answered))
    return bool(shown == answered)


def test_the_page_has_twenty_requests() -> None:
    assert [int(recipe.number) for recipe in RECIPES] == list(range(1, 21))
    assert len(re.findall(r"^## ", PAGE, re.M)) == 20


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_is_answered_as_the_page_says(shell: Shell, recipe: Recipe) -> None:
    answered = shell.type(recipe.command)

    if recipe.kind == "json":
        assert is_shown_by(json.loads(recipe.answer), json.loads(answered)), answered
    else:
        assert answered.replace("\r\n", "\n").strip() == recipe.answer.strip()


def test_is_not_shown_by_another_answer() -> None:
    assert is_shown_by({"items": [1, "..."]}, {"items": [1, 2], "next": None})
    assert not is_shown_by({"items": [1]}, {"items": [1, 2]})
    assert not is_shown_by({"items": [1]}, {"next": None})
