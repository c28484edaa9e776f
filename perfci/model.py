"""Domain values of perfci, frozen: what is measured, where, and what was decided about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

Direction = Literal["lower", "higher"]
"""Which way is good."""

NamedValues = tuple[tuple[str, str], ...]
"""An ordered, hashable mapping of names to values: parameters, variants, observed environments."""


CPU_METRIC_PREFIX = "cpu_"
"""Prefix of the metric with the CPU seconds, where a metric is read with two clocks."""

WALL_METRIC_PREFIX = "wall_"
"""Prefix of the metric with the host's seconds, where a metric is read from an accelerator's clock."""


class PerfciError(Exception):
    """An error for the user: what was expected, what was found, what to do. The command line exits
    with 2."""


class Status(StrEnum):
    """How one process, or one result as a whole, ended."""

    OK = "ok"
    FAILED = "failed"  # raised an exception, or returned something that is no number
    OOM = "oom"  # out of memory: a Python or CUDA OutOfMemoryError, or killed by the kernel for it
    TIMEOUT = "timeout"
    CRASHED = "crashed"  # ended by a signal that is no memory kill: a segfault, an abort
    SKIPPED = "skipped"


class Clock(StrEnum):
    """What a sample was read from; it decides how a process's samples become its level."""

    WALL = "wall"
    CPU = (
        "cpu"  # CPU seconds of the process: a neighbour can only swell it, so the lower quartile is the level
    )
    DEVICE = "device"  # accelerator events
    EXACT = "exact"  # a count or a byte sum that repeats exactly
    VALUE = "value"  # anything else a benchmark returned
    INFORMATIONAL = (
        "informational"  # derived from a judged metric, or an annotation beside it: shown, never judged
    )


class MetricClass(StrEnum):
    """What a metric measures; each class has its own bar."""

    TIME = "time"
    MEMORY = "memory"
    COUNT = "count"
    COMPILE = "compile"
    TAIL = "tail"
    THROUGHPUT = "throughput"
    SLA = "sla"
    NUMERICS = "numerics"
    OTHER = "other"


class Role(StrEnum):
    """Which side of a comparison a process was measured for."""

    BASE = "base"
    HEAD = "head"
    HISTORY = "history"


class ProcessBoundaries(StrEnum):
    """Whether the samples of a result are still separated by process."""

    PROCESS = "process"
    POOLED = "pooled"  # several processes poured together
    UNKNOWN = "unknown"


class VerdictKind(StrEnum):
    """Outcomes of a comparison; a superseded verdict is kept and never edited."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    UNCHANGED = "unchanged"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not_comparable"
    MISSING = "missing"
    FAILED = "failed"


class Stage(StrEnum):
    """Screening is sensitive and selects candidates; confirmation rests on fresh pairs that no
    earlier look has seen. Separate runs were not measured side by side: their noise is known from the
    history."""

    SCREENING = "screening"
    CONFIRMATION = "confirmation"
    SEPARATE_RUNS = "separate_runs"


class IncidentKind(StrEnum):
    """What a group of change points turned out to be; only changes of the code page a person."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    MIXED = "mixed"
    ENVIRONMENT = "environment"  # came with a driver, a library, a kernel: no commit is blamed
    MACHINE = "machine"  # a state, a bad day, a shift shared with a canary
    RESOLVED = "resolved"  # went away by itself within a few commits


class IncidentState(StrEnum):
    """Triage state of an incident; every incident begins as new."""

    NEW = "new"
    INVESTIGATING = "investigating"
    CULPRIT_FOUND = "culprit_found"
    FIXED = "fixed"
    ACCEPTED = "accepted"  # for a reason and until a day: its level is the new baseline
    REVERTED = "reverted"
    ENVIRONMENT = "environment"  # a person says that no commit is to blame
    INVALID = "invalid"  # nothing moved after all
    DUPLICATE = "duplicate"  # of another incident
    SNOOZED = "snoozed"


