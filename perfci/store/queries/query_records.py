"""Records that queries return where the model has no type: rows of lists, with their ids."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from perfci.model import (
    Clock,
    Environment,
    InvalidMark,
    Machine,
    Process,
    Series,
    Stage,
    Status,
    Variant,
    Verdict,
    VerdictKind,
)
from perfci.store.column_conversions import build_verdict


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A stored session; ``state`` stays ``running`` when it is interrupted, so that it can be resumed."""

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
    """A project with its counts.

    ``processes`` counts OS processes, however many metrics each gave; ``never_measured`` counts the
    series whose results were all skipped: metrics that no machine here can read.
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
    """A stored series without its history.

    ``never_measured`` means that all its results were skipped, those of comparisons too; ``clock`` is
    that of the newest value.
    """

    id: int
    series: Series
    never_measured: bool
    clock: Clock | None

    @property
    def is_informational(self) -> bool:
        """Whether the series is shown but never judged."""
        return self.clock is Clock.INFORMATIONAL


@dataclass(frozen=True, slots=True)
class SeriesRecord(StoredSeries):
    """A series with the end of its history.

    ``points`` counts its commits; status and reason are those of the newest one, None without a history.
    For a series that was never measured they are those of its last result.
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
    """A stored verdict with its session; ``superseded_by`` is the id of a newer verdict on the same
    question.
    """

    id: int
    verdict: Verdict
    session_uid: str
    created_at: datetime
    superseded_by: int | None


class VerdictOutcome(NamedTuple):
    """The stage and kind of one verdict, current or superseded."""

    stage: Stage
    kind: VerdictKind


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """How many verdicts of one stage and kind a series got in the runs of one suite."""

    series: Series
    suite: str
    stage: Stage
    kind: VerdictKind
    count: int


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A stored run with the number of its results; ``invalid`` is its mark, where it has one."""

    id: int
    key: str
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
    invalid: InvalidMark | None = None


def series_matches_search(series: Series, search: str) -> bool:
    """Whether every word of a search occurs in the names of a series."""
    text = build_search_text(series)
    return all(word in text for word in search.lower().split())


def build_search_text(series: Series) -> str:
    """The names of a series that a search looks at, in lower case."""
    parts = (series.cell, series.metric.name, series.metric.unit, series.machine.label, series.variant.label)
    return " ".join(parts).lower()


def build_verdict_record(row: Any, series: Series) -> VerdictRecord:
    """Build a verdict record from a row of ``verdicts`` that also has the ``session_uid``."""
    return VerdictRecord(
        id=row.id,
        verdict=build_verdict(row, series),
        session_uid=row.session_uid,
        created_at=row.created_at,
        superseded_by=row.superseded_by,
    )
