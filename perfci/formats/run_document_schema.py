"""The schema of the run document ``perfci.run/1``, as pydantic models."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    FiniteFloat,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    chain_schema,
    custom_error_schema,
    dataclass_args_schema,
    dataclass_field,
    dataclass_schema,
    datetime_schema,
)

from perfci.model import Clock, PerfciError, Process, ProcessBoundaries, Role, Status
from perfci.verdicts.goals.goal_clauses import parse_clause

SCHEMA: Literal["perfci.run/1"] = "perfci.run/1"

MAX_TEXT_LENGTH = 100_000

INT32, INT64 = 2**31 - 1, 2**63 - 1

MAX_RESULTS, MAX_PROCESSES, MAX_PARAMETERS = 10_000, 10_000, 64
MAX_SAMPLES = 100_000
"""Samples of one process; a run holds at most ten times as many."""

MAX_PARTS = 1_000
"""Steps of a comparison, verdicts of a step, goals, clauses of a goal."""

NO_NUL_PATTERN = r"^[^\x00]*$"
"""Text that every database can store."""

VISIBLE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]*$"
"""Text of a name: no control characters, none that are invisible or change the text direction."""

EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)


class _PlausibleTime:
    """A time between ``EARLIEST`` and ``LATEST``; JSON Schema cannot express these bounds."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bounds = datetime_schema(ge=EARLIEST, lt=LATEST)
        error_context: Any = {"error": "a date between 1900 and 3000 was expected"}
        bounded = custom_error_schema(
            bounds, custom_error_type="value_error", custom_error_context=error_context
        )
        return chain_schema([handler(source), bounded])


def _require_exact(number: Any) -> Any:
    """Refuse a whole number that a float64 cannot hold, instead of rounding it."""
    if isinstance(number, int) and (abs(number) > 2**1023 or int(float(number)) != number):
        raise ValueError("a whole number is too large to be exact as a float64")
    return number


def _require_all_exact(numbers: Any) -> Any:
    if not isinstance(numbers, list):
        return numbers
    for number in numbers:
        if number.__class__ is int:
            _require_exact(number)
    return tuple(numbers)


DocumentText = Annotated[str, Field(max_length=MAX_TEXT_LENGTH, pattern=NO_NUL_PATTERN)]
DocumentLine = Annotated[str, Field(max_length=2_000, pattern=VISIBLE_PATTERN)]
DocumentName = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_PATTERN)]
DocumentTime = Annotated[AwareDatetime, _PlausibleTime()]
DocumentSha = Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
DocumentIndex = Annotated[int, Field(ge=0, le=INT32)]
DocumentCount = Annotated[int, Field(ge=1, le=INT64)]
DocumentNumber = Annotated[FiniteFloat, BeforeValidator(_require_exact)]
DocumentRatio = Annotated[DocumentNumber, Field(gt=0)]
DocumentShare = Annotated[DocumentNumber, Field(ge=0)]
GoalWord = Literal["met", "broken", "undecided", "rejected"]
DocumentSamples = Annotated[
    tuple[FiniteFloat, ...], FailFast(), Field(max_length=MAX_SAMPLES), BeforeValidator(_require_all_exact)
]
DocumentNames = Annotated[tuple[DocumentName, ...], Field(max_length=1_000)]


def _describe_as_map(schema: dict[str, Any]) -> None:
    """Name the rule of keys apart from that of values, since generators of clients drop patternProperties."""
    [(pattern, value)] = schema.pop("patternProperties").items()
    schema["propertyNames"] = {**schema["propertyNames"], "pattern": pattern}
    schema["additionalProperties"] = value


ObservedPairs = Annotated[
    dict[DocumentName, DocumentText], Field(max_length=1_000, json_schema_extra=_describe_as_map)
]
ChosenPairs = Annotated[
    dict[DocumentName, DocumentLine], Field(max_length=MAX_PARAMETERS, json_schema_extra=_describe_as_map)
]


