"""Keep partitions of samples ahead of the results, and drop old ones."""

from __future__ import annotations

from datetime import datetime, timedelta

from perfci.store import Store
from perfci.store.maintenance.partition_processes import (
    DroppedPartition,
    add_partitions_ahead,
    collect_kept_processes,
    drop_partition,
    find_droppable_partitions,
    is_partitioned,
)


def drop_old_partitions(
    store: Store, older_than: datetime, *, dry_run: bool = False
) -> list[DroppedPartition]:
    """Drop the partitions that are older than a time, each in a transaction; a dry run only counts."""
    drop = collect_kept_processes if dry_run else drop_partition
    with store.read() as tx:
        partitions = find_droppable_partitions(tx, older_than)
    dropped = []
    for partition in partitions:
        with store.begin() as tx:
            dropped.append(drop(tx, partition))
    return dropped


class SamplePartitionJob:
    """Periodic job of the judge worker that adds partitions every hour, and drops old ones once a day."""

    def __init__(self, store: Store, partition_days: int) -> None:
        self._store, self._partition_days = store, partition_days
        self._added_at: datetime | None = None
        self._dropped_at: datetime | None = None

    def __call__(self, now: datetime) -> None:
        if self._added_at is not None and abs(now - self._added_at) < timedelta(hours=1):
            return
        self._added_at = now
        with self._store.read() as tx:
            if not is_partitioned(tx):
                return
        with self._store.begin() as tx:
            add_partitions_ahead(tx)
        is_due = self._dropped_at is None or abs(now - self._dropped_at) >= timedelta(days=1)
        if self._partition_days and is_due:
            self._dropped_at = now
            drop_old_partitions(self._store, now - timedelta(days=self._partition_days))
