"""Carry out orders of a range: the search for the commit that moved a level, and the backfill of its gaps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfci.config import Config
from perfci.engines.held_order import HeldOrder, OrderProgressReporter
from perfci.measure.bisect_range import (
    Bisection,
    BisectQuestion,
    choose_metric,
    list_bisected_commits,
    open_bisection,
    require_one_cell,
)
from perfci.measure.commit_ranges.measure_backfill import (
    BackfillPlan,
    count_affordable_commits,
    list_unmeasurable_commits,
    measure_backfill,
    plan_backfill,
)
from perfci.measure.measure_and_store_session import MeasurementSession, SessionScope
from perfci.measure.open_measurement_session import prepare_session_scope
from perfci.model import Commit, PerfciError
from perfci.net.api_schemas.measurement_orders import (
    MAX_SHOWN_CANDIDATES,
    MAX_SHOWN_FAILURES,
    BackfillShape,
    BisectShape,
    NewOrderResult,
    OrderFindings,
    OrderShape,
)
from perfci.report.commits.bisect_text import serialize_bisect
from perfci.report.escaping import make_printable
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.service.orders.order_text import describe_bisect_progress
from perfci.store import Store
from perfci.verdicts.search.bisect_status import BisectStatus
from perfci.verdicts.search.commit_search import SearchRules

MAX_REASON = 500

SendRuns = Callable[[MeasurementSession, Sequence[Commit]], None]
"""Sends the runs of commits, of which everything is measured."""


@dataclass(frozen=True, slots=True)
class MeasuredRange:
    """A session that is measured but not finished: whoever ordered it has to know first."""

    session: MeasurementSession
    result: NewOrderResult


@dataclass(frozen=True, slots=True)
class OrderedRange:
    """An order of a range on its way: where it is measured, and how it reports."""

    store: Store
    runner: MeasurementRunner
    config: Config
    scope: SessionScope
    held: HeldOrder
    progress: OrderProgressReporter

    @property
    def order(self) -> OrderShape:
        return self.held.order


def list_ordered_commits(repository: GitRepository, order: OrderShape) -> list[Commit]:
    """The last good commit of an order and the first-parent commits after it."""
    good = repository.fetch_commit(order.base or "")
    head = repository.fetch_commit(order.head)
    return list_bisected_commits(repository, good.sha, head.sha)


def measure_ordered_bisect(work: OrderedRange, commits: Sequence[Commit]) -> MeasuredRange:
    """Search until a conclusion, or until the budget ends: then the smallest range is the answer."""
    order, held = work.order, work.held
    cell = require_one_cell(work.scope)
    question = BisectQuestion(tuple(commits), cell, choose_metric(work.scope, cell, order.metric))
    rules = SearchRules()
    if order.max_processes is not None:
        rules = replace(rules, max_processes=order.max_processes)

    def on_status(status: BisectStatus) -> None:
        shape = build_bisect_shape(status)
        held.findings = OrderFindings(bisect=shape)
        held.progress = describe_bisect_progress(shape)
        held.require_held()

    work.progress.describe_by(lambda: held.progress)
    bisection = open_bisection(
        work.store, work.runner, work.config, work.scope, question, work.progress, rules=rules
    )
    on_status(bisection.status)
    budget_s = math.inf if order.budget_s is None else order.budget_s - bisection.status.machine_s
    bisection.search_until(time.monotonic() + budget_s, work.progress, on_status)
    return MeasuredRange(bisection.session, _conclude(bisection))


def _conclude(bisection: Bisection) -> NewOrderResult:
    bisection.search.end()
    status = bisection.status
    outcome = status.conclusion.outcome.value if status.conclusion else "unfinished"
    findings = OrderFindings(bisect=build_bisect_shape(status))
    return NewOrderResult.model_validate(
        {"verdict": outcome, "sessions": (status.session,), "findings": findings.model_dump()}
    )


def build_bisect_shape(status: BisectStatus) -> BisectShape:
    """The state of a search within the limits of what an order shows."""
    fields = serialize_bisect(status)
    fields["candidates"] = fields["candidates"][:MAX_SHOWN_CANDIDATES]
    fields["unmeasurable"] = shorten_failures(fields["unmeasurable"])
    return BisectShape.model_validate(fields)


def shorten_failures(failures: dict[str, str]) -> dict[str, str]:
    """The first reasons, each on one line."""
    shown = list(failures.items())[:MAX_SHOWN_FAILURES]
    return {sha: make_printable(reason, MAX_REASON) for sha, reason in shown}


def measure_ordered_backfill(
    work: OrderedRange, commits: Sequence[Commit], identity: str, send: SendRuns
) -> MeasuredRange:
    """Measure what a range lacks, wave by wave, and send each wave when it is complete."""
    order, held = work.order, work.held
    rounds = work.config.settings.run.rounds
    most = count_affordable_commits(len(work.scope.cells), rounds, order.max_processes)
    plan = plan_backfill(commits, held.measured, stride=order.stride or 1, most=most)
    if not plan.waves:
        raise PerfciError(f"Each of the {len(commits)} commits has results already: there is no gap to fill.")
    work.runner.prepare_commits(plan.chosen)
    scope = replace(work.scope, commits={commit.sha: commit for commit in plan.chosen})
    work.progress.count_in("process", 1)

    def on_wave(session: MeasurementSession, done: int) -> None:
        held.findings = OrderFindings(backfill=build_backfill_shape(session, plan, done))
        send(session, plan.waves[done - 1])
        held.require_held()

    session = measure_backfill(
        work.store, work.runner, work.config, scope, plan, work.progress, on_wave, identity=identity
    )
    findings = OrderFindings(backfill=build_backfill_shape(session, plan, len(plan.waves)))
    return MeasuredRange(
        session, NewOrderResult(verdict="measured", sessions=(session.uid,), findings=findings)
    )


def build_backfill_shape(session: MeasurementSession, plan: BackfillPlan, waves_done: int) -> BackfillShape:
    """How far a backfill is."""
    done = [commit for wave in plan.waves[:waves_done] for commit in wave]
    return BackfillShape(
        commits=len(plan.commits),
        commits_with_results=plan.commits_with_results,
        commits_chosen=len(plan.chosen),
        commits_measured=len(done),
        waves=len(plan.waves),
        waves_done=waves_done,
        processes=len(session.readings),
        unmeasurable=shorten_failures(list_unmeasurable_commits(session, done)),
    )


def prepare_range_scope(
    runner: MeasurementRunner, commits: Sequence[Commit], order: OrderShape, progress: OrderProgressReporter
) -> SessionScope:
    """Prepare the ends of a range, and list what is measured."""
    default_only = order.suite == "default" or (not order.suite and not order.bench)
    ends = list({commit.sha: commit for commit in (commits[0], commits[-1])}.values())
    return prepare_session_scope(runner, ends, order.bench, progress.report, default_only=default_only)
