"""Runs out of the artifact of a pull request: whatever they say of themselves, GitHub says whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import groupby

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from perfci.auth.grants import Grant
from perfci.auth.permissions import Actor, Role, Scope
from perfci.formats import run_document
from perfci.formats.run_document import idempotency_key
from perfci.github.operations import full
from perfci.github.shapes import WorkflowRun
from perfci.model import Commit, PerfciError, Run
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import COMPARE, Arrival, kind_of, received
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.queries import run_lookup

KEPT = ("job", "step")
"""What of its origin a document says itself: it tells runs of one workflow run apart, and nothing more."""


def take_in(
    store: Store, project: Project, ran: WorkflowRun, documents: Mapping[str, bytes], act: AuditContext
) -> tuple[int, list[str]]:
    """Store what was compared, each session whole or not at all: how many runs are here now, and why others are not.

    Nothing of it enters a history or says what equals show: a stranger may have written it.
    """
    refused: list[str] = []
    runs = list(_read(documents, project, ran, refused))
    here = 0
    with store.begin() as tx:
        for session, some in groupby(sorted(runs, key=_session), key=_session):
            try:
                with store.savepoint(tx):
                    here += sum(_is_here(tx, run, body_hash, project, act) for run, body_hash in some)
            except PerfciError as error:
                if isinstance(error.__cause__, SQLAlchemyError):
                    raise  # of the database: no fault of the documents
                refused.append(f"session {session}: {error}")
    return here, refused


def actor_of(project: Project, ran: WorkflowRun) -> Actor:
    """As whom a run of a workflow writes: what it measured of its commit and of bases, and no history."""
    grant = Grant(str(ran.id), ran.run_attempt, ran.head_sha)
    name = f"github-repository/{ran.repository.id}"
    return Actor("token", name, {project.id: Role.ADMIN}, frozenset({Scope.WRITE}), f"run {ran.id}", grant)


def _read(
    documents: Mapping[str, bytes], project: Project, ran: WorkflowRun, refused: list[str]
) -> Iterator[tuple[Run, str]]:
    for name, body in sorted(documents.items()):
        try:
            run = run_document.read_plain(body, name)
        except PerfciError as error:
            refused.append(str(error))
        else:
            yield _as_github_says(run, project.slug, ran), sha256(body).hexdigest()


def _as_github_says(run: Run, project: str, ran: WorkflowRun) -> Run:
    """Whose it is and where it comes from is GitHub's to say; of a commit it may tell nothing that git knows better."""
    said = dict(run.origin)
    attempt = said.get("attempt", "")
    known = attempt.isascii() and attempt.isdigit() and len(attempt) < 10 and 1 <= int(attempt) <= ran.run_attempt
    origin = {name: said[name] for name in KEPT if name in said}
    origin |= {"run_id": str(ran.id), "event": ran.event, "attempt": attempt if known else str(ran.run_attempt)}
    subject = ran.head_subject if run.commit.sha == ran.head_sha else ""
    commit = Commit(run.commit.sha, subject=subject, dirty=run.commit.dirty)
    return replace(run, project=project, commit=commit, origin=tuple(sorted(origin.items())))


def _session(read: tuple[Run, str]) -> str:
    return read[0].session


def _is_here(tx: Session, run: Run, body_hash: str, project: Project, act: AuditContext) -> bool:
    """Store a run, unless the job uploaded it as well; raises where it is none that may be stored."""
    if kind_of(run) != COMPARE or run.commit.dirty:
        raise PerfciError("only comparisons of what was committed are taken from a pull request")
    full(run.commit.sha)
    key = idempotency_key(run)
    if run_lookup.stored_run(tx, key) is not None:
        return True
    [receipt] = received(tx, [Arrival(run, key, body_hash, project, act)])
    return receipt.stored
