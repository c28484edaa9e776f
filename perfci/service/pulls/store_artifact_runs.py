"""Store the runs of a results artifact; their origin is taken from GitHub, not from the documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import groupby

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from perfci.auth.job_grants import JobGrant
from perfci.auth.permissions import Actor, ProjectRole, Scope
from perfci.config.toml_tables import ServerTable
from perfci.formats import run_document
from perfci.formats.run_document import idempotency_key
from perfci.github.api_operations import require_full_sha
from perfci.github.payloads import WorkflowRun
from perfci.model import Commit, PerfciError, Run
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import (
    IncomingRun,
    is_aa_run,
    store_uploaded_runs,
)
from perfci.service.uploads.series_quota import SeriesQuota
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries import runs_and_sessions
from perfci.store.queries.comparisons.pull_request_uploads import COMPARED_PULL_REQUEST_FIELD

TRUSTED_ORIGIN_FIELDS = ("job", "step")
"""Origin fields taken from a document: they only distinguish runs of one workflow run."""


def store_artifact_runs(
    store: Store,
    project: Project,
    workflow_run: WorkflowRun,
    documents: Mapping[str, bytes],
    context: AuditContext,
    quota: SeriesQuota,
    pull_number: int | None = None,
) -> tuple[list[str], list[str]]:
    """Store compared runs, each session completely or not at all; return those sessions and the refusals.

    Untrusted runs never enter a history or the noise that A/A runs show.
    """
    refused: list[str] = []
    runs = [
        (_name_pull_request(run, pull_number), body_hash)
        for run, body_hash in _parse_documents(documents, project, workflow_run, refused)
    ]
    here: list[str] = []
    with store.begin() as tx:
        for session, session_runs in groupby(sorted(runs, key=_get_session), key=_get_session):
            try:
                with store.savepoint(tx):
                    stored = [
                        _ensure_stored(tx, run, body_hash, project, context, quota)
                        for run, body_hash in session_runs
                    ]
                here += [session] if any(stored) else []
            except PerfciError as error:
                if isinstance(error.__cause__, SQLAlchemyError):
                    raise  # a database failure, not one of the documents
                refused.append(f"session {session}: {error}")
    return here, refused


def build_workflow_run_actor(project: Project, workflow_run: WorkflowRun) -> Actor:
    """Build the actor of a workflow run, which may store comparisons and nothing about the main branch."""
    grant = JobGrant(str(workflow_run.id), workflow_run.run_attempt, workflow_run.head_sha)
    name = f"github-repository/{workflow_run.repository.id}"
    return Actor(
        "token",
        name,
        {project.id: ProjectRole.ADMIN},
        frozenset({Scope.WRITE}),
        f"run {workflow_run.id}",
        grant,
    )


def build_pull_request_quota(server: ServerTable, workflow_run: WorkflowRun) -> SeriesQuota:
    """Build the quota of the pull request of a run, known by the branch that it would merge."""
    head = workflow_run.head_repository.id if workflow_run.head_repository else "unknown"
    pull_request = f"from {head} {workflow_run.head_branch or ''}"
    return SeriesQuota(server.new_series_per_day, server.new_series_per_pull_request, pull_request)


def _parse_documents(
    documents: Mapping[str, bytes], project: Project, workflow_run: WorkflowRun, refused: list[str]
) -> Iterator[tuple[Run, str]]:
    for name, body in sorted(documents.items()):
        try:
            run = run_document.read_untrusted_run(body, name)
        except PerfciError as error:
            refused.append(str(error))
        else:
            yield _override_provenance(run, project.slug, workflow_run), sha256(body).hexdigest()


def _override_provenance(run: Run, project: str, workflow_run: WorkflowRun) -> Run:
    """Set project, origin and commit from GitHub; keep only what the document may claim."""
    claimed = dict(run.origin)
    attempt = claimed.get("attempt", "")
    is_plausible = (
        attempt.isascii()
        and attempt.isdigit()
        and len(attempt) < 10
        and 1 <= int(attempt) <= workflow_run.run_attempt
    )
    origin = {name: claimed[name] for name in TRUSTED_ORIGIN_FIELDS if name in claimed}
    if source := claimed.get("source"):
        origin["step"] = source
    origin |= {
        "run_id": str(workflow_run.id),
        "event": workflow_run.event,
        "attempt": attempt if is_plausible else str(workflow_run.run_attempt),
    }
    subject = workflow_run.head_commit_subject if run.commit.sha == workflow_run.head_sha else ""
    commit = Commit(run.commit.sha, subject=subject, dirty=run.commit.dirty)
    return replace(run, project=project, commit=commit, origin=tuple(sorted(origin.items())))


def _name_pull_request(run: Run, number: int | None) -> Run:
    """Say in the origin of a run which pull request its pairs are of."""
    if number is None:
        return run
    return replace(run, origin=(*run.origin, (COMPARED_PULL_REQUEST_FIELD, str(number))))


def _get_session(parsed: tuple[Run, str]) -> str:
    return parsed[0].session


def _ensure_stored(
    tx: Session, run: Run, body_hash: str, project: Project, context: AuditContext, quota: SeriesQuota
) -> bool:
    """Store a run unless the job uploaded it itself; raise if it may not be stored."""
    if is_aa_run(run) or run.commit.dirty:
        raise PerfciError("only comparisons of what was committed are taken from a pull request")
    require_full_sha(run.commit.sha)
    key = idempotency_key(run)
    if runs_and_sessions.find_run_id_by_key(tx, key) is not None:
        return True
    [receipt] = store_uploaded_runs(tx, [IncomingRun(run, key, body_hash, project, context, quota)])
    return receipt.stored
