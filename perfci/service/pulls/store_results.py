"""Runs out of the artifact of a pull request: whatever they say of themselves, GitHub says whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import groupby

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from perfci.auth.grants import JobGrant
from perfci.auth.permissions import Actor, ProjectRole, Scope
from perfci.formats import run_document
from perfci.formats.run_document import idempotency_key
from perfci.github.operations import require_full_sha
from perfci.github.shapes import WorkflowRun
from perfci.model import Commit, PerfciError, Run
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import KIND_COMPARE, IncomingRun, classify_session, store_runs
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries import run_lookup

TRUSTED_ORIGIN_FIELDS = ("job", "step")
"""What of its origin a document says itself: it tells runs of one workflow run apart, and nothing more."""


def store_artifact_runs(
    store: Store,
    project: Project,
    workflow_run: WorkflowRun,
    documents: Mapping[str, bytes],
    context: AuditContext,
) -> tuple[int, list[str]]:
    """Store what was compared, each session whole or not at all: how many runs are here now, and why others are not.

    Nothing of it enters a history or says what equals show: a stranger may have written it.
    """
    refused: list[str] = []
    runs = list(_parse_documents(documents, project, workflow_run, refused))
    here = 0
    with store.begin() as tx:
        for session, session_runs in groupby(sorted(runs, key=_get_session), key=_get_session):
            try:
                with store.savepoint(tx):
                    here += sum(
                        _ensure_stored(tx, run, body_hash, project, context)
                        for run, body_hash in session_runs
                    )
            except PerfciError as error:
                if isinstance(error.__cause__, SQLAlchemyError):
                    raise  # of the database: no fault of the documents
                refused.append(f"session {session}: {error}")
    return here, refused


def build_workflow_run_actor(project: Project, workflow_run: WorkflowRun) -> Actor:
    """As whom a run of a workflow writes: what it measured of its commit and of bases, and no history."""
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
    """Whose it is and where it comes from is GitHub's to say; of a commit it may tell nothing that git knows better."""
    claimed = dict(run.origin)
    attempt = claimed.get("attempt", "")
    is_plausible = (
        attempt.isascii()
        and attempt.isdigit()
        and len(attempt) < 10
        and 1 <= int(attempt) <= workflow_run.run_attempt
    )
    origin = {name: claimed[name] for name in TRUSTED_ORIGIN_FIELDS if name in claimed}
    origin |= {
        "run_id": str(workflow_run.id),
        "event": workflow_run.event,
        "attempt": attempt if is_plausible else str(workflow_run.run_attempt),
    }
    subject = workflow_run.head_subject if run.commit.sha == workflow_run.head_sha else ""
    commit = Commit(run.commit.sha, subject=subject, dirty=run.commit.dirty)
    return replace(run, project=project, commit=commit, origin=tuple(sorted(origin.items())))


def _get_session(parsed: tuple[Run, str]) -> str:
    return parsed[0].session


def _ensure_stored(tx: Session, run: Run, body_hash: str, project: Project, context: AuditContext) -> bool:
    """Store a run, unless the job uploaded it as well; raises where it is none that may be stored."""
    if classify_session(run) != KIND_COMPARE or run.commit.dirty:
        raise PerfciError("only comparisons of what was committed are taken from a pull request")
    require_full_sha(run.commit.sha)
    key = idempotency_key(run)
    if run_lookup.find_run_by_key(tx, key) is not None:
        return True
    [receipt] = store_runs(tx, [IncomingRun(run, key, body_hash, project, context)])
    return receipt.stored
