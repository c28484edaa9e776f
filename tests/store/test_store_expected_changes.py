"""Expected changes are stored once, however often they are reported, and each project has its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from perfci.store import Store
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.store.incidents.expected_changes_and_muted_benchmarks import ExpectedChangeRecord
from perfci.store.projects import create_project
from tests.support.builders import NOON, PROJECT, a_sha

CHANGE = ExpectedChangeRecord(a_sha(12), "peak_bytes", 0.03, "the cache holds two layers", "#12", NOON)


def test_stores_a_repeated_expected_change_once_as_first_reported(store: Store) -> None:
    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON).id
        first = expected_changes_and_muted_benchmarks.add_expected_changes(
            tx, project, [CHANGE, CHANGE], "GitHub", NOON
        )
    with store.begin() as tx:
        again = replace(CHANGE, source=a_sha(12)[:10], reason="other words", merged_at=None)
        second = expected_changes_and_muted_benchmarks.add_expected_changes(
            tx, project, [again, replace(CHANGE, change=0.04)], "ada", NOON + timedelta(hours=1)
        )

    with store.read() as tx:
        stored = expected_changes_and_muted_benchmarks.load_expected_changes(tx, PROJECT)

    assert (first, second, stored) == (1, 1, [CHANGE, replace(CHANGE, change=0.04)])


def test_each_project_has_its_own_expected_changes(store: Store) -> None:
    with store.begin() as tx:
        for slug in (PROJECT, "acme/other"):
            project = create_project(tx, slug, "private", NOON).id
            expected_changes_and_muted_benchmarks.add_expected_changes(
                tx, project, [replace(CHANGE, source=slug)], "GitHub", NOON
            )

    with store.read() as tx:
        assert [
            expected_change.source
            for expected_change in expected_changes_and_muted_benchmarks.load_expected_changes(tx, PROJECT)
        ] == [PROJECT]


def test_stores_the_longest_valid_expected_change(store: Store) -> None:
    longest = replace(CHANGE, match="\N{EM DASH}" * 200, reason="\N{EM DASH}" * 500, change=999999.999999)

    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON).id
        expected_changes_and_muted_benchmarks.add_expected_changes(tx, project, [longest], "GitHub", NOON)

        assert expected_changes_and_muted_benchmarks.load_expected_changes(tx, PROJECT) == [longest]
