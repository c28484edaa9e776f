"""Report what a pull request uploaded: the verdicts on its newest runs, as findings and as a GitHub event."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.separate_run_sides import count_runs_and_days
from perfci.model import Commit, Series, Stage
from perfci.report.pulls.comparison_findings import Findings, SeparateRuns, compute_verdict_bars
from perfci.service.pulls.webhook_receiver import JUDGED_UPLOADS
from perfci.store.access import github_bindings
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import GitHubEventPayload
from perfci.store.projects import Project
from perfci.store.queries.comparisons.pull_request_uploads import (
    PullRequestHead,
    is_judging_pending,
    load_results_by_id,
    load_uploads_of_pull_request,
)
from perfci.store.queries.query_records import VerdictRecord
from perfci.store.queries.series_commits_machines import load_commits_by_sha
from perfci.store.verdict_decision_records import load_latest_verdict_id, load_verdict_decision_records
from perfci.store.verdicts_and_change_points import load_verdict_records
from perfci.verdicts.judging_policy import Policy

FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class UploadReport:
    """What is known of one head of a pull request.

    ``findings`` are absent where nothing was judged; ``is_pending`` says that an upload still waits.
    """

    head: str
    uploads: int
    is_pending: bool
    findings: Findings | None


def load_upload_report(
    tx: Transaction, project: str, number: str, policy: Policy, head: str = ""
) -> UploadReport | None:
    """Load the report on the newest head of a pull request, or on this one; None where it has no upload."""
    uploads = load_uploads_of_pull_request(tx, project, number)
    chosen = [sha for sha in uploads if sha.startswith(head)]
    if not chosen:
        return None
    sha = max(chosen, key=lambda item: uploads[item][-1].id)
    sessions = {run.session for run in uploads[sha]}
    records = _load_newest_records(tx, project, sha, sessions)
    findings = _build_findings(tx, project, sha, records, len(uploads[sha]), policy) if records else None
    return UploadReport(sha, len(uploads[sha]), is_judging_pending(tx, project, sessions), findings)


def enqueue_upload_report(tx: Transaction, project: Project, head: PullRequestHead, at: datetime) -> None:
    """Enqueue the report of a judged pull request, if its project is bound to a repository.

    The event names no commit: what is reported is the newest one of the pull request at that time.
    """
    bound = github_bindings.find_repository_of_project(tx, project.id)
    if bound is None or not FULL_SHA.fullmatch(head.sha):
        return
    delivery = f"uploads-{head.number}-{head.sha[:12]}-{load_latest_verdict_id(tx)}"
    payload = GitHubEventPayload(delivery, 0, bound.slug, int(head.number), JUDGED_UPLOADS)
    github_events.add_github_event(tx, project.id, payload, at)


def _load_newest_records(
    tx: Transaction, project: str, sha: str, sessions: Collection[str]
) -> list[VerdictRecord]:
    """Load the newest verdict of each series on separate runs of these sessions.

    One that was superseded by a verdict on the uploads of another pull request counts all the same.
    """
    records = [
        record
        for record in load_verdict_records(tx, project, head=sha, current_only=False, with_pull_requests=True)
        if record.verdict.stage is Stage.SEPARATE_RUNS and record.session_uid in sessions
    ]
    newest: dict[Series, VerdictRecord] = {}
    for record in records:
        if record.created_at == records[0].created_at:
            newest.setdefault(record.verdict.series, record)
    return list(newest.values())


def _build_findings(
    tx: Transaction,
    project: str,
    sha: str,
    records: Sequence[VerdictRecord],
    uploads: int,
    policy: Policy,
) -> Findings:
    verdicts = [record.verdict for record in records]
    base = verdicts[0].base
    decisions = load_verdict_decision_records(tx, project, [record.id for record in records])
    result_ids = {
        number for item in decisions.values() for look in item.looks for number in look.base_results
    }
    runs, days = count_runs_and_days(load_results_by_id(tx, result_ids))
    commits = load_commits_by_sha(tx, project, [base, sha])
    return Findings(
        verdicts,
        commits.get(base, Commit(base)),
        commits.get(sha, Commit(sha)),
        separate_runs=SeparateRuns(uploads, runs, days),
        bars=compute_verdict_bars(verdicts, policy),
        strict=policy.default.strict,
    )
