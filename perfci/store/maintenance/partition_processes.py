"""Partition the table of processes on PostgreSQL, and drop old partitions of it.

Processes hold the samples and grow fastest. They are partitioned by ranges of the result they belong to:
results are numbered as they arrive, so that a partition is a time, and what is asked by results reads only
the partitions it needs. Rows of no partition (there is none ahead, or theirs was dropped) are in a default
one.

A dropped partition takes the samples of its time along. What rests on samples stays: the processes of
comparisons, those that a verdict names as evidence, and those of commits with several results of one series,
whose level is that of all of them. Of everything else the level stays, in its result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import PerfciError, Status
from perfci.store.column_conversions import EPOCH, MILLISECOND
from perfci.store.dialects import is_sqlite
from perfci.store.queries.history_conditions import HISTORY_KINDS

RESULTS_PER_PARTITION = 1_000_000
"""Some five million processes, a gigabyte: small enough for its indexes to stay in memory."""

PARTITIONS_AHEAD = 3
"""Empty partitions behind the newest result."""

KEPT_ROWS = "processes_kept"
"""The default partition."""

LOCK_TIMEOUT = "10s"
"""How long a change of the table waits for a query on it: uploads wait behind it as long."""


@dataclass(frozen=True, slots=True)
class ProcessPartition:
    """A partition of processes: those of the results from ``first`` on, and before ``end``."""

    name: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A partition that was dropped, or would be: its size, and the processes of it that were kept."""

    name: str
    bytes: int
    kept_processes: int


def is_partitioned(tx: Session) -> bool:
    """Whether the processes of this database are partitioned."""
    if is_sqlite(tx):
        return False
    kind = tx.scalar(sa.text("SELECT relkind FROM pg_class WHERE oid = 'processes'::regclass"))
    return str(kind) == "p"


