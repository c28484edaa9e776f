"""Runs of the main branch and of a pull request, measured one by one by other tools, uploaded and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.formats import run_document
from perfci.model import Run, Verdict
from perfci.project_policies import build_project_policies
from perfci.service.audit_context import AuditContext
from perfci.service.pulls.report_uploads import enqueue_upload_report
from perfci.service.uploads.receive_runs import IncomingRun, store_uploaded_runs
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store
from perfci.store.projects import create_project, find_project
from perfci.store.verdicts_and_change_points import load_verdict_records
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_sha

WOBBLES = (0.0, 0.004, -0.006, 0.002, -0.001, 0.007, -0.004, 0.001, -0.003, 0.005, 0.003, -0.005)
"""Noise of runs of the main branch, a standard deviation of 0.4 %."""

HEAD = a_sha(99)
LATER = NOON + timedelta(days=30)


def main_run(number: int, *results: Any, **changes: Any) -> Run:
    """A run of the main branch, one a commit; by default of one series around one second."""
    level = 1 + WOBBLES[number % len(WOBBLES)]
    about = {
        "commit": a_commit(number),
        "session": f"main-{number}",
        "started_at": NOON + timedelta(hours=number),
        "origin": (("run_id", str(1000 + number)), ("attempt", "1"), ("event", "push")),
    }
    return a_run(*(results or [a_result(None, a_process(level))]), **(about | changes))


def pull_run(*results: Any, number: str = "7", step: int = 1, **changes: Any) -> Run:
    """A run of a pull request that starts from commit 12 of the main branch."""
    about: dict[str, Any] = {
        "commit": replace(a_commit(13), sha=HEAD),
        "session": f"pull-{number}-{step}",
        "started_at": NOON + timedelta(days=1, hours=step),
        "origin": (
            ("run_id", str(2000 + step)),
            ("attempt", "1"),
            ("event", "pull_request"),
            ("pull_request", number),
            ("base", a_sha(12)),
        ),
    }
    return a_run(*results, **(about | changes))


def upload(store: Store, *runs: Run) -> None:
    for run in runs:
        with store.begin() as tx:
            project = find_project(tx, run.project) or create_project(tx, run.project, "private", NOON)
            key = run_document.idempotency_key(run)
            upload = IncomingRun(run, key, key, project, AuditContext(LOCAL, NOON, "test"))
            store_uploaded_runs(tx, [upload])


def judge(store: Store, runs: Sequence[Run] = (), head: str = HEAD, *, current: bool = True) -> list[Verdict]:
    """Upload runs, judge them and return the verdicts on a head, the oldest first."""
    upload(store, *runs)
    run_judge_worker(store)
    with store.read() as tx:
        records = load_verdict_records(tx, PROJECT, head=head, current_only=current, with_pull_requests=True)
    return [record.verdict for record in reversed(records)]


def run_judge_worker(store: Store) -> None:
    """Judge what waits, and enqueue its reports, as a server that is a GitHub App does."""
    load_policies = partial(build_project_policies, Settings())
    worker = JudgeWorker(store, load_policies, clock=lambda: LATER)
    worker.report_pull_request = enqueue_upload_report
    worker.drain()


def upload_main_branch(store: Store, count: int = 12) -> None:
    upload(store, *(main_run(number) for number in range(1, count + 1)))


def timed(level: float, **changes: Any) -> Any:
    return a_result(None, a_process(level), **changes)
