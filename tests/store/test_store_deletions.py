"""Deleting a run, a series or a project leaves nothing of it, and everything else as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import sqlalchemy as sa
from every_table import fill

from perfci.model import VerdictKind
from perfci.store import Store, check_integrity, open_store
from perfci.store.jobs.work_queue_and_leases import load_next_project_work
from perfci.store.maintenance.delete_runs_series_projects import (
    DeletionKind,
    delete_next_batch,
    record_deletion_request,
)
from perfci.store.projects import create_project, find_project
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.tables.measurements import RunRow
from perfci.store.verdicts_and_change_points import add_verdicts, load_verdict_records
from perfci.store.writes.group_commit import GroupCommitter
from tests.support.builders import (
    NOON,
    PROJECT,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.stored_runs import ingest_run

SHARED = replace(a_series("shared"), machine=a_machine("cpu"))

KEPT = {"audit", "used_tokens", "leases", "users", "logins", "secrets", "alembic_version"}
"""Tables whose rows are of no single project, or are kept by law of the house: the audit log."""


def delete(store: Store, kind: DeletionKind, row_id: int, limit: int = 2) -> int:
    """Delete something of the project in small batches; return how many it took."""
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        record_deletion_request(tx, project.id, kind, row_id or project.id, NOON)
    batches = 0
    more = True
    while more:
        with store.begin() as tx:
            more = delete_next_batch(tx, NOON, limit)
        batches += more
        assert batches < 1000
    return batches


def table_sizes(store: Store) -> dict[str, int]:
    with store.read() as tx:
        names = sa.inspect(tx.connection()).get_table_names()
        return {name: tx.scalar(sa.text(f"SELECT count(*) FROM {name}")) or 0 for name in set(names) - KEPT}


def store_run(store: Store, session: str, *names: str, project: str = PROJECT, cpu: str = "cpu") -> int:
    """Store a run of some benchmarks; return its id."""
    machine = a_machine(cpu)
    results = [a_result(replace(a_series(name), machine=machine), a_process(1.0, 2.0)) for name in names]
    run = a_run(*results, machine=machine, project=project, session=session)
    committer = GroupCommitter(store)  # which tries again where cached ids are stale, as a server does
    committer.submit(lambda tx: ingest_run(tx, run, f"key of {session}", "body", kind="history"))
    committer.close()
    with store.read() as tx:
        row_id = tx.scalar(sa.select(RunRow.id).where(RunRow.key == f"key of {session}"))
    assert row_id is not None
    return row_id


def series_names(store: Store, project: str = PROJECT) -> list[str]:
    with store.read() as tx:
        return sorted(series.benchmark.name for series in load_project_series(tx, project).values())


def test_a_deleted_project_leaves_no_row(store: Store) -> None:
    fill(store.url)
    without = table_sizes(store)
    store_run(store, "theirs", "a", "b", project="rival/own", cpu="AMD EPYC")
    with store.begin() as tx:
        add_verdicts(tx, "rival/own", "theirs", [a_verdict(a_series("a"))], NOON)
    theirs = {name: size - without[name] for name, size in table_sizes(store).items()}
    store_run(store, "mine", *(f"s{number}" for number in range(7)))
    with store.begin() as tx:  # one that supersedes another
        for kind in (VerdictKind.REGRESSION, VerdictKind.UNCHANGED):
            add_verdicts(tx, PROJECT, "mine", [a_verdict(a_series("s1"), kind)], NOON)

    delete(store, "project", 0)

    assert table_sizes(store) == theirs | dict.fromkeys(("machines", "environments", "variants"), 1)
    assert check_integrity(store.url) == []
    assert series_names(store, "rival/own") == ["a", "b"]


@pytest.mark.parametrize("limit", [1, 500])
def test_a_batch_deletes_few_rows(store: Store, limit: int) -> None:
    run_id = store_run(store, "large", *(f"s{number}" for number in range(9)))

    batches = delete(store, "run", run_id, limit)

    assert (batches > 9) == (limit == 1)
    assert series_names(store) == []


def test_a_deleted_run_takes_its_names_and_verdicts_and_leaves_the_others(store: Store) -> None:
    secret, kept = store_run(store, "secret", "UNRELEASED", "shared"), store_run(store, "kept", "shared")
    store_run(store, "machine", "shared", cpu="UNRELEASED cpu")
    with store.begin() as tx:
        [first] = add_verdicts(tx, PROJECT, "kept", [a_verdict(SHARED)], NOON)
        [second] = add_verdicts(tx, PROJECT, "secret", [a_verdict(SHARED)], NOON)

    delete(store, "run", secret)
    delete(store, "run", kept + 1)

    with store.read() as tx:
        assert list(tx.scalars(sa.select(RunRow.id))) == [kept]
        assert [record.id for record in load_verdict_records(tx, PROJECT)] == [first]
        texts = tx.scalars(sa.text("SELECT cpu FROM machines UNION SELECT name FROM benchmarks")).all()
        due = load_next_project_work(tx, ["judge", "evaluate"], 9, NOON)
    assert first < second
    assert [text for text in texts if "UNRELEASED" in text] == []
    assert {(item.kind, item.subject) for item in due} == {("judge", "key of kept"), ("evaluate", "deletion")}
    assert check_integrity(store.url) == []


def test_the_series_of_a_deleted_run_are_judged_again(store: Store) -> None:
    series = a_series("shared")
    run_ids = []
    for number in (1, 2):
        run = a_run(a_result(series, a_process(1.0)), session=f"s{number}")
        with store.begin() as tx:
            ingest_run(tx, run, f"key {number}", "body", kind="history")
            run_ids.append(tx.scalar(sa.select(RunRow.id).where(RunRow.key == f"key {number}")) or 0)

    delete(store, "run", run_ids[1])

    with store.read() as tx:
        due = load_next_project_work(tx, ["judge", "evaluate"], 9, NOON)
    assert [(item.kind, item.subject) for item in due] == [("judge", "key 1"), ("evaluate", "deletion")]


def test_a_deleted_series_leaves_the_rest_of_its_run(store: Store) -> None:
    store_run(store, "mine", "UNRELEASED", "shared")
    with store.read() as tx:
        [secret] = [
            row_id
            for row_id, series in load_project_series(tx, PROJECT).items()
            if series.benchmark.name == "UNRELEASED"
        ]

    delete(store, "series", secret)

    assert series_names(store) == ["shared"]
    assert check_integrity(store.url) == []


def test_verdicts_are_kept_where_nothing_is_deleted(store: Store) -> None:
    store_run(store, "mine", "a")
    with store.begin() as tx:
        add_verdicts(tx, PROJECT, "mine", [a_verdict(a_series("a"))], NOON)

    with pytest.raises(sa.exc.DatabaseError, match="never deleted"), store.begin() as tx:
        tx.execute(sa.text("DELETE FROM verdicts"))


def test_no_process_goes_on_with_the_id_of_a_deleted_series(store: Store) -> None:
    """SQLite gives the ids of deleted rows to new ones; other processes have them in their caches."""
    other = open_store(store.url, create=False)
    run_id = store_run(other, "first", "old")
    assert series_names(other) == series_names(store) == ["old"]

    delete(store, "run", run_id)
    store_run(store, "second", "new")
    store_run(other, "third", "old")

    assert series_names(store) == series_names(other) == ["new", "old"]
    assert check_integrity(store.url) == []
    other.close()


def test_a_new_project_has_no_audit_log_of_a_deleted_one(store: Store) -> None:
    ids: list[int] = []
    for slug in (PROJECT, "rival/next"):
        with store.begin() as tx:
            ids.append(create_project(tx, slug, "private", NOON).id)
        if slug == PROJECT:
            fill_audit(store, ids)
            delete(store, "project", 0)

    assert ids[0] != ids[1]


def fill_audit(store: Store, ids: Sequence[int]) -> None:
    columns = "(at, project_id, actor, action, subject, detail, request_id)"
    with store.begin() as tx:
        tx.execute(sa.text(f"INSERT INTO audit {columns} VALUES (0, {ids[0]}, '', '', '', '{{}}', '')"))


def test_a_verdict_superseded_by_a_deleted_one_is_current_again(store: Store) -> None:
    sessions = ["a", "b", "c"]
    run_ids = {session: store_run(store, session, "shared") for session in sessions}
    question = a_verdict(SHARED, base=a_sha(1), head=a_sha(9))
    with store.begin() as tx:
        added = [add_verdicts(tx, PROJECT, session, [question], NOON)[0] for session in sessions]

    delete(store, "run", run_ids["c"])
    with store.read() as tx:
        current = [record.id for record in load_verdict_records(tx, PROJECT)]

    assert current == [added[1]]
