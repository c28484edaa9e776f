"""The schema of the parts of an evidence bundle, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from perfci.formats.run_document_schema import (
    INT64,
    ChosenPairs,
    DocumentCount,
    DocumentIndex,
    DocumentLine,
    DocumentName,
    DocumentNumber,
    DocumentPart,
    DocumentSha,
    DocumentText,
    DocumentTime,
    MachinePart,
    ObservedPairs,
    SeriesPart,
)
from perfci.model import Clock, Stage, VerdictKind

EVIDENCE_SCHEMA: Literal["perfci.evidence/1"] = "perfci.evidence/1"

MAX_POINTS = 20_000
"""Commits of one history: five years of ten a day."""

MAX_MEMBERS = 10_000
"""Series of one incident."""

MAX_LOOKS, MAX_PAIRS_PER_VERDICT = 10_000, 1_000_000

RowId = Annotated[int, Field(ge=1, le=INT64)]
RowIds = Annotated[tuple[RowId, ...], Field(max_length=MAX_PAIRS_PER_VERDICT)]
PairOfNumbers = tuple[DocumentNumber, DocumentNumber]
Fraction = Annotated[FiniteFloat, Field(ge=0, le=1)]
NonNegative = Annotated[FiniteFloat, Field(ge=0)]


class FilePart(DocumentPart):
    """One file of the bundle: its size and the SHA-256 of its bytes."""

    name: DocumentName
    bytes: Annotated[int, Field(ge=0, le=INT64)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ManifestPart(DocumentPart):
    """What the bundle is about, the software that wrote it, and its files."""

    schema_: Literal["perfci.evidence/1"] = Field(alias="schema")
    project: DocumentName
    incident: DocumentCount
    made_by: DocumentLine
    files: Annotated[tuple[FilePart, ...], Field(max_length=100)]


class EvidenceSeriesPart(SeriesPart):
    """A series with the machine, variant and harness that belong to its identity."""

    machine: MachinePart
    variant: ChosenPairs = {}
    harness: DocumentLine = ""


class SessionPart(DocumentPart):
    """A measuring session with the seed of its order."""

    uid: DocumentName
    kind: DocumentName
    seed: int
    rounds: DocumentIndex
    state: DocumentName
    started_at: DocumentTime
    finished_at: DocumentTime | None = None


class ChangePart(DocumentPart):
    """A change of a level between two commits, as it was stored."""

    commit: DocumentSha
    last_good: DocumentSha
    before: DocumentNumber
    after: DocumentNumber
    interval: PairOfNumbers | None = None
    noise: NonNegative | None = None
    p_value: Fraction | None = None


class MemberPart(ChangePart):
    """A series of the incident, by its line in ``series.jsonl``, and how it changed."""

    series: DocumentIndex
    added_by: DocumentLine = ""


class IncidentPart(DocumentPart):
    """The incident as it was stored."""

    number: DocumentCount
    kind: DocumentName
    state: DocumentName
    headline: DocumentText
    last_good: DocumentSha
    commit: DocumentSha
    first_seen: DocumentTime
    gone_at: DocumentTime | None = None
    members: Annotated[tuple[MemberPart, ...], Field(max_length=MAX_MEMBERS)]


class RulePart(DocumentPart):
    """The rule of a comparison or a history (docs/verdicts.md)."""

    bar: NonNegative
    strict: bool = False
    max_pairs: Annotated[int, Field(ge=1, le=MAX_LOOKS)] = 20
    looks: Annotated[
        tuple[Annotated[int, Field(ge=1, le=MAX_LOOKS)], ...], Field(min_length=1, max_length=MAX_LOOKS)
    ]
    exact_bar: NonNegative | None = None
    floor: NonNegative = 0.0
    subject: DocumentText = ""


class HistoryPart(DocumentPart):
    """The history of a series: every commit that has a level, oldest first, as columns, and its changes.

    A clock is empty where the processes of a point were read from different clocks, and absent where there
    are none. ``results`` are the row ids of the results of a point whose samples are in ``runs.jsonl``.
    """

    series: DocumentIndex
    rule: RulePart
    commits: Annotated[tuple[DocumentSha, ...], Field(max_length=MAX_POINTS)]
    levels: Annotated[tuple[FiniteFloat, ...], Field(max_length=MAX_POINTS)]
    clocks: Annotated[tuple[Clock | Literal[""] | None, ...], Field(max_length=MAX_POINTS)]
    spreads: Annotated[tuple[NonNegative | None, ...], Field(max_length=MAX_POINTS)]
    results: Annotated[tuple[RowIds, ...], Field(max_length=MAX_POINTS)]
    has_processes: bool
    changes: Annotated[tuple[ChangePart, ...], Field(max_length=MAX_POINTS)] = ()

    @model_validator(mode="after")
    def _has_columns_of_one_length(self) -> Self:
        columns = self.levels, self.clocks, self.spreads, self.results
        if any(len(column) != len(self.commits) for column in columns):
            raise ValueError("its columns have different lengths")
        if len(set(self.commits)) < len(self.commits):
            raise ValueError("a commit occurs twice in it")
        return self


class InterimAnalysisPart(DocumentPart):
    """One interim look at the pairs."""

    spent: DocumentIndex
    pairs: DocumentIndex
    kind: DocumentName
    tail: FiniteFloat | None = None
    more: DocumentIndex = 0
    prior_sd: NonNegative | None = None
    prior_df: NonNegative | None = None
    base_results: RowIds = ()
    head_results: RowIds = ()


class DecisionPart(DocumentPart):
    """How a verdict was reached."""

    method: Literal["pairs", "rounds", "separate_runs"]
    rule: RulePart
    aa_verdicts_until: Annotated[int, Field(ge=0, le=INT64)]
    looks: Annotated[tuple[InterimAnalysisPart, ...], Field(min_length=1, max_length=MAX_LOOKS)]
    rate: Fraction | None = None
    made_by: DocumentLine = ""


class StoredTailPart(DocumentPart):
    """The verdict on the tail of a stored verdict."""

    kind: VerdictKind
    ratio: DocumentNumber
    interval: PairOfNumbers | None = None


class StoredVerdictPart(DocumentPart):
    """A stored verdict with how it was reached; ``is_before_tails`` says that it says nothing of tails."""

    id: RowId
    series: DocumentIndex
    session: DocumentName
    created_at: DocumentTime
    is_superseded: bool = False
    is_before_tails: bool = False
    kind: VerdictKind
    stage: Stage
    base: DocumentSha
    head: DocumentSha
    ratio: DocumentNumber | None = None
    interval: PairOfNumbers | None = None
    base_level: DocumentNumber | None = None
    head_level: DocumentNumber | None = None
    noise_floor: DocumentNumber | None = None
    mde: DocumentNumber | None = None
    pairs: DocumentIndex = 0
    pairs_to_decide: DocumentIndex | None = None
    p_value: Fraction | None = None
    reason: DocumentText = ""
    evidence: RowIds = ()
    tail: StoredTailPart | None = None
    decision: DecisionPart | None = None


class AARunsPart(DocumentPart):
    """The A/A runs of a series that were known up to a verdict: log ratio and pairs of each."""

    until: Annotated[int, Field(ge=0, le=INT64)]
    series: DocumentIndex
    runs: Annotated[tuple[tuple[FiniteFloat, DocumentIndex], ...], Field(max_length=MAX_POINTS)]


class ResultIdsPart(DocumentPart):
    """The row ids of a result and of its processes."""

    result: RowId
    processes: RowIds = ()


class RunIdsPart(DocumentPart):
    """The row ids of the results of the run on the same line of ``runs.jsonl``, in its order."""

    results: Annotated[tuple[ResultIdsPart, ...], Field(max_length=10_000)]


class EvidenceProfilePart(DocumentPart):
    """A profile of one cell at a commit: seconds and calls by phase, operator, kernel or line.

    ``trace`` is the file of the bundle with its trace, absent where it was pruned or left out for its size.
    """

    commit: DocumentSha
    cell: DocumentText
    setup: DocumentText
    environment: ObservedPairs = {}
    created_at: DocumentTime
    parts: Annotated[
        tuple[tuple[DocumentName, DocumentText, FiniteFloat, FiniteFloat], ...], Field(max_length=MAX_POINTS)
    ] = ()
    trace: DocumentName | None = None


class EvidenceExplanationPart(DocumentPart):
    """What profiles or counts of two commits say of one cell and metric, as it was stored."""

    base: DocumentSha
    head: DocumentSha
    cell: DocumentText
    metric: DocumentText
    conclusion: DocumentText
    created_at: DocumentTime
    document: dict[str, Any]
