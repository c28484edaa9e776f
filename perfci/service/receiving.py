"""An upload becomes a stored run and a promise to judge it, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.access import Actor, Denied
from perfci.auth.grants import OTHER_SESSION, objection
from perfci.model import Commit, PerfciError, Result, Role, Run
from perfci.net.shapes.runs import Receipt
from perfci.service.accounts import Act
from perfci.store import arrivals, audit, outbox
from perfci.store.groups import Group
from perfci.store.loading import HISTORY_KINDS
from perfci.store.projects import PRIVATE, Project, create_project, project, touch
from perfci.store.writes import ingest_run
from perfci.verdicts.levels import digest

HISTORY, COMPARE, EQUALS = "history", "compare", "aa"

RECEIVED = "run.receive"
"""What the audit log calls uploads: one line a day for each caller, for there may be many."""


def receive(
    group: Group, run: Run, key: str, body_hash: str, *, project: Project, actor: Actor, now: datetime, request_id: str
) -> Receipt:
    """Store a run and answer only after the commit; the same run with the same content is a success as well."""
    return group.submit(lambda tx: received(tx, run, key, body_hash, project, Act(actor, now, request_id)))


def received(tx: Session, run: Run, key: str, body_hash: str, project: Project, act: Act) -> Receipt:
    """The same within a transaction."""
    kind = kind_of(run)
    _require_grant(tx, act.actor, run, kind)
    if act.actor.grant is not None and not act.actor.grant.baseline:
        run = replace(run, commit=_as_a_stranger_tells(tx, run.commit, project))
    stored = _store(tx, run, key, body_hash, kind, act.at)
    if stored:
        _promise(tx, run, key, kind, project, act.at)
        _note(tx, act, project, key)
        touch(tx, [project.id])
    samples = sum(len(process.samples) for result in run.results for process in result.processes)
    return Receipt(key=key, project=run.project, stored=stored, results=len(run.results), samples=samples)


def first_seen(tx: Session, act: Act, slug: str) -> Project:
    """A project begins with its first run, where whoever sends it may make projects at all; several may be first."""
    try:
        return project(tx, slug) or new_project(tx, act, slug, PRIVATE)
    except PerfciError:  # another process was faster, and has committed
        found = project(tx, slug)
        assert found is not None
        return found


def new_project(tx: Session, act: Act, slug: str, visibility: str) -> Project:
    made = create_project(tx, slug, visibility, act.at)
    act.note(tx, "project.create", slug, made.id, {"visibility": visibility})
    return made


def _require_grant(tx: Session, actor: Actor, run: Run, kind: str) -> None:
    """Refuse with the token of a job what that job did not measure, and what would join what others measured."""
    if actor.grant is None:
        return
    if problem := objection(actor.grant, run, history=kind == HISTORY):
        raise Denied(403, problem)
    others = arrivals.origins_of_session(tx, run.session)
    if any(dict(origin).get("run_id") != actor.grant.run_id for origin in others):
        raise Denied(403, OTHER_SESSION.format(run.session))


def _as_a_stranger_tells(tx: Session, commit: Commit, project: Project) -> Commit:
    """What a job that writes no history may say of a commit: its subject, where nobody told of it before.

    The place of a commit in the line, its branch and its date decide the order of histories.
    """
    subject = "" if arrivals.is_known_commit(tx, project.id, commit.sha) else commit.subject
    return Commit(commit.sha, subject=subject, dirty=commit.dirty)


def kind_of(run: Run) -> str:
    """What a session of this run is for: a history takes in no pull request, no changed working tree, no comparison.

    The server decides; what a document says of itself is only what is measured in it.
    """
    history = Role.HISTORY
    compared = [result for result in run.results if any(one.role is not history for one in result.processes)]
    if any(base & head for base, head in map(_pairs, compared)):
        return EQUALS
    return COMPARE if compared or run.commit.dirty or _of_pull_request(run) else HISTORY


def _pairs(result: Result) -> tuple[set[int | None], set[int | None]]:
    """The pairs of which a result holds the base side, and those of which it holds the head side."""
    base, head = (
        {process.pair for process in result.processes if process.role is role} for role in (Role.BASE, Role.HEAD)
    )
    return base, head


def _of_pull_request(run: Run) -> bool:
    return dict(run.origin).get("event", "").startswith("pull_request")


def _store(tx: Session, run: Run, key: str, body_hash: str, kind: str, now: datetime) -> bool:
    before = arrivals.session_kind(tx, run.session)
    stored = ingest_run(tx, run, key, body_hash, kind=kind, received_at=now, came_to=digest)
    if stored and before not in (None, kind) and not {before, kind} <= set(HISTORY_KINDS):
        raise PerfciError(
            f"The session {run.session} is one of kind {before}, and this run would be one of kind {kind}: "
            "give the run a session of its own."
        )
    return stored


def _promise(tx: Session, run: Run, key: str, kind: str, project: Project, now: datetime) -> None:
    if kind == HISTORY:
        outbox.add(tx, project.id, "judge", key, now)
    else:
        outbox.add(tx, project.id, "judge_pr", run.session, now)


def _note(tx: Session, act: Act, project: Project, key: str) -> None:
    today = act.at.replace(hour=0, minute=0, second=0, microsecond=0)
    if not audit.was_done(tx, project.id, act.actor.name, RECEIVED, today):
        act.note(tx, RECEIVED, key, project.id)
