"""What queries answer where the model has no word for it: rows of lists, with the ids that pages link to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from perfci.model import (
    Clock,
    Environment,
    Machine,
    Process,
    Series,
    Stage,
    Status,
    Variant,
    Verdict,
    VerdictKind,
)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """``state`` is ``running`` until the session has finished; an interrupted one stays running and is
    resumed.
    """

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
    """``processes`` are those of the operating system, however many metrics each gave; ``never_measured``
    counts the series that were tried and only ever skipped: metrics that no machine here can read.
    """

    slug: str
    commits: int
    series: int
    never_measured: int
    runs: int
    processes: int
    last_measured_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series and what was ever read of it, without its history.

    ``never_measured`` says that it was tried and only ever skipped, in comparisons too; ``clock`` is what
    the newest value was read from.
    """

    id: int
    series: Series
    never_measured: bool
    clock: Clock | None

    @property
    def is_informational(self) -> bool:
        """Whether it was declared to be shown and never judged."""
        return self.clock is Clock.INFORMATIONAL


@dataclass(frozen=True, slots=True)
class SeriesRecord(StoredSeries):
    """A series and how its history ends.

    ``points`` counts its commits; status and reason are those of the newest of them, absent without a
    history. Of one that was never measured they tell why.
    """

    points: int
    last_commit_sha: str | None
    last_status: Status | None
    last_reason: str = ""

    @property
    def is_last_failed(self) -> bool:
        """Whether the newest commit should have a value and has none; one that was skipped should not."""
        return self.last_status not in (None, Status.OK, Status.SKIPPED)


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


class VerdictOutcome(NamedTuple):
    """What was said once of two commits, superseded since or not."""

    stage: Stage
    kind: VerdictKind


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """How many verdicts of one kind a series was given at one stage, by the runs of one suite."""

    series: Series
    suite: str
    stage: Stage
    kind: VerdictKind
    count: int


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


def matches_search(series: Series, search: str) -> bool:
    """Whether every word of a search occurs in what names a series."""
    parts = (series.cell, series.metric.name, series.metric.unit, series.machine.label, series.variant.label)
    haystack = " ".join(parts).lower()
    return all(word in haystack for word in search.lower().split())
