"""Measure the visits of a plan, and store every process the moment it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from sqlalchemy.orm import Session as Transaction

from perfci.history.decision_records import DecisionKey, build_decision_key
from perfci.history.series_histories import update_result_summaries
from perfci.measure.tail_metrics import add_tail_metrics
from perfci.model import (
    Benchmark,
    Commit,
    Measured,
    Metric,
    NamedValues,
    Process,
    Run,
    Series,
    Status,
    Verdict,
)
from perfci.runner.cell_outcomes import CellOutcome, Discovery, MeasuredMetric
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell, DiscoveredBenchmark
from perfci.runner.visit_plan import CommitVisit
from perfci.store import Store
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.verdict_decision_records import DecisionRecord, add_verdict_decision_records
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import (
    add_process_measurements,
    find_or_add_run,
    finish_session,
    start_session,
)

OnProcess = Callable[[CommitVisit, CellOutcome], None]
"""Called after each process with the visit it belongs to and how it ended."""


@dataclass(frozen=True, slots=True)
class SessionScope:
    """What a session measures: the commits by sha, and the cells the suite has for them."""

    commits: Mapping[str, Commit]
    discovery: Discovery
    cells: tuple[Cell, ...]


class SessionProgress(Protocol):
    """Receives the messages, stages and processes of a session. Totals count processes."""

    def report(self, line: str) -> None: ...
    def start_stage(self, name: str, total: int) -> None: ...
    def set_remaining_processes(self, remaining: int) -> None: ...
    def limit_stage_seconds(self, seconds: float) -> None: ...
    def report_with_time_left(self, line: str) -> None: ...
    def report_process(self, visit: CommitVisit, outcome: CellOutcome) -> None: ...


@dataclass(slots=True)
class SessionReadings:
    """The stored processes of one session, each under its row id.

    One process counts once for each metric it gave.
    """

    processes_by_sha: dict[str, list[Measured]] = field(default_factory=dict)
    processes_by_id: dict[int, Process] = field(default_factory=dict)
    _row_ids: dict[tuple[str, Series], list[int]] = field(default_factory=dict)  # by sha and series
    _by_cell: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)  # by sha and cell name

    def __len__(self) -> int:
        return len(self.processes_by_id)

    def add_process(self, sha: str, row_id: int, series: Series, process: Process) -> None:
        """Index one stored process."""
        self.processes_by_sha.setdefault(sha, []).append((series, process))
        self._by_cell.setdefault((sha, series.cell), []).append((series, process))
        self._row_ids.setdefault((sha, series), []).append(row_id)
        self.processes_by_id[row_id] = process

    def has_series(self, series: Series) -> bool:
        """Whether any process of the session gave this series."""
        return any((sha, series) in self._row_ids for sha in self.processes_by_sha)

    def get_commit_processes(self, sha: str) -> Sequence[Measured]:
        """All processes of one commit, in the order they were stored."""
        return self.processes_by_sha.get(sha, ())

    def get_cell_processes(self, sha: str, cell: Cell) -> Sequence[Measured]:
        """The processes of one cell at one commit."""
        return self._by_cell.get((sha, cell.name), ())

    def get_process_row_ids(self, sha: str, series: Series) -> Sequence[int]:
        """The rows of one series at one commit."""
        return self._row_ids.get((sha, series), ())

    def list_processes(self) -> Iterator[Process]:
        """Every process of the session, commit by commit."""
        return (process for rows in self.processes_by_sha.values() for _, process in rows)


@dataclass
class MeasurementSession:
    """The writer of one session: it measures visits, stores their processes and keeps them as ``readings``.

    ``statuses`` and ``work_s`` are of the processes that ran here: a resumed session does not repeat the
    earlier ones. ``work_s`` is the time in seconds that setup, run and teardown took inside the processes.
    """

    store: Store
    runner: MeasurementRunner
    project: str
    uid: str
    seed: int
    scope: SessionScope
    on_process: OnProcess = lambda visit, outcome: None
    readings: SessionReadings = field(default_factory=SessionReadings)
    statuses: list[Status] = field(default_factory=list)
    work_s: float = 0.0
    _run_ids: dict[str, int] = field(default_factory=dict)  # by sha

    def start(self, kind: str, spec_hash: str, rounds: int) -> None:
        """Store the commits and the session, before its first process."""
        with self.store.begin() as tx:
            upsert_commits(tx, self.project, list(self.scope.commits.values()))
            start_session(tx, self.project, self.uid, kind, spec_hash, self.seed, rounds, datetime.now(UTC))

    def load_committed_readings(self) -> None:
        """Read back what an interrupted session had already committed."""
        with self.store.read() as tx:
            for row in load_session_processes(tx, self.uid):
                self.readings.add_process(row.sha, row.id, row.series, row.process)

    def finish(self) -> None:
        """Mark the session as complete, so that it is not resumed."""
        with self.store.begin() as tx:
            finish_session(tx, self.uid, datetime.now(UTC))

    def record_verdicts(
        self,
        verdicts: Sequence[Verdict],
        decisions: Mapping[DecisionKey, DecisionRecord],
        *,
        false_discovery_rate: float | None = None,
    ) -> None:
        """Store verdicts and how each was reached; one on fresh pairs supersedes that of its screening.

        A verdict without a single complete pair has no decision. ``false_discovery_rate`` is the rate to
        which the verdicts were controlled together.
        """
        with self.store.begin() as tx:
            row_ids = add_verdicts(tx, self.project, self.uid, list(verdicts), datetime.now(UTC))
            records = {}
            for row_id, verdict in zip(row_ids, verdicts, strict=True):
                decision = decisions.get(build_decision_key(verdict))
                if decision is not None:
                    records[row_id] = replace(decision, rate=false_discovery_rate)
            add_verdict_decision_records(tx, records)

    def measure_visit(
        self,
        visit: CommitVisit,
        cells: Sequence[Cell] | None = None,
        has_room_for: Callable[[Cell], bool] = lambda cell: True,
    ) -> bool:
        """Visit one commit; each process is in the database before the next one starts.

        Returns whether the visit is complete: it ends before the first cell that there is no room for.
        """
        planned = cells or visit.cells
        outcomes = self.runner.visit_commit(visit.sha, planned)
        for index, cell in enumerate(planned):
            if not has_room_for(cell):
                self.runner.close_fork_servers()  # the worker waits for the cell that does not come
                return False
            outcome, discovery = next(outcomes)
            self._store_outcome(visit, index, outcome, discovery)
        for _ in outcomes:  # the end of the visit comes after its last cell
            pass
        return True

    def measure_interleaved_visits(self, visits: Sequence[CommitVisit]) -> None:
        """Visit what is to be compared.

        The processes alternate where they can, else they follow each other.
        """
        if not self.runner.can_interleave(visit.sha for visit in visits):
            for visit in visits:
                self.measure_visit(visit)
            return
        # Two visits compare one cell at two commits; a single visit compares the variants of one commit,
        # which is then visited once for each variant.
        first, *others = visits
        rows: Sequence[Sequence[Cell]]
        if others:
            sides = list(visits)
            rows = [[cell] * len(visits) for cell in first.cells]
        else:
            sides = [first] * max(map(len, first.variant_groups))
            rows = first.variant_groups
        index = Counter[CommitVisit]()
        for outcomes in self.runner.visit_commits_interleaved([side.sha for side in sides], rows):
            # Not strict: a group of variants may be smaller than the largest one.
            for side, (outcome, discovery) in zip(sides, outcomes, strict=False):
                self._store_outcome(side, index[side], outcome, discovery)
                index[side] += 1

    def _store_outcome(
        self, visit: CommitVisit, index: int, outcome: CellOutcome, discovery: Discovery
    ) -> None:
        rows = list(self._build_rows(visit, index, outcome, discovery))
        if self.runner.settings.run.tails:
            rows = add_tail_metrics(rows, self.readings.has_series)
        with self.store.begin() as tx:
            row_ids = add_process_measurements(tx, self._get_run_id(tx, visit.sha), rows)
            update_result_summaries(tx, row_ids)
        for row_id, (series, process) in zip(row_ids, rows, strict=True):
            self.readings.add_process(visit.sha, row_id, series, process)
        self.statuses.append(outcome.status)
        self.work_s += outcome.work_s
        self.on_process(visit, outcome)

    def _get_run_id(self, tx: Transaction, sha: str) -> int:
        """Store one run per commit, with its first process."""
        if sha not in self._run_ids:
            bench = self.runner
            run = Run(
                project=self.project,
                session=self.uid,
                commit=self.scope.commits[sha],
                machine=bench.machine,
                environment=bench.describe_environment(sha),
                variant=bench.describe_environment_variant(sha),
                suite=bench.suite.name,
                harness=bench.harness,
                started_at=datetime.now(UTC),
                origin=self._origin,
            )
            self._run_ids[sha] = find_or_add_run(tx, run)
        return self._run_ids[sha]

    @property
    def _origin(self) -> NamedValues:
        """The job that measures; it may measure a commit in several sessions, and each is a step of it."""
        job = self.runner.origin
        return (*job, ("step", self.uid)) if job else ()

    def _build_rows(
        self, visit: CommitVisit, index: int, outcome: CellOutcome, discovery: Discovery
    ) -> Iterable[Measured]:
        name = outcome.cell.benchmark
        benchmark = discovery.benchmarks.get(name) or self.scope.discovery.benchmarks[name]
        for metric in outcome.metrics or _build_failed_metrics(benchmark, outcome):
            series = Series(
                benchmark=Benchmark(name, benchmark.version),
                parameters=outcome.cell.parameters,
                metric=Metric(metric.name, metric.unit, metric.direction),
                machine=self.runner.machine,
                variant=self.runner.describe_environment_variant(visit.sha),
                harness=self.runner.harness,
            )
            process = Process(
                index=index,
                role=visit.role_of_cell(outcome.cell),
                status=metric.status,
                samples=metric.samples,
                clock=metric.clock,
                pair=visit.pair,
                round=visit.round,
                order=visit.order,
                started_at=outcome.started_at,
                duration_s=outcome.duration_s,
                reason=metric.reason,
                exit_code=outcome.exit_code,
                stderr_tail=outcome.stderr_tail,
                flags=outcome.flags,
            )
            yield series, process


def _build_failed_metrics(benchmark: DiscoveredBenchmark, outcome: CellOutcome) -> Iterable[MeasuredMetric]:
    """Record a process that gave nothing under every metric it should have given."""
    for declared in benchmark.metrics:
        metric = declared.metric
        yield MeasuredMetric(
            name=metric.name,
            unit=metric.unit,
            direction=metric.direction,
            clock=declared.clock,
            number=1,
            samples=(),
            status=outcome.status,
            reason=outcome.reason,
        )
