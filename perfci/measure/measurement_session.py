"""Measure what a plan says and commit every process the moment it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from perfci.history.result_summaries import save_summaries
from perfci.model import Benchmark, Commit, Measured, Metric, NamedValues, Process, Run, Series, Status
from perfci.runner.cell_outcomes import CellOutcome, Discovery, MeasuredMetric
from perfci.runner.frozen_suite import Cell, DiscoveredBenchmark
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.visit_plan import CommitVisit
from perfci.store import Store
from perfci.store.queries.decisions import DecisionRecord
from perfci.store.queries.measurements import load_session_processes
from perfci.store.writes.ingest import add_processes, add_run, finish_session, start_session, upsert_commits

OnProcess = Callable[[CommitVisit, CellOutcome], None]


@dataclass
class MeasurementSession:
    """One measuring session: what it measures with, where its rows go, and what it has so far."""

    store: Store
    workbench: MeasurementRunner
    project: str
    uid: str
    seed: int
    commits: Mapping[str, Commit]
    benchmarks: Mapping[str, DiscoveredBenchmark]
    on_process: OnProcess = lambda visit, outcome: None
    processes_by_sha: dict[str, list[Measured]] = field(default_factory=dict)  # by sha
    row_ids: dict[tuple[str, Series], list[int]] = field(default_factory=dict)  # row ids by sha and series
    processes_by_id: dict[int, Process] = field(default_factory=dict)  # by row id
    decisions: dict[tuple[Series, str, str], DecisionRecord] = field(
        default_factory=dict
    )  # by series, base and head
    statuses: list[Status] = field(default_factory=list)
    work_s: float = 0.0  # what setup, run and teardown took inside the processes
    _runs: dict[str, int] = field(default_factory=dict)
    _cells: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)  # by sha and cell

    def start(self, kind: str, spec_hash: str, rounds: int) -> None:
        with self.store.begin() as tx:
            upsert_commits(tx, self.project, list(self.commits.values()))
            start_session(tx, self.project, self.uid, kind, spec_hash, self.seed, rounds, datetime.now(UTC))

    def resume(self) -> None:
        """Take up what an interrupted session had already committed."""
        with self.store.read() as tx:
            for row in load_session_processes(tx, self.uid):
                self._index_process(row.sha, row.id, row.series, row.process)

    def finish(self) -> None:
        with self.store.begin() as tx:
            finish_session(tx, self.uid, datetime.now(UTC))

    def measure_visit(self, visit: CommitVisit, cells: Sequence[Cell] | None = None) -> None:
        """Visit one commit; each process is in the database before the next one starts."""
        for index, measured in enumerate(self.workbench.visit(visit.sha, cells or visit.cells)):
            self._store_outcome(visit, index, *measured)

    def measure_interleaved(self, visits: Sequence[CommitVisit]) -> None:
        """Visit what is to be compared: the processes take turns where they can, else they follow each other."""
        if not self.workbench.can_interleave(visit.sha for visit in visits):
            for visit in visits:
                self.measure_visit(visit)
            return
        first, *others = visits
        variants = first.variant_groups  # of one commit, which is then visited once for each
        rows: Sequence[Sequence[Cell]] = (
            [[cell] * len(visits) for cell in first.cells] if others else variants
        )
        sides = visits if others else [first] * max(map(len, variants))
        index = Counter[CommitVisit]()
        for measured in self.workbench.visit_interleaved([side.sha for side in sides], rows):
            for side, one in zip(sides, measured, strict=False):
                self._store_outcome(side, index[side], *one)
                index[side] += 1

    def get_cell_processes(self, sha: str, cell: Cell) -> Sequence[Measured]:
        """All that the processes of one cell gave at one commit."""
        return self._cells.get((sha, cell.name), ())

    def _store_outcome(
        self, visit: CommitVisit, index: int, outcome: CellOutcome, discovery: Discovery
    ) -> None:
        rows = list(self._build_rows(visit, index, outcome, discovery))
        with self.store.begin() as tx:
            ids = add_processes(tx, self._get_run_id(tx, visit.sha), rows)
            save_summaries(tx, ids)
        for row_id, (series, process) in zip(ids, rows, strict=True):
            self._index_process(visit.sha, row_id, series, process)
        self.statuses.append(outcome.status)
        self.work_s += outcome.work_s
        self.on_process(visit, outcome)

    def _index_process(self, sha: str, row_id: int, series: Series, process: Process) -> None:
        self.processes_by_sha.setdefault(sha, []).append((series, process))
        self._cells.setdefault((sha, series.cell), []).append((series, process))
        self.row_ids.setdefault((sha, series), []).append(row_id)
        self.processes_by_id[row_id] = process

    def _get_run_id(self, tx: object, sha: str) -> int:
        if sha not in self._runs:
            bench = self.workbench
            run = Run(
                project=self.project,
                session=self.uid,
                commit=self.commits[sha],
                machine=bench.machine,
                environment=bench.environment(sha),
                variant=bench.variant(sha),
                suite=bench.suite.name,
                harness=bench.harness,
                started_at=datetime.now(UTC),
                origin=self._origin,
            )
            self._runs[sha] = add_run(tx, run)  # type: ignore[arg-type]
        return self._runs[sha]

    @property
    def _origin(self) -> NamedValues:
        """One job may measure a commit in several sessions: each is a step of it."""
        job = self.workbench.origin
        return (*job, ("step", self.uid)) if job else ()

    def _build_rows(
        self, visit: CommitVisit, index: int, outcome: CellOutcome, discovery: Discovery
    ) -> Iterable[Measured]:
        name = outcome.cell.benchmark
        benchmark = discovery.benchmarks.get(name) or self.benchmarks[name]
        for one in outcome.metrics or _build_failed_metrics(benchmark, outcome):
            series = Series(
                benchmark=Benchmark(name, benchmark.version),
                parameters=outcome.cell.parameters,
                metric=Metric(one.name, one.unit, one.direction),
                machine=self.workbench.machine,
                variant=self.workbench.variant(visit.sha),
                harness=self.workbench.harness,
            )
            yield (
                series,
                Process(
                    index=index,
                    role=visit.role_of(outcome.cell),
                    status=one.status,
                    samples=one.samples,
                    clock=one.clock,
                    pair=visit.pair,
                    round=visit.round,
                    order=visit.order,
                    started_at=outcome.started_at,
                    duration_s=outcome.duration_s,
                    reason=one.reason,
                    exit_code=outcome.exit_code,
                    stderr_tail=outcome.stderr_tail,
                    flags=outcome.flags,
                ),
            )


def _build_failed_metrics(benchmark: DiscoveredBenchmark, outcome: CellOutcome) -> Iterable[MeasuredMetric]:
    """A process that gave nothing is written down under every metric it should have given."""
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