class DocumentPart(BaseModel):
    """Base of all parts of a document: strict types, and no unknown keys, so that no misspelt key is lost."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class InvalidPart(DocumentPart):
    """Who marked a run or a result as invalid, when and why."""

    reason: DocumentLine
    marked_by: DocumentLine
    marked_at: DocumentTime


class CommitPart(DocumentPart):
    """The measured commit; ``position`` is its place on the first-parent line of its branch."""

    sha: DocumentSha
    parents: Annotated[tuple[DocumentSha, ...], Field(max_length=100)] = ()
    branch: DocumentLine = ""
    tags: DocumentNames = ()
    committed_at: DocumentTime | None = None
    subject: DocumentText = ""
    author: DocumentText = ""
    position: DocumentIndex | None = None
    dirty: bool = False


class MachinePart(DocumentPart):
    """A machine class without host name, serial or kernel; ``name`` is for machines of unknown hardware."""

    cpu: DocumentLine = ""
    cores: DocumentIndex | None = None
    memory_gb: DocumentIndex | None = None
    accelerator: DocumentLine = ""
    accelerators: DocumentIndex = 0
    name: DocumentLine = ""


class SummaryPart(DocumentPart):
    """A summary where raw samples do not exist; ``ci`` is a confidence interval of ``value``."""

    value: DocumentNumber
    ci: tuple[DocumentNumber | None, DocumentNumber | None] | None = None
    q25: DocumentNumber | None = None
    q75: DocumentNumber | None = None
    n: DocumentCount | None = None


class ProcessPart(DocumentPart):
    """One operating-system process; one that failed has a ``reason`` and may have no samples."""

    index: DocumentIndex
    role: Role = Role.HISTORY
    status: Status = Status.OK
    pair: DocumentIndex | None = None
    round: DocumentIndex | None = None
    order: DocumentIndex | None = None
    started_at: DocumentTime | None = None
    duration_s: DocumentNumber | None = None
    clock: Clock = Clock.VALUE
    samples: DocumentSamples = ()
    reason: DocumentText = ""
    exit_code: Annotated[int, Field(ge=-INT32, le=INT32)] | None = None
    stderr_tail: DocumentText = ""
    flags: DocumentNames = ()


class _ProcessSchema:
    """Validates a ``Process`` directly by the rules of ``ProcessPart``, since a run may hold thousands."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        part: Any = handler.resolve_ref_schema(handler(ProcessPart))
        rules = part["schema"]["fields"]
        fields = [dataclass_field(name, rule["schema"], kw_only=True) for name, rule in rules.items()]
        arguments = dataclass_args_schema("process", fields)
        return dataclass_schema(
            Process, arguments, list(rules), post_init=True, slots=True, config=part["config"]
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return handler(ProcessPart.__pydantic_core_schema__)


class SeriesPart(DocumentPart):
    """A series, without the machine, variant and harness that its run names."""

    benchmark: DocumentName
    benchmark_version: DocumentLine = ""
    parameters: ChosenPairs = {}
    metric: DocumentName
    unit: DocumentLine
    direction: Literal["lower", "higher"] = "lower"


class ResultPart(SeriesPart):
    """One metric of one benchmark with its processes, or a summary where raw samples do not exist."""

    status: Status = Status.OK
    reason: DocumentText = ""
    number: DocumentCount | None = None
    boundaries: ProcessBoundaries = ProcessBoundaries.PROCESS
    summary: SummaryPart | None = None
    processes: Annotated[
        tuple[Annotated[Process, _ProcessSchema()], ...], FailFast(), Field(max_length=MAX_PROCESSES)
    ] = ()
    invalid: InvalidPart | None = None

    @model_validator(mode="after")
    def _has_numbers(self) -> Self:
        if (
            self.status is Status.OK
            and not self.summary
            and not any(process.samples for process in self.processes)
        ):
            raise ValueError("a result that is ok needs samples or a summary")
        return self

    @model_validator(mode="after")
    def _has_distinct_processes(self) -> Self:
        places = {(item.role, item.pair, item.round, item.order, item.index) for item in self.processes}
        if len(places) < len(self.processes):
            raise ValueError(
                "two of its processes have the same role, pair, round, order and index: number the processes "
                "of one place by their index"
            )
        return self


RatioInterval = tuple[DocumentRatio, DocumentRatio]
ValueInterval = tuple[DocumentNumber, DocumentNumber]
VerdictWord = Literal[
    "regression", "improvement", "unchanged", "inconclusive", "not_comparable", "missing", "failed"
]


class TailPart(DocumentPart):
    """The verdict on the tail of the samples within processes."""

    kind: VerdictWord
    ratio: DocumentRatio
    interval: RatioInterval | None = None


class VariantVerdictPart(DocumentPart):
    """The verdict of one step on one metric; its series is that of the step."""

    series: SeriesPart
    kind: VerdictWord
    stage: Literal["screening", "confirmation"]
    ratio: DocumentRatio | None = None
    interval: RatioInterval | None = None
    base_level: DocumentNumber | None = None
    head_level: DocumentNumber | None = None
    noise_floor: DocumentShare | None = None
    mde: DocumentShare | None = None
    pairs: DocumentIndex = 0
    pairs_to_decide: DocumentIndex | None = None
    p_value: Annotated[DocumentNumber, Field(ge=0, le=1)] | None = None
    reason: DocumentText = ""
    tail: TailPart | None = None


class NumericsPart(DocumentPart):
    """How one number of a variant compares with that of the baseline."""

    metric: DocumentName
    outcome: Literal["agrees", "rejected", "undecided"]
    text: DocumentText = ""


class StepPart(DocumentPart):
    """One variant or step at one benchmark; the first one is compared with nothing."""

    benchmark: DocumentName
    shared_parameters: ChosenPairs = {}
    name: DocumentLine
    compared_with: DocumentLine = ""
    rejection_reason: DocumentText = ""
    is_total: bool = False
    verdicts: Annotated[tuple[VariantVerdictPart, ...], Field(max_length=MAX_PARTS)] = ()
    numerics: Annotated[tuple[NumericsPart, ...], Field(max_length=MAX_PARTS)] = ()


class VariantComparisonPart(DocumentPart):
    """A comparison of variants of the run's commit, or an ablation, as the session judged it."""

    kind: Literal["vary", "ablation"]
    name: DocumentLine
    created_at: DocumentTime
    steps: Annotated[tuple[StepPart, ...], Field(max_length=MAX_PARTS)] = ()


class GoalClausePart(DocumentPart):
    """One judged clause of a goal; estimate and interval are in the unit of the clause."""

    text: DocumentName
    outcome: GoalWord
    series: SeriesPart | None = None
    estimate: DocumentNumber | None = None
    interval: ValueInterval | None = None
    reason: DocumentText = ""

    @field_validator("text")
    @classmethod
    def _can_be_read(cls, text: str) -> str:
        try:
            parse_clause(text)
        except PerfciError as error:
            raise ValueError(str(error)) from None
        return text


class GoalPart(DocumentPart):
    """A goal as the session judged it at the run's commit; without ``base`` against that commit itself."""

    name: DocumentLine
    subject: DocumentLine = ""
    outcome: GoalWord
    reason: DocumentText = ""
    base: Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")] = ""
    created_at: DocumentTime
    clauses: Annotated[tuple[GoalClausePart, ...], Field(max_length=MAX_PARTS)] = ()


class RunDocument(DocumentPart):
    """All samples of a suite for one commit on one machine in one session.

    ``variant_comparisons`` and ``goals`` are what the session judged at the commit by them.
    """

    model_config = ConfigDict(title=SCHEMA)

    schema_: Literal["perfci.run/1"] = Field(alias="schema")
    project: DocumentName
    session: DocumentName
    commit: CommitPart
    machine: MachinePart
    environment: ObservedPairs = {}
    variant: ChosenPairs = {}
    suite: DocumentLine = ""
    harness: DocumentLine = ""
    started_at: DocumentTime
    finished_at: DocumentTime | None = None
    origin: ChosenPairs = {}
    results: Annotated[tuple[ResultPart, ...], FailFast(), Field(max_length=MAX_RESULTS)] = ()
    invalid: InvalidPart | None = None
    variant_comparisons: Annotated[tuple[VariantComparisonPart, ...], Field(max_length=100)] = ()
    goals: Annotated[tuple[GoalPart, ...], Field(max_length=MAX_PARTS)] = ()

    @model_validator(mode="after")
    def _judges_what_it_measured(self) -> Self:
        measured = {result.benchmark for result in self.results}
        for comparison in self.variant_comparisons:
            for step in comparison.steps:
                for benchmark in (step.benchmark, *(verdict.series.benchmark for verdict in step.verdicts)):
                    if benchmark not in measured:
                        raise ValueError(
                            f"the comparison of variants {comparison.name[:60]!r} judges the benchmark "
                            f"{benchmark[:60]!r}, of which the run has no result"
                        )
        return self

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        max_samples = 10 * MAX_SAMPLES
        if sum(len(process.samples) for result in self.results for process in result.processes) > max_samples:
            raise ValueError(f"a run holds at most {max_samples:,} samples: send it in several sessions")
        return self
