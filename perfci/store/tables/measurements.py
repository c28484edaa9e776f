"""Tables of projects and their measurements, portable between SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Index,
    String,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import Id, TableBase, foreign_key, primary_key


class ProjectRow(TableBase):
    """A project; ``version`` grows with every change and is part of every ETag."""

    __tablename__ = "projects"

    id: Mapped[int] = primary_key()
    slug: Mapped[str] = mapped_column(unique=True)
    visibility: Mapped[str] = mapped_column(server_default="private")
    version: Mapped[int] = mapped_column(BigInteger, server_default="0")
    settings: Mapped[Any] = mapped_column(JsonText, server_default="{}")
    created_at: Mapped[datetime | None]
    archived_at: Mapped[datetime | None]
    repository: Mapped[str] = mapped_column(server_default="")


class CommitRow(TableBase):
    """A commit; ``dirty`` is part of the key, so a changed working tree is never taken for its commit."""

    __tablename__ = "commits"
    __table_args__ = (UniqueConstraint("project_id", "sha", "dirty"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    sha: Mapped[str]
    dirty: Mapped[bool]
    subject: Mapped[str]
    author: Mapped[str]
    committed_at: Mapped[datetime | None]
    parents: Mapped[Any] = mapped_column(JsonText)
    branch: Mapped[str]
    tags: Mapped[Any] = mapped_column(JsonText)
    position: Mapped[int | None]


class MachineRow(TableBase):
    """A machine class."""

    __tablename__ = "machines"

    id: Mapped[int] = primary_key()
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str]
    cpu: Mapped[str]
    cores: Mapped[int | None]
    memory_gb: Mapped[int | None]
    accelerator: Mapped[str]
    accelerators: Mapped[int]


class EnvironmentRow(TableBase):
    """An environment: the observed versions and settings of a machine."""

    __tablename__ = "environments"

    id: Mapped[int] = primary_key()
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    observed: Mapped[Any] = mapped_column(JsonText)


class VariantRow(TableBase):
    """A variant: the chosen options of a measurement."""

    __tablename__ = "variants"

    id: Mapped[int] = primary_key()
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    chosen: Mapped[Any] = mapped_column(JsonText)


class BenchmarkRow(TableBase):
    """A version of a benchmark with its code and settings; asv itself keeps only the latest."""

    __tablename__ = "benchmarks"
    __table_args__ = (UniqueConstraint("project_id", "name", "version"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    name: Mapped[str]
    version: Mapped[str]
    code: Mapped[str | None]
    meta: Mapped[Any | None] = mapped_column(JsonText)


class SeriesRow(TableBase):
    """A series; ``identity`` hashes project, benchmark, version, parameters, metric, machine, variant,
    harness.

    A series whose history goes on under another name is an empty row; ``renamed_to`` is the id of the other.
    """

    __tablename__ = "series"

    id: Mapped[int] = primary_key()
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    benchmark_id: Mapped[int] = foreign_key("benchmarks.id", index=True)
    parameters: Mapped[Any] = mapped_column(JsonText)
    metric: Mapped[str]
    unit: Mapped[str]
    direction: Mapped[str]
    machine_id: Mapped[int] = foreign_key("machines.id")
    variant_id: Mapped[int] = foreign_key("variants.id")
    harness: Mapped[str]
    renamed_to: Mapped[int | None] = mapped_column(Id, index=True)


class SeriesCountRow(TableBase):
    """How many new series a project got in a scope: a day, or a pull request."""

    __tablename__ = "series_counts"
    __table_args__ = (UniqueConstraint("project_id", "scope"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    scope: Mapped[str]
    count: Mapped[int] = mapped_column(BigInteger)
    counted_at: Mapped[datetime]


class SessionRow(TableBase):
    """A measuring session.

    ``seed`` is text, since it may exceed a database integer. ``source`` describes the origin of a session
    measured elsewhere, and what is only approximate in it.
    """

    __tablename__ = "sessions"
    __table_args__ = (Index("ix_sessions_spec", "project_id", "spec_hash"),)

    id: Mapped[int] = primary_key()
    uid: Mapped[str] = mapped_column(unique=True)
    project_id: Mapped[int] = foreign_key("projects.id")
    kind: Mapped[str]
    spec_hash: Mapped[str]
    seed: Mapped[str]
    rounds: Mapped[int]
    state: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    source: Mapped[str] = mapped_column(server_default="")


class RunRow(TableBase):
    """A run; ``key`` makes it unique, ``body_hash`` detects other content under the same key.

    ``processes`` counts OS processes, whichever metrics each is stored with.
    """

    __tablename__ = "runs"

    id: Mapped[int] = primary_key()
    session_id: Mapped[int] = foreign_key("sessions.id", index=True)
    commit_id: Mapped[int] = foreign_key("commits.id", index=True)
    machine_id: Mapped[int] = foreign_key("machines.id")
    environment_id: Mapped[int] = foreign_key("environments.id")
    variant_id: Mapped[int] = foreign_key("variants.id")
    suite: Mapped[str]
    harness: Mapped[str]
    origin: Mapped[Any] = mapped_column(JsonText)
    key: Mapped[str] = mapped_column(unique=True)
    body_hash: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    received_at: Mapped[datetime | None]
    processes: Mapped[int] = mapped_column(server_default="0")
    invalid: Mapped[bool] = mapped_column(server_default=false())


class ResultRow(TableBase):
    """A result; ``level`` is its one number for verdicts, so that histories need no samples.

    ``clock`` is that of the processes, empty if they differ and NULL until the level is computed;
    ``spread`` is the range from the lowest sample to the highest.
    """

    __tablename__ = "results"
    __table_args__ = (
        UniqueConstraint("run_id", "series_id"),
        Index("ix_results_series_id", "series_id", "id"),
    )

    id: Mapped[int] = primary_key()
    run_id: Mapped[int] = foreign_key("runs.id")
    series_id: Mapped[int] = foreign_key("series.id")
    status: Mapped[str]
    reason: Mapped[str]
    boundaries: Mapped[str]
    number: Mapped[int | None] = mapped_column(BigInteger)
    value: Mapped[float | None]
    ci_lo: Mapped[float | None]
    ci_hi: Mapped[float | None]
    q25: Mapped[float | None]
    q75: Mapped[float | None]
    n: Mapped[int | None] = mapped_column(BigInteger)
    level: Mapped[float | None]
    clock: Mapped[str | None]
    spread: Mapped[float | None]
    thinned_at: Mapped[datetime | None]
    invalid: Mapped[bool] = mapped_column(server_default=false())


class InvalidMarkRow(TableBase):
    """Who marked a run, or the results of one series in it, as invalid, and why.

    ``runs.invalid``, ``results.invalid`` and ``verdicts.invalid`` follow from these rows.
    """

    __tablename__ = "invalid_marks"

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    run_id: Mapped[int] = foreign_key("runs.id", index=True)
    series_id: Mapped[int | None] = foreign_key("series.id", index=True, nullable=True)
    reason: Mapped[str]
    marked_by: Mapped[str]
    marked_at: Mapped[datetime]


class ProcessRow(TableBase):
    """A process; ``samples`` are packed little-endian float64, exact."""

    __tablename__ = "processes"
    __table_args__ = (UniqueConstraint("result_id", "role", "pair", "round", "order", "index"),)

    id: Mapped[int] = primary_key()
    result_id: Mapped[int] = foreign_key("results.id")
    index: Mapped[int]
    role: Mapped[str]
    status: Mapped[str]
    clock: Mapped[str]
    pair: Mapped[int]
    round: Mapped[int]
    order: Mapped[int]
    started_at: Mapped[datetime | None]
    duration_s: Mapped[float | None]
    reason: Mapped[str]
    exit_code: Mapped[int | None]
    stderr_tail: Mapped[str]
    flags: Mapped[Any] = mapped_column(JsonText)
    samples: Mapped[bytes]


class UnresolvedResultRow(TableBase):
    """A result whose unit or direction is unknown, kept as it arrived."""

    __tablename__ = "unresolved_results"
    __table_args__ = (Index("ix_unresolved_results_project", "project_id", "id"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    run_id: Mapped[int] = foreign_key("runs.id", index=True)
    format: Mapped[str]
    metric: Mapped[str]
    document: Mapped[Any] = mapped_column(JsonText)
    reason: Mapped[str]
    created_at: Mapped[datetime]
    resolved_at: Mapped[datetime | None]
