"""The tables: one class per word of the glossary, portable between SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Index,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.tables.base import JsonText, TableBase, foreign_key, primary_key


class ProjectRow(TableBase):
    """``version`` counts what changed in the project: every answer about it carries this number."""

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
    """``dirty`` is part of the key: a changed working tree is never taken for the commit it started from."""

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
    __tablename__ = "environments"

    id: Mapped[int] = primary_key()
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    observed: Mapped[Any] = mapped_column(JsonText)


class VariantRow(TableBase):
    __tablename__ = "variants"

    id: Mapped[int] = primary_key()
    identity: Mapped[str] = mapped_column(String(64), unique=True)
    chosen: Mapped[Any] = mapped_column(JsonText)


class BenchmarkRow(TableBase):
    """``code`` and ``meta`` are kept per version: asv itself remembers only the latest."""

    __tablename__ = "benchmarks"
    __table_args__ = (UniqueConstraint("project_id", "name", "version"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    name: Mapped[str]
    version: Mapped[str]
    code: Mapped[str | None]
    meta: Mapped[Any | None] = mapped_column(JsonText)


class SeriesRow(TableBase):
    """``identity`` hashes project, benchmark, version, parameters, metric, machine, variant and harness:
    all.
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


class SessionRow(TableBase):
    """``seed`` is text: a random order may be drawn from more bits than a database integer holds.

    ``source`` says where a session measured elsewhere came from, and what is only approximately known of it.
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
    """``key`` makes the same run arrive once; ``body_hash`` tells whether it arrived with the same content.

    ``processes`` counts those of the operating system, whichever metrics each is stored with.
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


class ResultRow(TableBase):
    """``level`` is the one number its processes agree on, so that histories are judged without reading
    samples.

    ``clock`` is what they were read from, empty where that differs and absent until the level is worked
    out; ``spread`` reaches from the lowest sample to the highest.
    """

    __tablename__ = "results"
    __table_args__ = (UniqueConstraint("run_id", "series_id"),)

    id: Mapped[int] = primary_key()
    run_id: Mapped[int] = foreign_key("runs.id")
    series_id: Mapped[int] = foreign_key("series.id", index=True)
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


class ProcessRow(TableBase):
    """``samples`` are the raw numbers as packed little-endian float64: what went in comes out, bit for
    bit.
    """

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


class VerdictRow(TableBase):
    __tablename__ = "verdicts"
    __table_args__ = (
        Index("ix_verdicts_question", "series_id", "base", "head"),
        Index(
            "ix_verdicts_between", "base", "head"
        ),  # without the project: it would be taken to page through one
    )

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    session_id: Mapped[int] = foreign_key("sessions.id")
    series_id: Mapped[int] = foreign_key("series.id")
    kind: Mapped[str]
    stage: Mapped[str]
    base: Mapped[str]
    head: Mapped[str]
    ratio: Mapped[float | None]
    interval_lo: Mapped[float | None]
    interval_hi: Mapped[float | None]
    base_level: Mapped[float | None]
    head_level: Mapped[float | None]
    noise_floor: Mapped[float | None]
    mde: Mapped[float | None]
    pairs: Mapped[int]
    pairs_to_decide: Mapped[int | None]
    p_value: Mapped[float | None]
    reason: Mapped[str]
    evidence: Mapped[Any] = mapped_column(JsonText)
    created_at: Mapped[datetime]
    superseded_by: Mapped[int | None] = foreign_key("verdicts.id", nullable=True)


class DecisionRow(TableBase):
    """How one verdict was reached, kept so that it can be reached again from the samples."""

    __tablename__ = "decisions"

    id: Mapped[int] = primary_key()
    verdict_id: Mapped[int] = foreign_key("verdicts.id")
    method: Mapped[str]
    rule: Mapped[Any] = mapped_column(JsonText)
    aa_verdicts_until: Mapped[int] = mapped_column(BigInteger)
    rate: Mapped[float | None]
    looks: Mapped[Any] = mapped_column(JsonText)
    made_by: Mapped[str]

    __table_args__ = (UniqueConstraint("verdict_id"),)


class ChangePointRow(TableBase):
    __tablename__ = "change_points"
    __table_args__ = (Index("ix_change_points_sizes", "series_id", "relative_change"),)

    id: Mapped[int] = primary_key()
    series_id: Mapped[int] = foreign_key("series.id")
    commit: Mapped[str]
    last_good: Mapped[str]
    relative_change: Mapped[float]
    before: Mapped[float]
    after: Mapped[float]


class UnresolvedResultRow(TableBase):
    """A metric whose unit or direction nobody named, kept as it came until somebody does."""

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
