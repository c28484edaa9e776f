"""Measure what a plan says and commit every process the moment it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from perfci.history.result_summaries import keep_measured
from perfci.model import Benchmark, Commit, Measured, Metric, Pairs, Process, Run, Series, Status
from perfci.runner.cell_outcomes import Discovery, MeasuredMetric, Outcome
from perfci.runner.frozen_suite import Cell, DiscoveredBenchmark
from perfci.runner.measurement_runner import Workbench
from perfci.runner.visit_plan import Visit
from perfci.store import Store
from perfci.store.queries.decisions import DecisionRecord
from perfci.store.queries.measurements import session_processes
from perfci.store.writes.ingest import add_processes, add_run, finish_session, start_session, upsert_commits

OnProcess = Callable[[Visit, Outcome], None]


@dataclass
class Session:
    """One measuring session: what it measures with, where its rows go, and what it has so far."""

    store: Store
    workbench: Workbench
    project: str
    uid: str
    seed: int
    commits: Mapping[str, Commit]
    benchmarks: Mapping[str, DiscoveredBenchmark]
    on_process: OnProcess = lambda visit, outcome: None
    measured: dict[str, list[Measured]] = field(default_factory=dict)  # by sha
    evidence: dict[tuple[str, Series], list[int]] = field(default_factory=dict)  # row ids by sha and series
    stored: dict[int, Process] = field(default_factory=dict)  # by row id
    decisions: dict[tuple[Series, str, str], DecisionRecord] = field(default_factory=dict)  # by series, base and head
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
            for row in session_processes(tx, self.uid):
                self._remember(row.sha, row.id, row.series, row.process)

    def finish(self) -> None:
        with self.store.begin() as tx:
            finish_session(tx, self.uid, datetime.now(UTC))

    def visit(self, visit: Visit, cells: Sequence[Cell] | None = None) -> None:
        """Visit one commit; each process is in the database before the next one starts."""
        for index, measured in enumerate(self.workbench.visit(visit.sha, cells or visit.cells)):
            self._keep(visit, index, *measured)

    def visit_beside(self, visits: Sequence[Visit]) -> None:
        """Visit what is to be compared: the processes take turns where they can, else they follow each other."""
        if not self.workbench.can_take_turns(visit.sha for visit in visits):
            for visit in visits:
                self.visit(visit)
            return
        first, *others = visits
        variants = first.beside  # of one commit, which is then visited once for each
        rows: Sequence[Sequence[Cell]] = [[cell] * len(visits) for cell in first.cells] if others else variants
        sides = visits if others else [first] * max(map(len, variants))
        index = Counter[Visit]()
        for measured in self.workbench.visit_beside([side.sha for side in sides], rows):
            for side, one in zip(sides, measured, strict=False):
                self._keep(side, index[side], *one)
                index[side] += 1

    def readings(self, sha: str, cell: Cell) -> Sequence[Measured]:
        """All that the processes of one cell gave at one commit."""
        return self._cells.get((sha, cell.name), ())

    def _keep(self, visit: Visit, index: int, outcome: Outcome, discovery: Discovery) -> None:
        rows = list(self._rows(visit, index, outcome, discovery))
        with self.store.begin() as tx:
            ids = add_processes(tx, self._run(tx, visit.sha), rows)
            keep_measured(tx, ids)
        for row_id, (series, process) in zip(ids, rows, strict=True):
            self._remember(visit.sha, row_id, series, process)
        self.statuses.append(outcome.status)
        self.work_s += outcome.work_s
        self.on_process(visit, outcome)

    def _remember(self, sha: str, row_id: int, series: Series, process: Process) -> None:
        self.measured.setdefault(sha, []).append((series, process))
        self._cells.setdefault((sha, series.cell), []).append((series, process))
        self.evidence.setdefault((sha, series), []).append(row_id)
        self.stored[row_id] = process

    def _run(self, tx: object, sha: str) -> int:
        if sha not in self._runs:
            bench = self.workbench
            run = Run(
                project=self.project, session=self.uid, commit=self.commits[sha], machine=bench.machine,
                environment=bench.environment(sha), variant=bench.variant(sha), suite=bench.suite.name,
                harness=bench.harness, started_at=datetime.now(UTC), origin=self._origin,
            )  # fmt: skip
            self._runs[sha] = add_run(tx, run)  # type: ignore[arg-type]
        return self._runs[sha]

    @property
    def _origin(self) -> Pairs:
        """One job may measure a commit in several sessions: each is a step of it."""
        job = self.workbench.origin
        return (*job, ("step", self.uid)) if job else ()

    def _rows(self, visit: Visit, index: int, outcome: Outcome, discovery: Discovery) -> Iterable[Measured]:
        name = outcome.cell.benchmark
        benchmark = discovery.benchmarks.get(name) or self.benchmarks[name]
        for one in outcome.metrics or _failed(benchmark, outcome):
            series = Series(
                benchmark=Benchmark(name, benchmark.version), parameters=outcome.cell.parameters,
                metric=Metric(one.name, one.unit, one.direction), machine=self.workbench.machine,
                variant=self.workbench.variant(visit.sha), harness=self.workbench.harness,
            )  # fmt: skip
            yield series, Process(
                index=index, role=visit.role_of(outcome.cell), status=one.status, samples=one.samples, clock=one.clock,
                pair=visit.pair, round=visit.round, order=visit.order, started_at=outcome.started_at,
                duration_s=outcome.duration_s, reason=one.reason, exit_code=outcome.exit_code,
                stderr_tail=outcome.stderr_tail, flags=outcome.flags,
            )  # fmt: skip


def _failed(benchmark: DiscoveredBenchmark, outcome: Outcome) -> Iterable[MeasuredMetric]:
    """A process that gave nothing is written down under every metric it should have given."""
    for declared in benchmark.metrics:
        metric = declared.metric
        yield MeasuredMetric(
            name=metric.name, unit=metric.unit, direction=metric.direction, clock=declared.clock, number=1, samples=(),
            status=outcome.status, reason=outcome.reason,
        )  # fmt: skip
