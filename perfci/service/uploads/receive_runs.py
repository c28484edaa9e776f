"""An upload becomes a stored run and a promise to judge it, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.grants import OTHER_SESSION, objection
from perfci.auth.permissions import Actor, Denied
from perfci.model import Commit, PerfciError, Result, Role, Run
from perfci.net.shapes.runs import Receipt
from perfci.service.audit_context import AuditContext
from perfci.store.access import audit_log
from perfci.store.jobs import outbox
from perfci.store.projects import Project, touch
from perfci.store.queries import run_lookup as arrivals
from perfci.store.queries.loaders import HISTORY_KINDS
from perfci.store.writes.bulk_insert import Document
from perfci.store.writes.group_commit import Group
from perfci.store.writes.ingest import ingest_together
from perfci.verdicts.process_levels import digest

HISTORY, COMPARE, EQUALS = "history", "compare", "aa"

RECEIVED = "run.receive"
"""What the audit log calls uploads: one line a day for each caller, for there may be many."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A run that somebody sends: under which key, in which body, into which project, who and when."""

    run: Run
    key: str
    body_hash: str
    project: Project
    act: AuditContext

    @property
    def document(self) -> Document:
        return (self.run, self.key, self.body_hash)


def receive(group: Group, arrival: Arrival) -> Receipt:
    """Store a run and answer only after the commit; the same run with the same content is a success as well."""
    return group.submit_to(received, arrival)


def received(tx: Session, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """The same for many within a transaction, in as few statements as for one; one that is refused raises for all."""
    first: dict[str, Arrival] = {}  # who sends the same once more meets what is stored by then
    for one in arrivals:
        first.setdefault(one.key, one)
    stored: set[str] = set()
    for alike in _alike(first.values()):
        stored |= _store(tx, *alike)
    return [_receipt(one, one.key in stored) if one is first[one.key] else received(tx, [one])[0] for one in arrivals]


def _alike(arrivals: Iterable[Arrival]) -> Iterator[tuple[Project, str, list[Arrival]]]:
    """What goes into one project for one purpose."""
    found: dict[tuple[int, str], list[Arrival]] = defaultdict(list)
    for one in arrivals:
        found[one.project.id, kind_of(one.run)].append(one)
    return ((some[0].project, kind, some) for (_, kind), some in found.items())


def _receipt(arrival: Arrival, stored: bool) -> Receipt:
    results = arrival.run.results
    samples = sum(len(process.samples) for result in results for process in result.processes)
    return Receipt(key=arrival.key, project=arrival.run.project, stored=stored, results=len(results), samples=samples)


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


def _store(tx: Session, project: Project, kind: str, some: Sequence[Arrival]) -> set[str]:
    """The keys of those that were not known: they are stored now, and promised to be judged."""
    admitted = [_admitted(tx, one, kind) for one in some]
    before = arrivals.session_kinds(tx, {one.run.session for one in admitted})
    at = max(one.act.at for one in admitted)
    documents = [one.document for one in admitted]
    stored = ingest_together(tx, documents, kind=kind, received_at=at, came_to=digest)
    new = [one for one in admitted if one.key in stored]
    for one in new:
        _require_kind(one.run.session, before.get(one.run.session, kind), kind)
    if new:
        _promise(tx, project, kind, new, at)
        _note(tx, project, new)
        touch(tx, [project.id])
    return stored


def _admitted(tx: Session, arrival: Arrival, kind: str) -> Arrival:
    """What is stored of a run, by whoever sends it."""
    run, actor = arrival.run, arrival.act.actor
    _require_grant(tx, actor, run, kind)
    if actor.grant is None or actor.grant.baseline:
        return arrival
    return replace(arrival, run=replace(run, commit=_as_a_stranger_tells(tx, run.commit, arrival.project)))


def _require_kind(session: str, before: str, kind: str) -> None:
    if before != kind and not {before, kind} <= set(HISTORY_KINDS):
        raise PerfciError(
            f"The session {session} is one of kind {before}, and this run would be one of kind {kind}: "
            "give the run a session of its own."
        )


def _promise(tx: Session, project: Project, kind: str, new: Sequence[Arrival], at: datetime) -> None:
    if kind == HISTORY:
        outbox.add_all(tx, project.id, "judge", [one.key for one in new], at)
    else:
        outbox.add_all(tx, project.id, "judge_pr", [one.run.session for one in new], at)


def _note(tx: Session, project: Project, new: Sequence[Arrival]) -> None:
    for arrival in {one.act.actor.name: one for one in reversed(new)}.values():
        act = arrival.act
        today = act.at.replace(hour=0, minute=0, second=0, microsecond=0)
        if not audit_log.was_done(tx, project.id, act.actor.name, RECEIVED, today):
            act.record(tx, RECEIVED, arrival.key, project.id)
