"""Measure commits of a range, one process at a time, until it is clear which of them moved a metric."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

from perfci.config import Config
from perfci.measure.measure_and_store_session import MeasurementSession, SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.model import Commit, Metric, PerfciError, Process, Series, Status
from perfci.number_format import format_count
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell
from perfci.runner.visit_plan import CommitVisit
from perfci.store import Store
from perfci.store.queries.history_conditions import BISECT_KIND
from perfci.verdicts.process_levels import process_level
from perfci.verdicts.search.bisect_status import BisectStatus
from perfci.verdicts.search.commit_search import CommitSearch, SearchRules

MAX_FAILURES = 3
"""Failed processes of one commit that gave results before, until it counts as one that cannot be measured."""


@dataclass(frozen=True, slots=True)
class BisectQuestion:
    """Which of ``commits``, oldest first, moved this metric? The first one is the last good one."""

    commits: tuple[Commit, ...]
    cell: Cell
    metric: Metric

    @property
    def shas(self) -> list[str]:
        return [commit.sha for commit in self.commits]


OnStatus = Callable[[BisectStatus], None]


def bisect_range(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    question: BisectQuestion,
    progress: SessionProgress,
    on_status: OnStatus,
    *,
    rules: SearchRules | None = None,
    budget_s: float = math.inf,
) -> BisectStatus:
    """Search until a conclusion or the end of the budget; the same call again goes on where this one ended.

    ``on_status`` hears how far it is after every process.
    """
    bisection = open_bisection(store, runner, config, scope, question, progress, rules=rules)
    bisection.search_until(time.monotonic() + budget_s, progress, on_status)
    if bisection.status.conclusion is not None:
        bisection.session.finish()
    return bisection.status


def open_bisection(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    question: BisectQuestion,
    progress: SessionProgress,
    *,
    rules: SearchRules | None = None,
) -> Bisection:
    """Open the session of a question, or the unfinished one with what was measured in it."""
    base, head = question.commits[0], question.commits[-1]
    session = open_measurement_session(
        store,
        runner,
        config.project,
        SessionScope({commit.sha: commit for commit in question.commits}, scope.discovery, (question.cell,)),
        BISECT_KIND,
        identity=f"{base.sha}..{head.sha} {question.metric.name}",
        on_process=progress.report_process,
        on_message=progress.report,
    )
    bisection = Bisection(session, question, CommitSearch(len(question.commits) - 1, rules or SearchRules()))
    bisection.replay_stored_processes()
    return bisection


@dataclass
class Bisection:
    """A search with the session that its processes are stored in."""

    session: MeasurementSession
    question: BisectQuestion
    search: CommitSearch
    failures: dict[str, str] = field(default_factory=dict)
    _failed: Counter[int] = field(default_factory=Counter)
    _durations_s: list[float] = field(default_factory=list)
    _preparing_s: dict[str, float] = field(default_factory=dict)

    def replay_stored_processes(self) -> None:
        """Take in what an interrupted call had measured, in its order."""
        position_of = {sha: position for position, sha in enumerate(self.question.shas)}
        readings = self.session.readings
        rows = sorted(
            (row_id, position_of[sha], process)
            for sha, measured in readings.processes_by_sha.items()
            for series in dict.fromkeys(series for series, _ in measured if self._has_metric(series))
            for row_id in readings.get_process_row_ids(sha, series)
            for process in [readings.processes_by_id[row_id]]
        )
        for _, position, process in rows:
            self._take_in(position, process)

    def search_until(self, ends_at: float, progress: SessionProgress, on_status: OnStatus) -> None:
        """Measure until a conclusion, or until no process fits before a moment of the monotonic clock."""
        while (position := self.choose_next()) is not None:
            if time.monotonic() + self.costs_s[position] > ends_at:
                return
            self.measure(position, progress)
            on_status(self.status)

    def choose_next(self) -> int | None:
        return self.search.choose_next(self.costs_s)

    @property
    def costs_s(self) -> dict[int, float]:
        """Seconds that one process of each commit takes, with what preparing it takes."""
        process_s = fmean(self._durations_s) if self._durations_s else self.question.cell.cost_s
        preparing_s = fmean(self._preparing_s.values()) if self._preparing_s else 0.0
        return {
            position: process_s + (0.0 if sha in self._preparing_s else preparing_s)
            for position, sha in enumerate(self.question.shas)
        }

    def measure(self, position: int, progress: SessionProgress) -> None:
        """Measure one process of a commit, prepared where that has not been done."""
        commit = self.question.commits[position]
        if failure := self._prepare(commit, progress):
            self._exclude(position, failure)
            return
        order = len(self.session.readings)
        self.session.measure_visit(CommitVisit(commit.sha, (self.question.cell,), order))
        taken = [
            process
            for series, process in self.session.readings.get_cell_processes(commit.sha, self.question.cell)
            if self._has_metric(series)
        ]
        if not taken:
            self._exclude(position, f"it gives no {self.question.metric.name}")
        else:
            self._take_in(position, taken[-1])

    @property
    def status(self) -> BisectStatus:
        """How far the search is."""
        measured = {item.position for item in self.search.observations}
        return BisectStatus(
            benchmark=self.question.cell.name,
            metric=self.question.metric,
            commits=self.question.commits,
            conclusion=self.search.conclusion,
            probabilities=tuple(self.search.probabilities),
            processes=len(self.search.observations),
            measured=tuple(self.question.commits[position] for position in sorted(measured)),
            failures=dict(self.failures),
            machine_s=sum(self._durations_s) + sum(self._preparing_s.values()),
            session=self.session.uid,
        )

    def _has_metric(self, series: Series) -> bool:
        return series.cell == self.question.cell.name and series.metric.name == self.question.metric.name

    def _prepare(self, commit: Commit, progress: SessionProgress) -> str:
        """Check a commit out and build it; say why that cannot be done."""
        if commit.sha in self._preparing_s:
            return ""
        failures: list[str] = []
        started = time.monotonic()
        self.session.runner.prepare_commits([commit], lambda _, failure: failures.append(failure))
        self._preparing_s[commit.sha] = time.monotonic() - started
        return next(filter(None, failures), "")

    def _take_in(self, position: int, process: Process) -> None:
        self._durations_s.append(process.duration_s or 0.0)
        level = process_level(process) if process.status is Status.OK else math.nan
        if level > 0:
            self.search.record(position, math.log(level))
            return
        self._failed[position] += 1
        has_results = any(item.position == position for item in self.search.observations)
        if not has_results or self._failed[position] >= MAX_FAILURES:
            self._exclude(position, process.reason or process.status.value)

    def _exclude(self, position: int, reason: str) -> None:
        commit = self.question.commits[position]
        if position == self.search.head:
            raise PerfciError(
                f"commit {commit.short_sha}, the last one of the range, cannot be measured: {reason}; "
                "choose a bad one that can"
            )
        self.failures[commit.sha] = reason
        self.search.exclude(position)


def list_bisected_commits(repository: GitRepository, good: str, bad: str) -> list[Commit]:
    """GOOD and the first-parent commits from there to BAD, oldest first."""
    after = repository.list_commit_or_range(f"{good}..{bad}")
    return [repository.read_commit(repository.resolve_revision(good)), *after]


def require_one_cell(scope: SessionScope) -> Cell:
    """The one cell that is searched for; several would each have a commit of their own."""
    if len(scope.cells) == 1:
        return scope.cells[0]
    names = ", ".join(cell.name for cell in scope.cells[:5])
    more = f" and {len(scope.cells) - 5} more" if len(scope.cells) > 5 else ""
    raise PerfciError(
        f"--bench matches {format_count(len(scope.cells), 'cell')}, one was expected: {names}{more}"
    )


def choose_metric(scope: SessionScope, cell: Cell, name: str) -> Metric:
    """The metric of a cell to bisect: the one that is named, else the first that it declares."""
    metrics = [declared.metric for declared in scope.discovery.benchmarks[cell.benchmark].metrics]
    metric = next((metric for metric in metrics if metric.name == name), None) if name else metrics[0]
    if metric is None:
        names = [metric.name for metric in metrics]
        raise PerfciError(f"{cell.name} has no metric {name}; it has {', '.join(names)}")
    return metric
