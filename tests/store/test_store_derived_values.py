"""Derived values: shared by readers until the data they come of changes."""

from __future__ import annotations

import pytest

from perfci.store import Store, derived_values
from perfci.store.derived_values import DerivedValues, load_or_derive
from perfci.store.projects import find_project, mark_projects_changed
from perfci.store.writes.find_or_add_rows import upsert_commits
from tests.support.builders import PROJECT, a_commit, a_run
from tests.support.stored_runs import ingest_run


class Counter:
    """Counts how often a value is derived."""

    count = 0

    def derive(self) -> int:
        self.count += 1
        return self.count


def read(store: Store, counter: Counter) -> int:
    with store.read() as tx:
        return load_or_derive(tx, PROJECT, "count", counter.derive)


def test_readers_share_a_value_until_the_project_changes(store: Store) -> None:
    counter = Counter()
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(1)])
    before = [read(store, counter), read(store, counter)]
    with store.begin() as tx:
        ingest_run(tx, a_run(commit=a_commit(1)), "key", "body")
    after_run = [read(store, counter), read(store, counter)]
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        mark_projects_changed(tx, [project.id])

    assert (before, after_run, read(store, counter)) == ([1, 1], [2, 2], 3)


def test_a_writer_derives_what_it_reads(store: Store) -> None:
    counter = Counter()
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(1)])
        values = [load_or_derive(tx, PROJECT, "count", counter.derive) for _ in range(2)]

    assert (values, read(store, counter)) == ([1, 2], 3)


def test_drops_what_was_not_read_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_values, "MAX_DERIVED_VALUES", 2)
    values = DerivedValues()
    for key in ("a", "b"):
        values.keep(key, 1, key)
    values.find("a", 1)
    values.keep("c", 1, "c")

    assert [values.find(key, 1) for key in ("a", "b", "c")] == [("a",), None, ("c",)]