def freeze_named_values(mapping: Mapping[str, object]) -> NamedValues:
    """Freeze a mapping in its own order, values as text."""
    return tuple((str(name), str(value)) for name, value in mapping.items())


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the measured code. ``position`` counts first-parent ancestors; absent without git."""

    sha: str
    subject: str = ""
    author: str = ""
    committed_at: datetime | None = None
    parents: tuple[str, ...] = ()
    branch: str = ""
    tags: tuple[str, ...] = ()
    position: int | None = None
    dirty: bool = False

    @property
    def short_sha(self) -> str:
        return self.sha[:10] + ("+" if self.dirty else "")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine class: equal for two boots of the same hardware, so without host name, clock,
    serial or kernel.

    ``name`` is set only for results from elsewhere whose hardware is not known (an asv machine
    name).
    """

    cpu: str = ""
    cores: int | None = None
    memory_gb: int | None = None
    accelerator: str = ""
    accelerators: int = 0
    name: str = ""

    @property
    def label(self) -> str:
        """Display name, e.g. ``2x NVIDIA H200`` or ``AMD EPYC, 2 cores, 23 GB``."""
        if self.name:
            return self.name
        if self.accelerator:
            return f"{self.accelerators}x {self.accelerator}"
        parts = [self.cpu or "unknown CPU"]
        parts += [f"{self.cores} cores"] if self.cores else []
        parts += [f"{self.memory_gb} GB"] if self.memory_gb else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Environment:
    """Observed values (driver, torch patch level, kernel): a covariate, never part of a series."""

    values: NamedValues = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """Chosen environment axes: an asv matrix entry, a Python x.y, a torch channel."""

    values: NamedValues = ()

    @property
    def label(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values)


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured, in ``seconds``, ``bytes``, ``count`` or a unit the suite declares."""

    name: str
    unit: str
    direction: Direction = "lower"

    @property
    def cost_sign(self) -> float:
        """+1 where a larger value is worse, -1 where it is better."""
        return 1.0 if self.direction == "lower" else -1.0

    @property
    def tail_name(self) -> str:
        """The quantile that one sample in ten is worse than."""
        return "p90" if self.direction == "lower" else "p10"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A named thing measured; another ``version`` is another benchmark whose numbers are not
    comparable."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Series:
    """The identity of one line of numbers over the commits of a branch."""

    benchmark: Benchmark
    parameters: NamedValues
    metric: Metric
    machine: Machine
    variant: Variant = field(default_factory=Variant)
    harness: str = ""

    def __hash__(self) -> int:
        """Hash of the fields that differ most: a page looks up thousands of series, and hashing all
        fields is slow."""
        return hash((self.benchmark.name, self.parameters, self.metric.name))

    @property
    def cell(self) -> str:
        """Benchmark and parameters as asv writes them: ``training.Step.time_step(8, 'bf16')``."""
        return cell_name(self.benchmark.name, self.parameters)

    @property
    def label(self) -> str:
        """Cell and metric, as shown to the user."""
        return f"{cell_name(self.benchmark.name, self.parameters)} · {self.metric.name}"

    @property
    def key_without_metric(self) -> tuple[object, ...]:
        """What the metrics of one process share: the identity but for the metric."""
        return (self.benchmark, self.parameters, self.machine, self.variant, self.harness)


def cell_name(benchmark: str, parameters: NamedValues) -> str:
    """Name one point of a benchmark's grid the way asv's ``--bench`` expressions match it."""
    return f"{benchmark}({', '.join(value for _, value in parameters)})" if parameters else benchmark


class PrecisionTolerance(NamedTuple):
    """Relative differences of numerics that pass."""

    loss: float
    grad_norm: float
    outputs: float


PRECISION_TOLERANCES = {  # finest first
    "fp64": PrecisionTolerance(1e-7, 1e-6, 1e-7),
    "fp32": PrecisionTolerance(1e-5, 1e-4, 1e-5),
    "tf32": PrecisionTolerance(2e-3, 2e-2, 3e-3),
    "fp16": PrecisionTolerance(2e-3, 2e-2, 3e-3),
    "bf16": PrecisionTolerance(5e-3, 5e-2, 2e-2),
    "fp8": PrecisionTolerance(2e-2, 2e-1, 1e-1),
}
"""Allowed difference of a variant from the same model in fp32, by the number format it computes in.

