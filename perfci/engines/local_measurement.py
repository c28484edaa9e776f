"""Measure an order in a clone on this machine, into the local store and, if there is one, to a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from perfci.config import Config
from perfci.engines.held_order import HeldOrder, OrderProgressReporter
from perfci.engines.range_orders import (
    MeasuredRange,
    OrderedRange,
    list_ordered_commits,
    measure_ordered_backfill,
    measure_ordered_bisect,
    prepare_range_scope,
)
from perfci.formats import run_document
from perfci.measure.measure_and_store_session import MeasurementSession, SessionScope
from perfci.measure.open_measurement_session import (
    create_suite_runner,
    prepare_session_scope,
    replace_declared_with_measured_costs,
)
from perfci.measure.ordered_measurements import (
    OrderedMeasurement,
    measure_ordered_commit,
    measure_ordered_pairs,
)
from perfci.model import Commit, PerfciError, Run, Verdict
from perfci.net.api_client import ApiClient
from perfci.net.api_schemas.measurement_orders import NewOrderResult, OrderShape
from perfci.net.spool_sender import FlushRetryPolicy, flush_spool
from perfci.project_policies import build_policy
from perfci.report.verdict_groups import group_verdicts
from perfci.report.verdict_text import SEVERITY_ORDER
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.service.orders.check_order_content import (
    BACKFILL,
    BISECT,
    check_order_content,
    read_order_content,
)
from perfci.service.uploads.send_to_server import load_runs_of_session, open_spool, set_run_purpose
from perfci.store import Store

RESEND_S = 5.0
"""Seconds between attempts at a server that does not take what was measured."""

OpenMachine = Callable[[], AbstractContextManager[Store]]
"""Holds this machine and opens the store that the measurements go to."""


@dataclass(frozen=True, slots=True)
class MeasuredOrder:
    """A result that is to be reported; ``end_session`` may be called once it was."""

    result: NewOrderResult
    end_session: Callable[[], None]


class OrderFailed(PerfciError):
    """An order that cannot be measured, for a reason that its requester should read."""


@dataclass(frozen=True, slots=True)
class LocalMeasurement:
    """Measures orders in ``repository``; ``client`` is of the server that the runs are for, None without."""

    repository: GitRepository
    config: Config
    open_machine: OpenMachine
    client: ApiClient | None = None

    def measure(
        self,
        held: HeldOrder,
        progress: OrderProgressReporter,
        report_result: Callable[[NewOrderResult], None],
    ) -> None:
        """Measure an order and report what it came to.

        The session ends only when the result is known where it was ordered: a worker that is lost before
        leaves a session that the next one finds complete, and reports.
        """
        order = held.order
        check_order_content(read_order_content(order))
        if order.kind in (BISECT, BACKFILL):
            self._measure_range(held, progress, report_result)
            return
        head = self.repository.fetch_commit(order.head)
        base = self.repository.fetch_commit(order.base) if order.base else None
        commits = list({commit.sha: commit for commit in (base, head) if commit}.values())
        with create_suite_runner(self.repository, self.config, None, smoke=False) as runner:
            default_only = order.suite == "default" or (not order.suite and not order.bench)
            held.progress = "preparing the commits"
            scope = prepare_session_scope(
                runner, commits, order.bench, progress.report, default_only=default_only
            )
            held.progress = "waiting for the machine"
            with self.open_machine() as store:
                measured = self._measure(store, runner, scope, order, base, head, progress)
                if measured.failure:
                    measured.finish()
                    raise OrderFailed(measured.failure)
                evaluate_and_reconcile(store, self.config)
                if self.client is not None:
                    self._send(self.client, load_runs_of_session(store, measured.session.uid), held)
                report_result(self._build_result(measured))
                measured.finish()

    def _measure_range(
        self,
        held: HeldOrder,
        progress: OrderProgressReporter,
        report_result: Callable[[NewOrderResult], None],
    ) -> None:
        order = held.order
        commits = list_ordered_commits(self.repository, order)
        with create_suite_runner(self.repository, self.config, None, smoke=False) as runner:
            held.progress = "preparing the commits"
            scope = prepare_range_scope(runner, commits, order, progress)
            held.progress = "waiting for the machine"
            with self.open_machine() as store:
                scope = replace_declared_with_measured_costs(store, runner, self.config.project, scope)
                work = OrderedRange(store, runner, self.config, scope, held, progress)
                measured = self._carry_out_range(work, commits)
                evaluate_and_reconcile(store, self.config)
                report_result(measured.result)
                measured.session.finish()

    def _carry_out_range(self, work: OrderedRange, commits: Sequence[Commit]) -> MeasuredRange:
        """Carry out an order of a range; what is complete is sent on the way."""

        def send(session: MeasurementSession, measured: Sequence[Commit], purpose: str = "") -> None:
            if self.client is not None:
                shas = {commit.sha for commit in measured}
                runs = load_runs_of_session(work.store, session.uid)
                sent = [set_run_purpose(run, purpose) for run in runs if run.commit.sha in shas]
                self._send(self.client, sent, work.held)

        if work.order.kind == BACKFILL:
            return measure_ordered_backfill(work, commits, self._identify(work.order), send)
        measured = measure_ordered_bisect(work, commits)
        send(measured.session, commits, BISECT)
        return measured

    def _identify(self, order: OrderShape) -> str:
        """Name an order as no other one; the server's order 3 is another one than the store's."""
        place = self.client.server_url if self.client else ""
        return f"order {place}#{order.id}"

    def _measure(
        self,
        store: Store,
        runner: MeasurementRunner,
        scope: SessionScope,
        order: OrderShape,
        base: Commit | None,
        head: Commit,
        progress: OrderProgressReporter,
    ) -> OrderedMeasurement:
        scope = replace_declared_with_measured_costs(store, runner, self.config.project, scope)
        identity = self._identify(order)
        if base is None:
            return measure_ordered_commit(store, runner, self.config, scope, progress, identity=identity)
        return measure_ordered_pairs(
            store,
            runner,
            self.config,
            scope,
            base,
            head,
            progress,
            identity=identity,
            pairs=order.pairs,
        )

    def _send(self, client: ApiClient, runs: Sequence[Run], held: HeldOrder) -> None:
        """Send the runs by way of the spool, again and again while the server is away."""
        spool = open_spool(self.config)
        keys = {run_document.idempotency_key(run) for run in runs}
        for run in runs:
            key = run_document.idempotency_key(run)
            spool.add_document(run_document.dump_run(run).encode(), key, client.server_url)
        while True:
            held.progress = "sending what was measured"
            report = flush_spool(spool, client, FlushRetryPolicy(give_up_after_s=0.0))
            if rejected := [message for message in report.rejected if any(key in message for key in keys)]:
                raise OrderFailed(f"The server did not take what was measured: {rejected[0]}")
            if not any(item.key in keys for item in spool.list_waiting_documents(client.server_url)):
                return
            held.wait(RESEND_S)

    def _build_result(self, measured: OrderedMeasurement) -> NewOrderResult:
        sessions = (measured.session.uid,)
        if not measured.verdicts:
            return NewOrderResult(verdict="measured", sessions=sessions)
        counts = self._count_verdicts(measured.verdicts)
        worst = next(kind for kind in SEVERITY_ORDER if kind in counts)
        return NewOrderResult.model_validate({"verdict": worst.value, "counts": counts, "sessions": sessions})

    def _count_verdicts(self, verdicts: Sequence[Verdict]) -> Counter[str]:
        policy = build_policy(self.config.settings)
        groups = group_verdicts(verdicts, policy.is_gating)
        return Counter(group.primary.kind.value for group in groups)
