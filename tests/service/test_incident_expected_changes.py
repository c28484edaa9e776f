"""Expected changes of a pull request are accepted on the main branch, up to the expected size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.formats import run_document
from perfci.model import IncidentState
from perfci.project_policies import build_project_policies
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.regroup_incidents import split_off_members
from perfci.service.incidents.triage import undo_last_change, update_incident
from perfci.service.pulls.expected_changes import save_expected_changes
from perfci.service.uploads.receive_runs import IncomingRun, store_uploaded_runs
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store
from perfci.store.incidents import incident_store
from perfci.store.incidents.commit_impacts_page import load_commit_impacts_page
from perfci.store.incidents.incident_records import IncidentEvent, IncidentRecord
from perfci.store.incidents.incident_store import load_incident_members
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.jobs.notification_queue import load_deliveries
from perfci.store.projects import Project
from perfci.store.writes.group_commit import GroupCommitter
from perfci.verdicts.expected_change import ExpectedChange, MergedExpectedChange
from perfci.verdicts.incidents.paging_budget import BudgetedIncident, ExpectedChangeMatch
from tests.support.builders import NOON, a_commit, a_process, a_result, a_run, a_series, a_sha, acting_as
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

NOW = NOON + timedelta(days=3)
LATER = NOW + timedelta(hours=1)
SAID = MergedExpectedChange(a_sha(12), ExpectedChange("time", 0.2, "more tokens in each"), "#12")
MEANT = "expected, declared in #12: more tokens in each"
MORE = "larger than expected: #12 declared +20.0 %; training.Step.time_step got 40.0 % slower"


def a_change_as_expected(name: str = "a1", rel: float = 0.2) -> BudgetedIncident:
    """An incident of which all that got worse was announced."""
    return replace(
        a_budgeted_incident(name, a_move(rel=rel)),
        expected_change_match=ExpectedChangeMatch((SAID,)),
        page_number=0,
    )


def a_change_beyond_expected(name: str = "a1", rel: float = 0.4) -> BudgetedIncident:
    """One that came to more than that."""
    return replace(
        a_budgeted_incident(name, a_move(rel=rel)),
        expected_change_match=ExpectedChangeMatch((SAID,), (a_move(rel=rel),)),
    )


def current(store: Store, number: int = 1) -> IncidentRecord:
    project = a_project(store)
    with store.read() as tx:
        record = incident_store.find_incident(tx, project.id, number)
    assert record is not None
    return record


def history(store: Store) -> list[IncidentEvent]:
    with store.read() as tx:
        return incident_store.load_incident_events(tx, current(store).id)


def accepted_lines(store: Store) -> list[bool]:
    project = a_project(store)
    with store.read() as tx:
        return [impact.accepted for impact in load_commit_impacts_page(tx, project.id)[0]]


def subscribe(store: Store, *states: str) -> Project:
    project = a_project(store)
    with store.begin() as tx:
        routes = {"states": list(states)} if states else {}
        save_destination(
            tx, project.id, Destination("team", "webhook", "https://hook.example/", routes=routes)
        )
    return project


def sent(store: Store, project: Project) -> list[tuple[str, str]]:
    with store.read() as tx:
        return [
            (delivery.body["state"], delivery.body["reason"]) for delivery in load_deliveries(tx, project.id)
        ][::-1]


def test_an_expected_change_is_accepted_for_good_and_notifies_nobody(store: Store) -> None:
    project = subscribe(store)

    reconcile(store, NOW, a_change_as_expected())

    record = current(store)
    assert (record.state, record.reason, record.accepted_until) == (IncidentState.ACCEPTED, MEANT, None)
    assert (record.is_open, record.paged_at, record.triaged_at) == (False, None, None)
    assert record.detail["disposition_text"] == "as expected: no alert"
    assert [(event.actor, event.before, event.after) for event in history(store)] == [
        ("perfci", "", "new"),
        ("perfci", "new", "accepted"),
    ]
    assert (accepted_lines(store), sent(store, project)) == ([True], [])


def test_an_expected_change_stays_accepted_in_later_evaluations(store: Store) -> None:
    reconcile(store, NOW, a_change_as_expected())

    changed = reconcile(store, NOW + timedelta(days=1000), a_change_as_expected()).changed

    assert (changed, current(store).state) == ((), IncidentState.ACCEPTED)


def test_a_change_beyond_the_expected_one_is_opened_and_says_so(store: Store) -> None:
    project = subscribe(store)

    reconcile(store, NOW, a_change_beyond_expected())
    reconcile(store, LATER, a_change_beyond_expected(rel=0.41))

    record = current(store)
    assert (record.state, record.is_open) == (IncidentState.NEW, True)
    assert [(event.action, event.text) for event in history(store)[1:]] == [("expected", MORE)]
    assert (accepted_lines(store), sent(store, project)) == ([False], [("new", "")])


def test_a_change_that_grows_beyond_the_expected_one_opens_and_notifies(store: Store) -> None:
    project = subscribe(store)
    reconcile(store, NOW, a_change_as_expected())

    reconcile(store, LATER, a_change_beyond_expected())

    record = current(store)
    assert (record.state, record.reason, record.state_number) == (IncidentState.NEW, MORE, 2)
    assert (accepted_lines(store), sent(store, project)) == ([False], [("new", "")])


def test_an_incident_that_moves_to_another_commit_is_opened(store: Store) -> None:
    reconcile(store, NOW, a_change_as_expected())

    reconcile(store, LATER, a_budgeted_incident("a2", a_move(at=11), good=10))

    assert current(store).reason == "the regression is not the expected change"


def test_a_late_expected_change_accepts_a_new_incident(store: Store) -> None:
    project = subscribe(store, "new", "accepted")
    reconcile(store, NOW, a_budgeted_incident())

    reconcile(store, LATER, a_change_as_expected())

    record = current(store)
    assert (record.state, record.reason, record.changed_at) == (IncidentState.ACCEPTED, MEANT, LATER)
    assert accepted_lines(store) == [True]
    assert sent(store, project) == [("new", ""), ("accepted", MEANT)]


@pytest.mark.parametrize(
    "touch",
    [
        IncidentUpdate(IncidentState.INVESTIGATING),
        IncidentUpdate(assignee="ada"),
        IncidentUpdate(note="is this the cache?"),
        IncidentUpdate(IncidentState.ACCEPTED, reason="mine", accepted_until=LATER + timedelta(days=9)),
    ],
    ids=["at work", "assigned", "a note", "accepted until a day"],
)
def test_an_incident_changed_by_a_person_is_not_accepted_automatically(
    store: Store, touch: IncidentUpdate
) -> None:
    reconcile(store, NOW, a_budgeted_incident())
    project = a_project(store)
    with store.begin() as tx:
        update_incident(tx, project, 1, 1, touch, acting_as("ada", NOW))
    before = current(store)

    reconcile(store, LATER, a_change_as_expected())

    assert (current(store).state, current(store).reason) == (before.state, before.reason)


def test_an_automatic_acceptance_can_be_opened_and_undone(store: Store) -> None:
    reconcile(store, NOW, a_change_as_expected())
    project = a_project(store)
    with store.begin() as tx:
        update_incident(
            tx,
            project,
            1,
            1,
            IncidentUpdate(IncidentState.NEW, reason="not on this machine"),
            acting_as("ada", NOW),
        )
    reconcile(store, LATER, a_change_as_expected())
    opened = current(store)

    with store.begin() as tx:
        undo_last_change(tx, project, 1, opened.revision, acting_as("ada", LATER))

    record = current(store)
    assert (opened.state, record.state) == (IncidentState.NEW, IncidentState.ACCEPTED)
    assert (record.reason, record.accepted_until) == (MEANT, None)


def test_an_incident_split_by_a_person_is_not_accepted_automatically(store: Store) -> None:
    both = ExpectedChangeMatch((replace(SAID, expected=ExpectedChange("*", 0.2, "more tokens in each")),))
    reconcile(
        store, NOW, replace(a_budgeted_incident("a1", a_move("x"), a_move("y")), expected_change_match=both)
    )
    project = a_project(store)
    with store.begin() as tx:
        series = load_incident_members(tx, current(store).id)[0].series_id
        split_off_members(tx, project, 1, 1, {series}, acting_as("ada", NOW))

    reconcile(store, LATER, a_budgeted_incident("a1", a_move("x"), a_move("y")))

    assert [current(store, number).state for number in (1, 2)] == [IncidentState.ACCEPTED] * 2


def test_an_invalid_incident_that_reappears_as_expected_is_accepted_at_once(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident())
    reconcile(store, NOW)

    reconcile(store, LATER, a_change_as_expected())

    assert (current(store).state, current(store).gone_at) == (IncidentState.ACCEPTED, None)


@pytest.fixture
def group(store: Store) -> Iterator[GroupCommitter]:
    a_project(store)
    with closing(GroupCommitter(store)) as group:
        yield group


def upload_a_step(store: Store, group: GroupCommitter) -> None:
    """Sixteen commits, of which the ninth costs a fifth."""
    project = a_project(store)
    for number in range(1, 17):
        level = 1.0 if number < 9 else 1.2
        processes = [a_process(level * wobble, index=at) for at, wobble in enumerate((1.0, 1.001, 0.999))]
        began = NOON + timedelta(hours=number)
        run = a_run(
            a_result(a_series(), *processes), commit=a_commit(number), session=f"s-{number}", started_at=began
        )
        key = run_document.idempotency_key(run)
        group.submit_batch_item(
            store_uploaded_runs, IncomingRun(run, key, key, project, AuditContext(LOCAL, NOON, "test"))
        )


def declare_expected_change(store: Store, change: float, sha: str) -> int:
    merged = MergedExpectedChange(
        sha, ExpectedChange("training.Step.*", change, "more tokens in each"), "#12"
    )
    project = a_project(store)
    with store.begin() as tx:
        return save_expected_changes(tx, project, [merged], AuditContext(LOCAL, NOW))


def evaluate(store: Store) -> int:
    worker = JudgeWorker(store, partial(build_project_policies, Settings()), clock=lambda: NOW)
    return worker.drain()


@pytest.mark.parametrize(("change", "state"), [(0.2, "accepted"), (0.03, "new"), (-0.2, "new")])
def test_evaluates_uploads_with_expected_changes(
    store: Store, group: GroupCommitter, change: float, state: str
) -> None:
    declare_expected_change(store, change, a_sha(9))
    upload_a_step(store, group)

    evaluate(store)

    assert current(store).state == state


def test_an_expected_change_alone_triggers_an_evaluation(store: Store, group: GroupCommitter) -> None:
    upload_a_step(store, group)
    evaluate(store)
    first = current(store).state

    added = [declare_expected_change(store, 0.2, a_sha(9)) for _ in range(2)]

    assert (added, evaluate(store)) == ([1, 0], 1)
    assert (first, current(store).state) == (IncidentState.NEW, IncidentState.ACCEPTED)
