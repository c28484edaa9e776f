"""Keep the incidents people work on in step with what every look derives anew.

What a look found is compared with what is stored while nobody waits; then it is written in short transactions, each
incident only as it was when it was read. What a person changed meanwhile is compared again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.incidents.derive_incidents import Situation
from perfci.service.incidents.incident_columns import PERFCI, look_of
from perfci.service.incidents.lifecycle_sweep import attend
from perfci.service.incidents.plan_updates import Step, differences
from perfci.service.notify.enqueue_notifications import tell, tell_new
from perfci.store import Store
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import accept_moves, add_members, drop_members, record_moves
from perfci.store.projects import Project, touch
from perfci.verdicts.policy import Policy

MOST_ROWS = 500
"""Members and incidents written before others get a turn: some ten milliseconds."""

TRIES = 5
"""People change few incidents while a look is written: whoever changes one each time is left to the next look."""

Writing = Callable[[], AbstractContextManager[Transaction]]


@dataclass(frozen=True, slots=True)
class Synced:
    """What a look changed, by number."""

    new: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


def sync(
    store: Store, project: Project, policy: Policy, found: Situation, now: datetime, writing: Writing | None = None
) -> Synced:
    """Write what a look found into the stored incidents, and put on their way the messages it calls for.

    ``writing`` opens a transaction, where it takes more than to open one of the store. Killed anywhere, the same look
    writes the rest: nobody is told before all is there, nor twice.
    """
    writing = writing or store.begin
    written: list[tuple[Step, int]] = []
    for _ in range(TRIES):
        with store.read() as tx:
            steps = differences(tx, project, found, now)
        taken = [number for some in _portions(steps) for number in _write(writing, project, some, now)]
        written += [(step, number) for step, number in zip(steps, taken, strict=True) if number is not None]
        if None not in taken:
            break
    attend(store, project, policy, now, writing)
    with writing() as tx:
        tell_new(tx, project, now, since_ever=stored.last_look(tx, project.id) is None)
        stored.keep_look(tx, project.id, look_of(found, now))
        touch(tx, [project.id])
    return Synced(
        tuple(number for step, number in written if step.record is None),
        tuple(number for step, number in written if step.record is not None and not step.gone),
        tuple(number for step, number in written if step.gone),
    )


def _portions(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Steps that are written together: few, so that an upload waits for few."""
    portion: list[Step] = []
    for step in steps:
        if portion and sum(one.rows for one in portion) + step.rows > MOST_ROWS:
            yield portion
            portion = []
        portion.append(step)
    if portion:
        yield portion


def _write(writing: Writing, project: Project, steps: Sequence[Step], now: datetime) -> list[int | None]:
    """The number of each incident, or nothing where somebody changed it since it was read."""
    with writing() as tx:
        touch(tx, [project.id])
        return [_write_one(tx, project, step, now) for step in steps]


def _write_one(tx: Transaction, project: Project, step: Step, now: datetime) -> int | None:
    record = step.record or stored.add_incident(tx, project.id, step.columns)
    if step.record is not None:
        write = stored.change if step.decides else stored.refresh_seen
        if not write(tx, record.id, record.revision, step.columns):
            return None
    add_members(tx, record.id, step.members, first=step.record is None)
    drop_members(tx, record.id, step.dropped, now)
    record_moves(tx, project.id, record.id, step.lines, now)
    stored.add_events(tx, [(record.id, event) for event in step.events])
    if "state" in step.columns or record.state is IncidentState.ACCEPTED:
        _follow(tx, project, step, record.number, now)
    return record.number


def _follow(tx: Transaction, project: Project, step: Step, number: int, now: datetime) -> None:
    """What goes with a state: the lines of the ledger say whether they are accepted, and who was told hears on."""
    record = stored.numbered(tx, project.id, number)
    assert record is not None
    accept_moves(tx, [record.id], record.state is IncidentState.ACCEPTED)
    if "state_number" in step.columns and record.paged_at is not None:
        tell(tx, project, record, now, actor=PERFCI, reason=record.reason)
