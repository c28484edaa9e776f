"""Projects are created once, have a visibility, and count their changes."""

from __future__ import annotations

import pytest

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.projects import Project, create_project, find_project, load_projects, update_project
from tests.support.builders import NOON, PROJECT


def test_creates_a_project_with_the_given_visibility(store: Store) -> None:
    with store.begin() as tx:
        made = create_project(tx, PROJECT, "public", NOON)

    with store.read() as tx:
        assert find_project(tx, PROJECT) == made == Project(made.id, PROJECT, "public", 0, {}, archived=False)
        assert find_project(tx, "acme/other") is None


def test_refuses_a_second_project_of_the_same_name(store: Store) -> None:
    with store.begin() as tx:
        create_project(tx, PROJECT, "private", NOON)

        with pytest.raises(PerfciError, match="There is a project acme/model already"):
            create_project(tx, PROJECT, "private", NOON)


def test_refuses_a_visibility_other_than_public_or_private(store: Store) -> None:
    with store.begin() as tx:
        made = create_project(tx, PROJECT, "private", NOON)

        with pytest.raises(PerfciError, match="A project is public or private, not 'secret'"):
            update_project(tx, made.id, visibility="secret")


def test_a_change_of_settings_is_a_new_version(store: Store) -> None:
    with store.begin() as tx:
        made = create_project(tx, PROJECT, "private", NOON)
        create_project(tx, "acme/another", "public", NOON)
        update_project(tx, made.id, settings={"bar": 0.1}, archived_at=NOON)

    with store.read() as tx:
        assert load_projects(tx)[-1] == Project(made.id, PROJECT, "private", 1, {"bar": 0.1}, archived=True)
