"""Receive uploads: store each run and enqueue its evaluation in one transaction."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session

from perfci.auth.job_grants import OTHER_SESSION, JobGrant, explain_upload_refusal
from perfci.auth.permissions import AccessDenied
from perfci.history.result_summaries import summarize_processes
from perfci.model import Commit, PerfciError, Role, Run
from perfci.net.api_schemas.runs import UploadReceipt
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.series_quota import SeriesQuota
from perfci.store.access import audit_log
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import Project, mark_projects_changed
from perfci.store.queries import runs_and_sessions
from perfci.store.queries.comparisons.pull_request_uploads import (
    BASE_FIELD,
    BASE_POSITION_FIELD,
    PULL_REQUEST_FIELD,
)
from perfci.store.queries.history_conditions import (
    BISECT_KIND,
    HISTORY_KINDS,
    PULL_REQUEST_KIND,
    PURPOSE_FIELD,
    VARIANTS_KIND,
)
from perfci.store.queries.series_commits_machines import is_commit_stored
from perfci.store.transactions import IDS, IdCache
from perfci.store.writes.find_or_add_rows import NEW_SERIES, load_session_projects_and_kinds
from perfci.store.writes.ingest import ingest_run_batch

KIND_HISTORY, KIND_COMPARE, KIND_AA = "history", "compare", "aa"

SESSION_SUFFIX, SUFFIXED_SESSION = " @ {}", re.compile(r" @ \S+$")
"""What stands behind the name of a session that another project may have as well."""

PULL_REQUEST_FIELDS = {
    PULL_REQUEST_FIELD: "[1-9][0-9]{0,8}",
    BASE_FIELD: "[0-9a-f]{40}|[0-9a-f]{64}",
    BASE_POSITION_FIELD: "[0-9]{1,9}",
}
"""What a run may say of its pull request, and of the commit of the main branch that this starts from."""

PULL_REQUEST_VALUES = {
    PULL_REQUEST_FIELD: "the number of a pull request",
    BASE_FIELD: "a full sha",
    BASE_POSITION_FIELD: "a number of commits",
}

AUDIT_RECEIVE = "run.receive"
"""Audit action of uploads, recorded once a day for each actor, since uploads are many."""


@dataclass(frozen=True, slots=True)
class IncomingRun:
    """An uploaded run with its idempotency key, body hash, target project and audit context."""

    run: Run
    key: str
    body_hash: str
    project: Project
    context: AuditContext
    quota: SeriesQuota = field(default_factory=SeriesQuota)


def store_uploaded_runs(tx: Session, incoming: Sequence[IncomingRun]) -> list[UploadReceipt]:
    """Store a batch of runs in one transaction; a repeated upload of the same content succeeds too.

    A refused run raises for the whole batch.
    """
    first: dict[str, IncomingRun] = {}  # a repeated key in one batch is stored after the first one
    for upload in incoming:
        first.setdefault(upload.key, upload)
    groups: dict[tuple[int, str, SeriesQuota], list[IncomingRun]] = defaultdict(list)
    for upload in first.values():
        kind = derive_session_kind(upload.run, upload.context.actor.grant)
        is_from_pull = _is_from_pull_request(upload.run, upload.context.actor.grant)
        quota = upload.quota if is_from_pull else replace(upload.quota, pull_request="")
        groups[upload.project.id, kind, quota].append(upload)
    stored: set[str] = set()
    for (_, kind, quota), uploads in groups.items():
        stored |= _store_group(tx, uploads[0].project, kind, quota, uploads)
    receipts: list[UploadReceipt] = []
    for upload in incoming:
        if upload is not first[upload.key]:
            receipts += store_uploaded_runs(tx, [upload])
            continue
        results = upload.run.results
        receipts.append(
            UploadReceipt(
                key=upload.key,
                project=upload.run.project,
                stored=upload.key in stored,
                results=len(results),
                samples=sum(len(process.samples) for result in results for process in result.processes),
            )
        )
    return receipts


def derive_session_kind(run: Run, grant: JobGrant | None) -> str:
    """Return the session kind of a run; pull requests, dirty trees, comparisons and variants never enter a
    history.

    The server decides from the measured data and from the right of the job that sends it, not from what the
    document claims to be.
    """
    if run.variant_comparisons:
        return VARIANTS_KIND
    roles = {process.role for result in run.results for process in result.processes}
    is_from_pull = _names_pull_request(run)
    may_write_history = grant is None or grant.baseline
    if not is_from_pull and may_write_history and dict(run.origin).get(PURPOSE_FIELD) == BISECT_KIND:
        return BISECT_KIND
    if not is_from_pull and not run.commit.dirty and roles <= {Role.HISTORY}:
        return KIND_HISTORY
    if is_from_pull or not may_write_history:
        return PULL_REQUEST_KIND
    return KIND_AA if is_aa_run(run) else KIND_COMPARE


def _names_pull_request(run: Run) -> bool:
    origin = dict(run.origin)
    return PULL_REQUEST_FIELD in origin or origin.get("event", "").startswith("pull_request")


def _is_from_pull_request(run: Run, grant: JobGrant | None) -> bool:
    """Whether new series of a run count as those of a pull request, whatever its session is."""
    kind = derive_session_kind(replace(run, variant_comparisons=()), grant)
    return kind == PULL_REQUEST_KIND


def is_aa_run(run: Run) -> bool:
    """Whether base and head of a pair are the same commit."""
    for result in run.results:
        base, head = (
            {process.pair for process in result.processes if process.role is role}
            for role in (Role.BASE, Role.HEAD)
        )
        if base & head:
            return True
    return False


def _store_group(
    tx: Session, project: Project, kind: str, quota: SeriesQuota, incoming: Sequence[IncomingRun]
) -> set[str]:
    """Store runs of one project and kind and enqueue them; return the keys that were new."""
    names = {upload.run.session for upload in incoming}
    suffixed = {name + SESSION_SUFFIX.format(project.slug) for name in names}
    owners = load_session_projects_and_kinds(tx, names | suffixed)
    admitted = [_admit_run(tx, _name_session(upload, owners), kind) for upload in incoming]
    before = {session: kind for session, (_, kind) in owners.items()}
    at = max(upload.context.at for upload in admitted)
    documents = [(upload.run, upload.key, upload.body_hash) for upload in admitted]
    tx.info.pop(NEW_SERIES, None)
    ingested = ingest_run_batch(
        tx, project.id, documents, kind=kind, received_at=at, summarize=summarize_processes
    )
    if new_series := tx.info.pop(NEW_SERIES, 0):
        quota.charge_new_series(tx, project.id, project.slug, new_series, at)
    stored = {key for _, key, _ in ingested}
    new = [upload for upload in admitted if upload.key in stored]
    for upload in new:
        session = upload.run.session
        kind_before = before.get(session, kind)
        if kind_before != kind and not {kind_before, kind} <= set(HISTORY_KINDS):
            raise PerfciError(
                f"The session {session} is one of kind {kind_before}, "
                f"and this run would be one of kind {kind}: "
                "give the run a session of its own."
            )
    if new:
        ids: IdCache = tx.info[IDS]
        if kind == KIND_HISTORY:
            enqueue_work(tx, project.id, "judge", [upload.key for upload in new], at)
        elif kind not in (VARIANTS_KIND, BISECT_KIND):
            enqueue_work(tx, project.id, "judge_pr", [upload.run.session for upload in new], at)
        for arrival in {upload.context.actor.name: upload for upload in reversed(new)}.values():
            context = arrival.context
            today = context.at.replace(hour=0, minute=0, second=0, microsecond=0)
            entry = (AUDIT_RECEIVE, project.id, context.actor.name, today)
            if ids.find(entry) is None:
                if not audit_log.has_entry_since(tx, project.id, context.actor.name, AUDIT_RECEIVE, today):
                    context.add_audit_entry(tx, AUDIT_RECEIVE, arrival.key, project.id)
                # Cached like the id of a row: a rollback forgets it, and this process asks once a day.
                ids.added[entry] = 1
        mark_projects_changed(tx, [project.id])
    return stored


def _name_session(incoming: IncomingRun, owners: Mapping[str, tuple[int, str]]) -> IncomingRun:
    """Name the session so that no project can take those of another.

    A session whose name another project has, or could have by this rule, gets that of its project behind it.
    """
    run, suffix = incoming.run, SESSION_SUFFIX.format(incoming.project.slug)
    owner, _ = owners.get(run.session, (incoming.project.id, ""))
    is_reserved = SUFFIXED_SESSION.search(run.session) is not None and not run.session.endswith(suffix)
    if owner == incoming.project.id and not is_reserved:
        return incoming
    return replace(incoming, run=replace(run, session=run.session + suffix))


def _check_pull_request(run: Run) -> Run:
    """Check what a run says of its pull request; pairs say nothing: they are compared with each other."""
    origin = dict(run.origin)
    if PULL_REQUEST_FIELD not in origin:
        return run
    roles = {process.role for result in run.results for process in result.processes}
    if not roles <= {Role.HISTORY}:
        kept = tuple((name, value) for name, value in run.origin if name not in PULL_REQUEST_FIELDS)
        return replace(run, origin=kept)
    for name, pattern in PULL_REQUEST_FIELDS.items():
        if name in origin and not re.fullmatch(pattern, origin[name], re.ASCII):
            raise PerfciError(
                f"origin.{name} was expected to be {PULL_REQUEST_VALUES[name]}, not {origin[name][:60]!r}."
            )
    return run


def _admit_run(tx: Session, incoming: IncomingRun, kind: str) -> IncomingRun:
    """Refuse a run that a job's token does not cover, and strip what its sender may not set."""
    incoming = replace(incoming, run=_check_pull_request(incoming.run))
    run, grant = incoming.run, incoming.context.actor.grant
    if grant is None:
        return incoming
    if problem := explain_upload_refusal(grant, run, history=kind == KIND_HISTORY):
        raise AccessDenied(403, problem)
    origins = runs_and_sessions.load_run_origins_of_session(tx, run.session)
    if any(dict(origin).get("run_id") != grant.run_id for origin in origins):
        raise AccessDenied(403, OTHER_SESSION.format(run.session))
    if grant.baseline:
        return incoming
    # Position, branch and date of a commit decide the order of histories, which this job may not write: of
    # a new commit it may set the subject.
    is_stored = is_commit_stored(tx, incoming.project.id, run.commit.sha)
    subject = "" if is_stored else run.commit.subject
    commit = Commit(run.commit.sha, subject=subject, dirty=run.commit.dirty)
    return replace(incoming, run=replace(run, commit=commit))