def partition_processes(tx: Session, results_per_partition: int = RESULTS_PER_PARTITION) -> bool:
    """Partition the table of processes; False where it is. Its present rows become the first partition.

    No row is copied: PostgreSQL reads the table once to check it, and builds one index.
    """
    if is_sqlite(tx):
        raise PerfciError("Partitions are for PostgreSQL: a SQLite database has none.")
    if is_partitioned(tx):
        return False
    _execute(tx, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    _execute(tx, "LOCK TABLE processes IN ACCESS EXCLUSIVE MODE")
    end = (_load_last_result_id(tx) // results_per_partition + 1) * results_per_partition
    first = f"processes_to_{end}"
    sequence = tx.scalar(sa.text("SELECT pg_get_serial_sequence('processes', 'id')"))
    constraints = _load_constraints(tx)
    _execute(tx, f"ALTER TABLE processes RENAME TO {first}")
    for name in constraints:
        _execute(tx, f'ALTER TABLE {first} RENAME CONSTRAINT "{name}" TO "{name}_to_{end}"')
    _execute(tx, f"CREATE TABLE processes (LIKE {first} INCLUDING DEFAULTS) PARTITION BY RANGE (result_id)")
    for name, definition in constraints.items():
        # a primary key has to contain the column of the partitions
        if definition.startswith("PRIMARY KEY"):
            _execute(tx, "CREATE INDEX ix_processes_id ON processes (id)")
        else:
            _execute(tx, f'ALTER TABLE processes ADD CONSTRAINT "{name}" {definition}')
    _execute(tx, f"ALTER SEQUENCE {sequence} OWNED BY processes.id")
    _execute(tx, f"ALTER TABLE processes ATTACH PARTITION {first} FOR VALUES FROM (MINVALUE) TO ({end})")
    _execute(tx, f"CREATE TABLE {KEPT_ROWS} PARTITION OF processes DEFAULT")
    _add_partitions(tx, end, results_per_partition, PARTITIONS_AHEAD)
    return True


def list_partitions(tx: Session) -> list[ProcessPartition]:
    """List the partitions but the default one, oldest first."""
    query = sa.text(
        "SELECT child.relname, pg_get_expr(child.relpartbound, child.oid) FROM pg_inherits "
        "JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = 'processes'::regclass"
    )
    partitions = []
    for name, bound in tx.execute(query):
        matched = re.fullmatch(r"FOR VALUES FROM \((?:'(\d+)'|MINVALUE)\) TO \('(\d+)'\)", bound)
        if matched:
            partitions.append(ProcessPartition(name, int(matched[1] or 0), int(matched[2])))
    return sorted(partitions, key=lambda partition: partition.end)


def add_partitions_ahead(tx: Session) -> int:
    """Create the partitions that the next results need; return how many.

    Where results have overtaken the partitions, their rows are in the default one, and partitions begin
    behind them.
    """
    partitions = list_partitions(tx)
    width = partitions[-1].end - partitions[-1].first
    last = _load_last_result_id(tx)
    ahead = sum(partition.first > last for partition in partitions)
    missing = max(0, PARTITIONS_AHEAD - ahead)
    if missing:
        _execute(tx, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        _add_partitions(tx, max(partitions[-1].end, (last // width + 1) * width), width, missing)
    return missing


def find_droppable_partitions(tx: Session, older_than: datetime) -> list[ProcessPartition]:
    """List the partitions of which every run started before a time and every level is computed."""
    if not is_partitioned(tx):
        raise PerfciError("This database has no partitions: `perfci db partition` makes them, on PostgreSQL.")
    return [part for part in list_partitions(tx) if _is_droppable(tx, part, older_than)]


def collect_kept_processes(tx: Session, partition: ProcessPartition) -> DroppedPartition:
    """Copy the processes that something rests on into a temporary table, and count them."""
    size = tx.scalar(sa.text("SELECT pg_total_relation_size(to_regclass(:name))"), {"name": partition.name})
    bounds = {"first": partition.first, "end": partition.end}
    _execute(tx, KEPT_PROCESSES.format(partition=partition.name), bounds)
    kept = tx.scalar(sa.text("SELECT count(*) FROM kept"))
    return DroppedPartition(partition.name, int(size or 0), int(kept or 0))


def drop_partition(tx: Session, partition: ProcessPartition) -> DroppedPartition:
    """Drop a partition, and keep the processes in it that something rests on."""
    dropped = collect_kept_processes(tx, partition)
    _execute(tx, f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    _execute(tx, f"ALTER TABLE processes DETACH PARTITION {partition.name}")
    _execute(tx, f"DROP TABLE {partition.name}")
    _execute(tx, "INSERT INTO processes SELECT * FROM kept")
    return dropped


_HISTORY_KINDS = ", ".join(f"'{kind}'" for kind in HISTORY_KINDS)

KEPT_PROCESSES = f"""
CREATE TEMPORARY TABLE kept ON COMMIT DROP AS
WITH held AS MATERIALIZED (
  SELECT re.id, re.series_id, ru.commit_id, ru.session_id FROM results re JOIN runs ru ON ru.id = re.run_id
  WHERE re.id >= :first AND re.id < :end
), joined AS (
  SELECT re.series_id, ru.commit_id FROM runs ru JOIN results re ON re.run_id = ru.id
  WHERE ru.commit_id IN (SELECT DISTINCT commit_id FROM held)
  GROUP BY 1, 2 HAVING count(*) > 1
), evidence AS (
  SELECT DISTINCT named.id::bigint AS id FROM verdicts v
  CROSS JOIN LATERAL jsonb_array_elements_text(v.evidence::jsonb) AS named (id)
  WHERE v.session_id IN (SELECT DISTINCT session_id FROM held)
), whole AS (
  SELECT held.id FROM held JOIN sessions s ON s.id = held.session_id WHERE s.kind NOT IN ({_HISTORY_KINDS})
  UNION SELECT held.id FROM held JOIN joined USING (series_id, commit_id)
)
SELECT p.* FROM {{partition}} p WHERE p.result_id IN (SELECT id FROM whole)
UNION ALL
SELECT p.* FROM {{partition}} p
WHERE p.id IN (SELECT id FROM evidence) AND p.result_id NOT IN (SELECT id FROM whole)
"""


def _is_droppable(tx: Session, partition: ProcessPartition, older_than: datetime) -> bool:
    """Whether a partition has rows that are all old enough, of results whose level is computed."""
    bounds = {"first": partition.first, "end": partition.end}
    of_partition = "FROM results re JOIN runs ru ON ru.id = re.run_id WHERE re.id >= :first AND re.id < :end"
    newest = tx.scalar(sa.text(f"SELECT max(ru.started_at) {of_partition}"), bounds)
    if newest is None or newest >= (older_than - EPOCH) // MILLISECOND:
        return False
    uncomputed = (
        f"SELECT 1 {of_partition} AND re.status = :ok AND re.clock IS NULL AND re.value IS NULL LIMIT 1"
    )
    return tx.scalar(sa.text(uncomputed), {**bounds, "ok": Status.OK.value}) is None


def _add_partitions(tx: Session, first: int, width: int, count: int) -> None:
    for start in range(first, first + count * width, width):
        end = start + width
        _execute(
            tx, f"CREATE TABLE processes_to_{end} PARTITION OF processes FOR VALUES FROM ({start}) TO ({end})"
        )


def _load_last_result_id(tx: Session) -> int:
    return int(tx.scalar(sa.text("SELECT coalesce(max(id), 0) FROM results")) or 0)


def _load_constraints(tx: Session) -> dict[str, str]:
    """The keys of the table of processes by name, as SQL defines them."""
    query = sa.text(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = 'processes'::regclass AND contype IN ('p', 'u', 'f') ORDER BY conname"
    )
    return {str(name): str(definition) for name, definition in tx.execute(query)}


def _execute(tx: Session, statement: str, parameters: dict[str, Any] | None = None) -> None:
    tx.execute(sa.text(statement), parameters or {})