fp32 (another attention kernel), fp16 and bf16 (autocast) are at least four times the largest difference
seen in small GPTs on a CPU: in 60 steps, two seeds, the loss falling from 6.4 to 1.1, and in the outputs of
4 and 12 layers, three seeds. Those were 2.7e-7, 2.6e-4 and 5.8e-4 in the loss, 1.4e-6, 1.4e-3 and 2.4e-3 in
the gradient norm, 5.3e-7, 5.5e-4 and 4.7e-3 in the outputs. A model that magnifies the rounding of its
weights is allowed more (``perfci.bench.metric_groups.rounding_tolerance``). fp64 is the
rtol of ``torch.testing.assert_close``. tf32 has the mantissa of fp16 and so its tolerance. fp8 is a third of
the rounding of e4m3 (2^-4) for the loss; neither it nor tf32 has been measured here.
"""

PRECISION_NAMES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
}


def short_precision_name(precision: str) -> str:
    """``bf16`` for ``torch.bfloat16``; what has no short name is returned in lower case."""
    name = precision.removeprefix("torch.").lower()
    return "fp8" if name.startswith("float8") else PRECISION_NAMES.get(name, name)


ALTERNATING_FLAG = "in turns"
"""Flag of a process whose k-th sample was taken next to the k-th sample of the other one of its
pair."""


@dataclass(frozen=True, slots=True)
class Process:
    """One fresh OS process of a benchmark, the unit of replication, with its raw samples of one metric."""

    index: int
    role: Role = Role.HISTORY
    status: Status = Status.OK
    samples: tuple[float, ...] = ()
    clock: Clock = Clock.VALUE
    pair: int | None = None
    round: int | None = None
    order: int | None = None
    started_at: datetime | None = None
    duration_s: float | None = None
    reason: str = ""
    exit_code: int | None = None
    stderr_tail: str = ""
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status is Status.OK and not self.samples:
            raise ValueError("a process that ended ok needs at least one sample")
        if not all(map(math.isfinite, self.samples)):
            raise ValueError("samples must be finite numbers; a missing reading is a status with a reason")


Measured = tuple[Series, Process]
"""One process with the series it was measured for."""


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """Summary of a result's processes: all that a history is judged by, so no sample is read again
    for it.

    ``level`` is absent where no process is usable, ``clock`` where processes were read from
    different clocks; ``spread`` is the range from the lowest to the highest usable sample.
    """

    level: float | None
    clock: Clock | None
    spread: float | None

    @property
    def repeats_exactly(self) -> bool:
        """Whether all usable samples are one exact value."""
        return self.level is None or (self.clock is Clock.EXACT and self.spread == 0)


@dataclass(frozen=True, slots=True)
class SampleSummary:
    """Summary statistics in place of raw samples, or those a foreign tool computed beside them."""

    value: float
    ci_lo: float | None = None
    ci_hi: float | None = None
    q25: float | None = None
    q75: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class InvalidMark:
    """Who marked a run or a point as invalid, when and why: it is kept and shown, and never judged."""

    reason: str
    marked_by: str
    marked_at: datetime


@dataclass(frozen=True, slots=True)
class Result:
    """One run's result for one series: processes with samples, or a summary, or the reason for neither."""

    series: Series
    status: Status
    processes: tuple[Process, ...] = ()
    summary: SampleSummary | None = None
    boundaries: ProcessBoundaries = ProcessBoundaries.PROCESS
    number: int | None = None
    reason: str = ""
    invalid: InvalidMark | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """All samples of a suite for one commit on one machine in one session.

    The first run of a session at a commit carries what the session judged by variants and goals.
    """

    project: str
    session: str
    commit: Commit
    machine: Machine
    environment: Environment
    variant: Variant
    suite: str
    harness: str
    started_at: datetime
    finished_at: datetime | None = None
    origin: NamedValues = ()
    results: tuple[Result, ...] = ()
    invalid: InvalidMark | None = None
    variant_comparisons: tuple[VariantComparisonRecord, ...] = ()
    goals: tuple[GoalRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """All processes of one series at one commit, of however many runs."""

    commit: Commit
    status: Status
    processes: tuple[Process, ...] = ()
    summary: SampleSummary | None = None
    boundaries: ProcessBoundaries = ProcessBoundaries.PROCESS
    environment: Environment = field(default_factory=Environment)
    reason: str = ""
    invalid: InvalidMark | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval of a ratio head/base."""

    lo: float
    hi: float


@dataclass(frozen=True, slots=True)
class TailVerdict:
    """What the tail of the samples within processes did: p90, or p10 where more is better.

    ``ratio`` is head/base of that quantile. ``interval`` leaves out half the error of the median's, since
    it answers a second question on the same pairs. It decides nothing: no check turns red for a tail.
    """

    kind: VerdictKind
    ratio: float
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about one series between two commits; every surface prints this object.

    ``ratio`` is head/base of the raw value (1.08 = 8 % more), whatever the direction; ``kind``
    accounts for which way is good. Where ``ratio`` is estimated from pairs, ``head_level`` is
    ``base_level`` times it. ``noise_floor`` and ``mde`` are ratios minus 1 (0.03 = 3 %); without A/A runs
    there is no noise floor, though verdicts stored by older versions have the half width of their interval.
    ``pairs_to_decide`` is how many more pairs (of separate runs: runs of the head) would probably
    settle an inconclusive verdict: 0 for a settled one, absent where no reasonable number would.
    ``tail`` is absent where processes have too few samples to have one, and in verdicts from before
    it was stored.
    """

    kind: VerdictKind
    stage: Stage
    series: Series
    base: str
    head: str
    ratio: float | None = None
    interval: Interval | None = None
    base_level: float | None = None
    head_level: float | None = None
    noise_floor: float | None = None
    mde: float | None = None
    pairs: int = 0
    pairs_to_decide: int | None = None
    p_value: float | None = None
    reason: str = ""
    evidence: tuple[int, ...] = ()
    tail: TailVerdict | None = None

    @property
    def noise(self) -> float:
        """The noise to allow for: the noise floor, else half of the interval, as a ratio minus 1."""
        if self.noise_floor is not None:
            return self.noise_floor
        if self.interval is None or not 0 < self.interval.lo <= self.interval.hi:
            return 0.0
        return math.sqrt(self.interval.hi / self.interval.lo) - 1

    @property
    def as_change_point(self) -> ChangePoint:
        """The change that these pairs measured; without levels, of a level of 1."""
        before = 1.0 if self.base_level is None else self.base_level
        after = level_matching_ratio(
            before, self.ratio, before if self.head_level is None else self.head_level
        )
        return ChangePoint(self.series, self.head, self.base, before, after, self.interval)


@dataclass(frozen=True, slots=True)
class VariantNumericsRecord:
    """How one number of a variant compares with that of the baseline: ``agrees``, ``rejected`` or
    ``undecided``; ``text`` states both and the tolerance.
    """

    metric: str
    outcome: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class VariantStepRecord:
    """One variant or step at one benchmark with its verdicts; ``is_total`` is that of an ablation.

    The first one of a benchmark is compared with nothing. One with a ``rejection_reason`` does not count.
    ``numerics`` were held to a tolerance.
    """

    benchmark: str
    shared_parameters: NamedValues
    name: str
    compared_with: str = ""
    verdicts: tuple[Verdict, ...] = ()
    rejection_reason: str = ""
    is_total: bool = False
    numerics: tuple[VariantNumericsRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class VariantComparisonRecord:
    """A comparison of variants of one commit: its kind is ``vary`` or ``ablation``.

    ``name`` is what was varied, or the name of the ablation. ``is_invalid`` says that a run it rests on was
    marked as invalid.
    """

    kind: str
    name: str
    sha: str
    session_uid: str
    created_at: datetime
    steps: tuple[VariantStepRecord, ...]
    id: int = 0
    is_invalid: bool = False


@dataclass(frozen=True, slots=True)
class GoalClauseRecord:
    """One judged clause; estimate and interval are in the unit of the clause."""

    text: str
    outcome: str
    series: Series | None = None
    estimate: float | None = None
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GoalRecord:
    """A goal as one session judged it; ``subject`` names the variants it was judged on."""

    name: str
    subject: str
    outcome: str
    reason: str
    base: str
    head: str
    session_uid: str
    created_at: datetime
    clauses: tuple[GoalClauseRecord, ...]
    is_invalid: bool = False


def level_matching_ratio(before: float, ratio: float | None, measured: float) -> float:
    """The level that is shown beside this ratio: the measured one, unless dividing it gives another ratio."""
    if ratio is None or math.isclose(measured, before * ratio, rel_tol=1e-9):
        return measured
    return before * ratio


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A commit where the level of a series moves from ``before`` to ``after``, as every surface shows it.

    ``interval`` is that of after/before; absent where it is not known, without width where both values
    are exact. The move happened after ``last_good`` and not later than ``commit``. ``noise`` is the standard
    deviation of one point around the levels, as a log ratio. ``p_value`` is that of no change, 0 where both
    values are exact; both are absent where the history shows no step.
    """

    series: Series
    commit: str
    last_good: str
    before: float
    after: float
    interval: Interval | None = None
    noise: float | None = None
    p_value: float | None = None

    @property
    def is_exact(self) -> bool:
        """Whether both values repeat exactly, so that the change is certain."""
        return self.p_value == 0

    @property
    def sigmas(self) -> float:
        """Size in units of the noise of one point; 0 where that is not known."""
        return abs(self.log_cost_change) / self.noise if self.noise else 0.0

    @property
    def relative_change(self) -> float:
        """After/before - 1; from zero, where no ratio exists, 100 % in the direction of the change."""
        if not self.before:
            return math.copysign(1.0, self.after) if self.after else 0.0
        return (self.after - self.before) / abs(self.before)

    @property
    def relative_interval(self) -> tuple[float, float] | None:
        """The interval of ``relative_change``."""
        return (self.interval.lo - 1, self.interval.hi - 1) if self.interval else None

    @property
    def log_cost_change(self) -> float:
        """Log shift of the level, positive where things got worse; infinite where no ratio exists, as from
        zero."""
        worse = (self.after > self.before) == (self.series.metric.direction == "lower")
        possible = self.before > 0 and self.after > 0
        size = abs(math.log(self.after / self.before)) if possible else math.inf
        return size if worse else -size


@dataclass(frozen=True, slots=True)
class CandidateCommit:
    """A commit that may have caused an incident: ``members`` series point at it, ``weight`` is
    their evidence in total."""

    commit: Commit
    members: int
    weight: float


@dataclass(frozen=True, slots=True)
class Retest:
    """A request for fresh pairs: a jump seen only on the newest points, or a step of unclear
    origin."""

    series: Series
    base: str
    head: str
    reason: str


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """A value of the environment that changed; empty where it was not observed."""

    name: str
    before: str
    after: str


class PairTest(NamedTuple):
    """P-value of one verdict on fresh pairs; ``arrival`` grows with the time they were stored."""

    arrival: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Incident:
    """One commit range with all the series that moved in it, derived from stored results.

    The change came after ``last_good`` and not later than ``commit``. ``members`` come largest
    first, ``candidates`` likeliest first. ``cause`` names what explains it where no commit does.
    ``p_value`` is that of no series having moved, by the history; ``pair_tests`` are those of all its
    fresh pairs, ``confirming_tests`` those that confirmed what got worse.
    ``settled`` says that three points, fresh pairs or an exact count support it,
    ``confirmed_count`` how many members fresh pairs confirmed, ``ongoing`` that at least one
    regression has not been recovered since. ``pair_to_measure`` is
    the pair of commits that would tell more.
    """

    id: str
    kind: IncidentKind
    last_good: str
    commit: str
    members: tuple[ChangePoint, ...]
    candidates: tuple[CandidateCommit, ...] = ()
    cause: str = ""
    environment_changes: tuple[EnvironmentChange, ...] = ()
    ambiguous: bool = False
    reverted_by: str = ""
    sessions: tuple[str, ...] = ()
    p_value: float = 1.0
    pair_tests: tuple[PairTest, ...] = ()
    confirming_tests: tuple[PairTest, ...] = ()
    settled: bool = False
    confirmed_count: int = 0
    ongoing: bool = False
    pair_to_measure: tuple[str, str] | None = None
    measured_at: datetime | None = None

    @property
    def smallest_p_value(self) -> float:
        """The p-value of the history or of confirming pairs, whichever is smaller."""
        return min([self.p_value, *(test.p_value for test in self.confirming_tests)])
