"""Old samples are pruned by age; a dry run deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.service.prune_samples import PruneCounts, SamplePruningJob, prune_raw_samples
from perfci.store import Store, check_integrity, open_store
from tests.support.builders import NOON, a_commit, a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

NOW = NOON + timedelta(days=100)
COMMITS = 700


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A hundred days of commits, each of one process with four samples; more than one step looks at."""
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        with store.begin() as tx:
            for number in range(COMMITS):
                result = a_result(a_series(), a_process(1.0, 1.1, 1.2, 1.3))
                started = NOON + timedelta(days=100 * number / COMMITS)
                run = a_run(result, commit=a_commit(number), session=f"session-{number}", started_at=started)
                ingest_run(tx, run, f"key {number}", "body")
        yield store


def test_samples_older_than_the_limit_are_pruned(store: Store) -> None:
    pruned = prune_raw_samples(store, NOW - timedelta(days=10), now=NOW)

    assert pruned == PruneCounts(processes=630, samples=630 * 3)
    assert check_integrity(store.url) == []


def test_a_dry_run_only_counts(store: Store) -> None:
    counted = prune_raw_samples(store, NOW - timedelta(days=10), now=NOW, dry_run=True)
    pruned = prune_raw_samples(store, NOW - timedelta(days=10), now=NOW)

    assert counted == pruned


def test_the_judge_worker_prunes_once_a_day_if_configured(store: Store) -> None:
    SamplePruningJob(store, raw_days=0)(NOW)
    prune = SamplePruningJob(store, raw_days=90)
    prune(NOW)
    prune(NOW + timedelta(hours=23))
    first = prune_raw_samples(store, NOW - timedelta(days=90), now=NOW)
    prune(NOW + timedelta(days=2))
    second = prune_raw_samples(store, NOW - timedelta(days=88), now=NOW)

    assert (first, second) == (PruneCounts(), PruneCounts())
    assert prune_raw_samples(store, NOW, now=NOW).processes > 0


def test_the_prune_command_reports_what_was_deleted(
    store: Store, working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [run_cli(["db", "prune", "--db", store.url, "--raw-older-than", age]) for age in ("90d", "soon")]

    captured = capsys.readouterr()
    assert (codes, captured.out) == ([0, 2], "700 processes pruned, 2100 samples less\n")
    assert captured.err == "perfci: --raw-older-than takes days such as 90d, found 'soon'\n"
