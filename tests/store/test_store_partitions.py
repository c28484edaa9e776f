"""Partitions of samples on PostgreSQL: everything reads as before, and old ones are dropped whole."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.config import Settings
from perfci.formats.evidence.evidence_bundle import read_bundle
from perfci.history.load_series_points import find_wrong_series_points
from perfci.history.result_summaries import summarize_processes
from perfci.history.series_histories import update_change_points
from perfci.history.verify_stored_verdicts import verify_stored_verdicts
from perfci.model import PerfciError
from perfci.service.evidence.export_evidence import export_evidence
from perfci.service.evidence.verify_evidence import verify_evidence
from perfci.service.export_history import export_history
from perfci.service.partition_samples import SamplePartitionJob, drop_old_partitions
from perfci.store import Store, backup, check_integrity, open_store, restore
from perfci.store.maintenance.partition_processes import (
    KEPT_ROWS,
    PARTITIONS_AHEAD,
    add_partitions_ahead,
    list_partitions,
    partition_processes,
)
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdicts_and_change_points import load_change_points
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import NOON, PROJECT, a_result, a_run, a_series
from tests.support.confirmed_step import store_confirmed_step
from tests.support.databases import fresh_database
from tests.support.pull_request_uploads import main_run, timed, upload
from tests.support.stored_runs import ingest_run

RESULTS = 20
"""Results of a partition: the fifty of the step are in the first."""

LATER = NOON + timedelta(days=500)


@pytest.fixture
def kind() -> str:
    return "postgresql"


@pytest.fixture
def partitioned(store: Store) -> Store:
    """Fifty results in the first partition, each of a series of its own."""
    with store.begin() as tx:
        results = [a_result(a_series(parameters={"n": str(number)})) for number in range(50)]
        ingest_run(tx, a_run(*results), "key", "body", kind="history", summarize=summarize_processes)
    with store.begin() as tx:
        assert partition_processes(tx, RESULTS)
    return store


def count_rows(store: Store) -> dict[str, int]:
    """The processes in each partition."""
    query = sa.text("SELECT tableoid::regclass::text, count(*) FROM processes GROUP BY 1 ORDER BY 1")
    with store.read() as tx:
        return dict(tx.execute(query).all())


def read_everything(store: Store) -> tuple[bytes, bytes, list[object]]:
    with store.read() as tx:
        changes = [*load_change_points(tx, PROJECT)]
    runs = b"".join(export_history(store, PROJECT, "perfci", lambda _: None))
    return runs, b"".join(export_history(store, PROJECT, "csv", lambda _: None)), changes


def add_results(store: Store, count: int) -> None:
    with store.begin() as tx:
        for number in range(count):
            run = main_run(number)
            ingest_run(tx, run, f"key {number}", "body", kind="history", summarize=summarize_processes)


def read_levels(table: bytes) -> list[tuple[str, ...]]:
    """Commit, cell, status and value of each line of a CSV export."""
    lines = [line.split(",") for line in table.decode().splitlines()]
    places = [lines[0].index(name) for name in ("commit", "parameters", "status", "value")]
    return [tuple(line[place] for place in places) for line in lines]


def test_a_judged_database_reads_the_same_in_partitions_and_after_dropping_them(
    store: Store, tmp_path: Path
) -> None:
    store_confirmed_step(store)
    runs, table, changes = read_everything(store)

    with store.begin() as tx:
        assert partition_processes(tx, RESULTS)
        assert not partition_processes(tx, RESULTS)

    assert read_everything(store) == (runs, table, changes)
    assert verify_stored_verdicts(store, PROJECT).differences == []
    assert check_integrity(store.url) == []

    [would] = drop_old_partitions(store, LATER, dry_run=True)
    assert count_rows(store) == {"processes_to_60": 168}
    [dropped] = drop_old_partitions(store, LATER)

    # the 24 processes of the pairs, and the history at the two commits that they measured again
    assert (dropped, dropped.kept_processes) == (would, 24 + 2 * 3)
    assert count_rows(store) == {KEPT_ROWS: 30}
    assert read_levels(table) == read_levels(read_everything(store)[1])
    assert verify_stored_verdicts(store, PROJECT).differences == []
    verification = verify_evidence(read_bundle(export_evidence(store, PROJECT, 1, Settings())))
    assert verification.stands
    assert (verification.sampled_levels, verification.other_levels) == (2, 46)

    upload(store, main_run(40, timed(1.3)))  # of a third series, whose two others are judged anew
    with store.begin() as tx:
        update_change_points(tx, PROJECT, load_project_series(tx, PROJECT), Policy())
    assert read_everything(store)[2] == changes
    assert check_integrity(store.url) == []
    with store.read() as tx:
        assert list(find_wrong_series_points(tx)) == []

    backup(store.url, tmp_path / "copy.gz")
    with fresh_database("sqlite", tmp_path) as url:
        restore(url, tmp_path / "copy.gz")
        with closing(open_store(url, create=False)) as copy:
            assert read_everything(copy) == read_everything(store)


def test_new_results_go_into_the_partitions_ahead(partitioned: Store) -> None:
    add_results(partitioned, 20)

    assert count_rows(partitioned) == {"processes_to_60": 59, "processes_to_80": 11}
    with partitioned.begin() as tx:
        assert add_partitions_ahead(tx) == 1
        assert [partition.end for partition in list_partitions(tx)] == [60, 80, 100, 120, 140]
    assert check_integrity(partitioned.url) == []


def test_results_that_overtake_the_partitions_are_stored_all_the_same(partitioned: Store) -> None:
    add_results(partitioned, 80)

    with partitioned.begin() as tx:
        assert add_partitions_ahead(tx) == PARTITIONS_AHEAD
        assert [partition.first for partition in list_partitions(tx)][-PARTITIONS_AHEAD:] == [140, 160, 180]
    assert count_rows(partitioned)[KEPT_ROWS] == 11
    assert check_integrity(partitioned.url) == []


def test_only_partitions_that_are_old_as_a_whole_are_dropped(partitioned: Store) -> None:
    add_results(partitioned, 9)

    assert drop_old_partitions(partitioned, NOON + timedelta(hours=8)) == []
    [dropped] = drop_old_partitions(partitioned, NOON + timedelta(hours=9))
    assert dropped.kept_processes == 0


def test_the_worker_adds_partitions_and_drops_old_ones(partitioned: Store) -> None:
    add_results(partitioned, 20)

    SamplePartitionJob(partitioned, 0)(LATER)
    with partitioned.read() as tx:
        assert len(list_partitions(tx)) == 5
    SamplePartitionJob(partitioned, 30)(LATER)

    with partitioned.read() as tx:
        assert [partition.name for partition in list_partitions(tx)][:2] == [
            "processes_to_100",
            "processes_to_120",
        ]


def test_a_backup_is_restored_on_postgresql_without_partitions(partitioned: Store, tmp_path: Path) -> None:
    backup(partitioned.url, tmp_path / "copy.gz")

    with fresh_database("postgresql", tmp_path) as url:
        restore(url, tmp_path / "copy.gz")
        with closing(open_store(url, create=False)) as copy:
            assert read_everything(copy) == read_everything(partitioned)
            add_results(copy, 1)  # whose ids come after those of the copy
        assert check_integrity(url) == []


def test_sqlite_has_no_partitions(tmp_path: Path) -> None:
    with fresh_database("sqlite", tmp_path) as url, closing(open_store(url, create=False)) as store:
        with (
            pytest.raises(PerfciError, match=r"Partitions are for PostgreSQL: a SQLite"),
            store.begin() as tx,
        ):
            partition_processes(tx)
        with pytest.raises(PerfciError, match=r"This database has no partitions: `perfci db partition`"):
            drop_old_partitions(store, LATER)
        SamplePartitionJob(store, 30)(LATER)
