"""What GitHub tells is kept for the projects it concerns, and nothing else is done while GitHub waits."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.jobs import PULL_REQUEST, is_run_of
from perfci.github.events import Event, WorkflowRunEvent
from perfci.github.shapes import WorkflowRun
from perfci.store import repositories, run_events
from perfci.store.repositories import Repository
from perfci.store.run_events import Told

BEGUN = frozenset({"requested", "in_progress"})
ENDED = "completed"


def hear(tx: Session, event: Event | None, delivery: str, now: datetime) -> int:
    """For how many projects something is to be done that was not told before."""
    if not isinstance(event, WorkflowRunEvent) or event.installation is None or not _concerns_a_pull_request(event):
        return 0
    run = event.workflow_run
    told = Told(delivery, event.installation.id, event.repository.full_name, run.id, event.action)
    bound = repositories.bindings_to(tx, event.repository.id)
    return sum(run_events.add(tx, one.project_id, told, now) for one in bound if is_bound_run(run, one.repository))


def is_bound_run(run: WorkflowRun, bound: Repository) -> bool:
    """Whether a project was bound to the repository, the owner and the file of a run."""
    of = run.repository
    return is_run_of(bound, of.id, of.owner.id if of.owner else None, run.files)


def _concerns_a_pull_request(event: WorkflowRunEvent) -> bool:
    return event.workflow_run.event == PULL_REQUEST and event.action in BEGUN | {ENDED}
