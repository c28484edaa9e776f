"""Uploads are judged once, whichever worker is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from unittest.mock import patch

import pytest

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.formats import run_document
from perfci.model import ChangePoint, Run, VerdictKind
from perfci.project_policies import build_project_policies
from perfci.service.accounts.projects_members_tokens import change_project
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import IncomingRun, store_uploaded_runs
from perfci.service.worker import judge_worker
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, verdicts_and_change_points
from perfci.store.incidents import incident_store
from perfci.store.jobs import work_queue_and_leases
from perfci.store.jobs.work_queue_and_leases import OutboxItem
from perfci.store.projects import create_project, find_project
from perfci.store.queries.comparisons.levels_at_two_commits import load_levels_of_two_commits
from perfci.store.writes.group_commit import GroupCommitter
from tests.support.builders import NOON, a_commit, a_pair, a_process, a_result, a_run, a_sha
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store

SLUG = "acme/model"
LATER = NOON + timedelta(days=30)


@pytest.fixture
def group(store: Store) -> Iterator[GroupCommitter]:
    with store.begin() as tx:
        create_project(tx, SLUG, "private", NOON)
    with closing(GroupCommitter(store)) as group:
        yield group


def a_worker(store: Store, now: datetime = LATER) -> JudgeWorker:
    return JudgeWorker(store, partial(build_project_policies, Settings()), clock=lambda: now)


def upload(group: GroupCommitter, store: Store, *runs: Run) -> None:
    for run in runs:
        with store.read() as tx:
            into = find_project(tx, run.project)
        assert into is not None
        key = run_document.idempotency_key(run)
        group.submit_batch_item(
            store_uploaded_runs, IncomingRun(run, key, key, into, AuditContext(LOCAL, NOON, "test"))
        )


def a_step(commits: int = 16, at: int = 9) -> list[Run]:
    """One run a commit; from one commit on everything takes a fifth longer."""
    levels = {number: 1.0 if number < at else 1.2 for number in range(1, commits + 1)}
    return [
        a_run(
            a_result(None, *(a_process(level * wobble, index=place) for place, wobble in enumerate(WOBBLES))),
            commit=a_commit(number),
            session=f"session-{number}",
            started_at=NOON + timedelta(hours=number),
        )
        for number, level in levels.items()
    ]


WOBBLES = (1.0, 1.001, 0.999)


def stored_change_points(store: Store) -> list[ChangePoint]:
    with store.read() as tx:
        return verdicts_and_change_points.load_change_points(tx, SLUG)


def test_locates_the_commit_of_a_step_and_opens_an_incident(group: GroupCommitter, store: Store) -> None:
    upload(group, store, *a_step())

    done = a_worker(store).drain()

    assert (done, [change.commit for change in stored_change_points(store)]) == (16, [a_sha(9)])
    with store.read() as tx:
        assert [
            pair[2:] for pair in load_levels_of_two_commits(tx, find_project(tx, SLUG).id, a_sha(8), a_sha(9))
        ] == [(1.0, 1.2)]
        assert [
            record.commit
            for record in incident_store.load_incidents(
                tx, find_project(tx, SLUG).id, incident_store.MEASURED
            )
        ] == [a_sha(9)]
        assert work_queue_and_leases.load_next_project_work(tx, ["judge", "judge_pr"], 10, LATER) == []


def test_draining_runs_the_periodic_jobs_too(store: Store) -> None:
    done: list[datetime] = []
    worker = JudgeWorker(
        store, partial(build_project_policies, Settings()), clock=lambda: LATER, periodic_jobs=[done.append]
    )

    assert (worker.drain(), done) == (0, [LATER])


def test_draining_leaves_the_work_to_a_live_worker(store: Store) -> None:
    done: list[datetime] = []
    worker = JudgeWorker(store, partial(build_project_policies, Settings()), periodic_jobs=[done.append])
    worker.lease.acquire_if_abandoned = lambda: False  # type: ignore[method-assign]

    assert (worker.drain(), done) == (None, [])


def test_judges_uploaded_pairs_and_stores_the_decisions(group: GroupCommitter, store: Store) -> None:
    pairs = [a_pair(number, 1.0 + number / 1e4, 1.3 + number / 1e4) for number in range(12)]
    base = a_run(a_result(None, *(pair for pair, _ in pairs)), commit=a_commit(1), session="pr")
    head = a_run(a_result(None, *(pair for _, pair in pairs)), commit=a_commit(2), session="pr")
    upload(group, store, base)
    a_worker(store).drain()

    upload(group, store, head)
    a_worker(store).drain()

    with store.read() as tx:
        records = verdicts_and_change_points.load_verdict_records(tx, SLUG, base=a_sha(1), head=a_sha(2))
    assert [(record.verdict.kind, record.session_uid) for record in records] == [
        (VerdictKind.REGRESSION, "pr")
    ]
    assert len(records[0].verdict.evidence) == 24


@pytest.mark.parametrize("order", [("suspected", "fresh"), ("fresh", "suspected")])
def test_fresh_pairs_decide_in_whichever_order_they_arrive(
    order: tuple[str, str], group: GroupCommitter, store: Store
) -> None:
    measured = {
        "suspected": [a_pair(number, 1.0 + number / 1e4, 1.3 + number / 1e4) for number in range(12)],
        "fresh": [a_pair(number, 1.0 + number / 1e4, 1.0 + (11 - number) / 1e4) for number in range(12)],
    }
    for session in order:
        for side, commit in enumerate((a_commit(1), a_commit(2))):
            result = a_result(None, *(pair[side] for pair in measured[session]))
            began = NOON + timedelta(minutes=10 if session == "fresh" else 0)
            upload(group, store, a_run(result, commit=commit, session=session, started_at=began))
        a_worker(store).drain()

    with store.read() as tx:
        records = verdicts_and_change_points.load_verdict_records(tx, SLUG, base=a_sha(1), head=a_sha(2))
    assert [(record.verdict.kind, record.session_uid) for record in records] == [
        (VerdictKind.UNCHANGED, "fresh")
    ]


def set_project_tables(store: Store, slug: str, **tables: object) -> None:
    with store.begin() as tx:
        existing = find_project(tx, slug) or create_project(tx, slug, "private", NOON)
        change_project(tx, AuditContext(LOCAL, NOON), existing, settings=tables)


def test_judges_each_project_by_its_own_bars(group: GroupCommitter, store: Store) -> None:
    set_project_tables(store, SLUG, judge={"bar": 0.05})
    set_project_tables(store, "acme/loose", judge={"bar": 0.5})
    set_project_tables(store, "acme/blind", policy=[{"match": "time_step", "judge": False}])
    pairs = [a_pair(number, 1.0 + number / 1e4, 1.3 + number / 1e4) for number in range(12)]
    base, head = (a_result(None, *side) for side in zip(*pairs, strict=True))
    slugs = [SLUG, "acme/loose", "acme/blind"]

    for slug in slugs:
        upload(group, store, a_run(base, commit=a_commit(1), session=f"pr of {slug}", project=slug))
        upload(group, store, a_run(head, commit=a_commit(2), session=f"pr of {slug}", project=slug))
        upload(
            group,
            store,
            *(replace(run, project=slug, session=f"{run.session} of {slug}") for run in a_step()),
        )
    a_worker(store).drain()

    with store.read() as tx:
        verdicts = {
            slug: [
                record.verdict.kind for record in verdicts_and_change_points.load_verdict_records(tx, slug)
            ]
            for slug in slugs
        }
        moves = {
            slug: [change.commit for change in verdicts_and_change_points.load_change_points(tx, slug)]
            for slug in slugs
        }
    assert verdicts == {SLUG: ["regression"], "acme/loose": ["unchanged"], "acme/blind": []}
    assert moves == {SLUG: [a_sha(9)], "acme/loose": [], "acme/blind": []}


def test_pages_of_a_project_follow_its_own_budget(group: GroupCommitter, store: Store) -> None:
    set_project_tables(store, SLUG, history={"pages_per_week": 0})

    upload(group, store, *a_step())
    a_worker(store).drain()

    with store.read() as tx:
        look = incident_store.find_last_evaluation(tx, find_project(tx, SLUG).id)
        [incident] = incident_store.load_incidents(tx, find_project(tx, SLUG).id, incident_store.MEASURED)
    assert (look.pages_per_week, incident.disposition) == (0, "held_back")


def test_judging_an_upload_again_adds_no_verdict(group: GroupCommitter, store: Store) -> None:
    pairs = [a_pair(number, 1.0, 1.3) for number in range(12)]
    aa = a_run(a_result(None, *(entry for pair in pairs for entry in pair)), session="aa")
    upload(group, store, aa)
    with patch.object(
        judge_worker.work_queue_and_leases, "delete_work"
    ):  # as if it died between the verdict and the end of the work
        worker = a_worker(store)
        worker.run_once()
    worker.lease.release()

    a_worker(store).drain()

    with store.read() as tx:
        assert len(verdicts_and_change_points.load_verdict_records(tx, SLUG, current_only=False)) == 1


def test_a_killed_evaluation_is_repeated_with_the_same_result(group: GroupCommitter, store: Store) -> None:
    upload(group, store, *a_step())
    worker = a_worker(store)
    with (
        patch.object(judge_worker.work_queue_and_leases, "delete_work", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        worker.run_once()
    worker.lease.release()

    a_worker(store).drain()

    assert [change.commit for change in stored_change_points(store)] == [a_sha(9)]
    with store.read() as tx:
        assert len(incident_store.load_incidents(tx, find_project(tx, SLUG).id, incident_store.MEASURED)) == 1


def test_a_worker_with_an_empty_cache_derives_the_same(group: GroupCommitter, store: Store) -> None:
    runs = a_step()
    worker = a_worker(store)
    for run in runs:
        upload(group, store, run)
        worker.run_once()
    step_by_step = stored_change_points(store)
    worker.lease.release()

    upload(group, store, a_run(a_result(), commit=a_commit(17), session="session-17"))
    a_worker(store).drain()

    assert [(c.commit, c.last_good) for c in stored_change_points(store)] == [
        (c.commit, c.last_good) for c in step_by_step
    ]


def test_an_upload_that_cannot_be_judged_blocks_no_other_and_stores_its_problem(
    group: GroupCommitter, store: Store
) -> None:
    good, bad = a_run(a_result(), session="good"), a_run(a_result(), commit=a_commit(2), session="bad")
    upload(group, store, good, bad)
    broken = run_document.idempotency_key(bad)
    whole = judge_worker.judging_inputs.load_series_ids_of_runs

    def fails(tx: object, keys: list[str]) -> list[int]:
        if broken in keys:
            raise ZeroDivisionError("no level")
        return whole(tx, keys)  # type: ignore[arg-type]

    with patch.object(judge_worker.judging_inputs, "load_series_ids_of_runs", fails):
        a_worker(store).drain()

    with store.read() as tx:
        left = work_queue_and_leases.load_next_project_work(tx, ["judge"], 10, LATER + timedelta(hours=1))
    assert [(item.subject, item.attempts, item.problem) for item in left] == [
        (broken, 1, "ZeroDivisionError: no level")
    ]


def test_uploads_during_an_evaluation_wait_for_the_next_evaluation(
    group: GroupCommitter, store: Store
) -> None:
    first, second = a_step()[:2]
    upload(group, store, first)
    reconcile = judge_worker.reconcile_incidents

    def late(*arguments: object) -> None:
        reconcile(*arguments)  # type: ignore[arg-type]
        upload(group, store, second)

    with patch.object(judge_worker, "reconcile_incidents", late):
        a_worker(store).run_once()

    with store.read() as tx:
        work = work_queue_and_leases.load_next_project_work(tx, ["judge"], 9, LATER)
        assert [item.subject for item in work] == [run_document.idempotency_key(second)]


def test_pauses_as_long_as_it_worked(group: GroupCommitter, store: Store) -> None:
    upload(group, store, *a_step())
    now, waited = [LATER], list[float]()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            if len(waited) == 2:
                self.set()
            return self.is_set()

    def looked(looking: JudgeWorker, work: Sequence[OutboxItem]) -> None:
        now[0] += timedelta(seconds=0.3)
        original(looking, work)

    original = JudgeWorker._evaluate_project
    with patch.object(JudgeWorker, "_evaluate_project", looked):
        JudgeWorker(store, partial(build_project_policies, Settings()), clock=lambda: now[0]).run(
            Stop(), interval_s=1.0
        )

    assert waited == [0.3, 1.0]  # then there was nothing to do


def test_only_the_holder_of_the_lease_evaluates(group: GroupCommitter, store: Store) -> None:
    upload(group, store, *a_step(1))
    holder, other = a_worker(store), a_worker(store)
    holder.lease.acquire_or_renew()

    assert (other.run_once(), holder.run_once()) == (0, 1)
