"""What queries answer where the model has no word for it: rows of lists, with the ids that pages link to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from perfci.model import Environment, Machine, Process, Series, Variant, Verdict


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """``state`` is ``running`` until the session has finished; an interrupted one stays running and is resumed."""

    uid: str
    project: str
    kind: str
    spec_hash: str
    seed: int
    rounds: int
    state: str
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    slug: str
    commits: int
    series: int
    runs: int
    processes: int
    last_measured_at: datetime | None


@dataclass(frozen=True, slots=True)
class SeriesRecord:
    """``points`` counts the commits of its history; ``failed_last`` says the newest of them has no value."""

    id: int
    series: Series
    points: int
    last_commit_sha: str | None
    failed_last: bool


@dataclass(frozen=True, slots=True)
class MeasuredProcess:
    """A stored process with the id that a verdict names as its evidence."""

    id: int
    sha: str
    series: Series
    process: Process


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    id: int
    verdict: Verdict
    session_uid: str
    created_at: datetime
    superseded_by: int | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    id: int
    session_uid: str
    machine: Machine
    environment: Environment
    variant: Variant
    suite: str
    harness: str
    started_at: datetime
    finished_at: datetime | None
    results: int
    failed: int
