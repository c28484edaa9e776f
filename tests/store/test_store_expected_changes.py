"""Announcements are kept once, however many ways told them, and each project has its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from perfci.store import Store
from perfci.store.incidents import expected_changes_and_mutes
from perfci.store.incidents.expected_changes_and_mutes import ExpectedChangeRecord
from perfci.store.projects import create_project
from tests.support.builders import NOON, PROJECT, a_sha

TOLD = ExpectedChangeRecord(a_sha(12), "peak_bytes", 0.03, "the cache holds two layers", "#12", NOON)


def test_told_twice_it_is_kept_once_as_it_was_told_first(store: Store) -> None:
    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON).id
        first = expected_changes_and_mutes.add_expected_changes(tx, project, [TOLD, TOLD], "GitHub", NOON)
    with store.begin() as tx:
        again = replace(TOLD, source=a_sha(12)[:10], reason="other words", merged_at=None)
        second = expected_changes_and_mutes.add_expected_changes(
            tx, project, [again, replace(TOLD, change=0.04)], "ada", NOON + timedelta(hours=1)
        )

    with store.read() as tx:
        kept = expected_changes_and_mutes.load_expected_changes(tx, PROJECT)

    assert (first, second, kept) == (1, 1, [TOLD, replace(TOLD, change=0.04)])


def test_each_project_has_its_own(store: Store) -> None:
    with store.begin() as tx:
        for slug in (PROJECT, "acme/other"):
            project = create_project(tx, slug, "private", NOON).id
            expected_changes_and_mutes.add_expected_changes(
                tx, project, [replace(TOLD, source=slug)], "GitHub", NOON
            )

    with store.read() as tx:
        assert [
            expected_change.source
            for expected_change in expected_changes_and_mutes.load_expected_changes(tx, PROJECT)
        ] == [PROJECT]


def test_the_longest_that_can_be_written_is_kept(store: Store) -> None:
    longest = replace(TOLD, match="\N{EM DASH}" * 200, reason="\N{EM DASH}" * 500, change=999999.999999)

    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON).id
        expected_changes_and_mutes.add_expected_changes(tx, project, [longest], "GitHub", NOON)

        assert expected_changes_and_mutes.load_expected_changes(tx, PROJECT) == [longest]
