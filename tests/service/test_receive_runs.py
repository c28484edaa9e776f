"""Uploads that share a transaction get the responses of sequential ones."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from perfci.auth.permissions import LOCAL
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.uploads.receive_runs import IncomingRun, store_uploaded_runs
from perfci.service.uploads.series_quota import SeriesQuota, SeriesQuotaExceeded
from perfci.store import Store
from perfci.store.access import audit_log
from perfci.store.jobs import work_queue_and_leases
from perfci.store.projects import create_project, find_project
from perfci.store.queries import measured_samples, runs_and_sessions
from tests.support.builders import NOON, PROJECT, a_process, a_result, a_run, a_series


def sent(store: Store, *bodies: str) -> list[bool]:
    """Whether each was new of uploads of one run, by the hashes of their bodies."""
    run, act = a_run(a_result(None, a_process(1.0))), AuditContext(LOCAL, NOON, "test")
    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON)
        receipts = store_uploaded_runs(
            tx, [IncomingRun(run, "0" * 64, body, project, act) for body in bodies]
        )
    return [receipt.stored for receipt in receipts]


def test_concurrent_identical_uploads_are_stored_and_enqueued_once(store: Store) -> None:
    assert sent(store, "body", "body") == [True, False]

    with store.read() as tx:
        work = work_queue_and_leases.load_next_project_work(tx, ["judge"], 9, NOON)
        assert [item.subject for item in work] == ["0" * 64]
        assert len(measured_samples.load_session_processes(tx, a_run().session)) == 1


def test_a_concurrent_upload_with_another_body_under_the_same_key_is_refused(store: Store) -> None:
    with pytest.raises(PerfciError, match="is stored already with other content"):
        sent(store, "body", "other")


def test_uploads_of_one_actor_are_logged_once_a_day_and_again_after_a_rollback(store: Store) -> None:
    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON)

    def upload(number: int, at: datetime) -> None:
        run = a_run(a_result(None, a_process(1.0)), session=f"session-{number}")
        with store.begin() as tx:
            context = AuditContext(LOCAL, at, "test")
            store_uploaded_runs(tx, [IncomingRun(run, f"{number:064}", "body", project, context)])
            if number == 1:
                raise ValueError("rolled back")

    with pytest.raises(ValueError, match="rolled back"):
        upload(1, NOON)
    upload(2, NOON)
    upload(3, NOON + timedelta(hours=1))
    upload(4, NOON + timedelta(days=1))

    with store.read() as tx:
        logged = [entry.subject for entry in audit_log.list_entries(tx, project.id)]
    assert logged == [f"{4:064}", f"{2:064}"]


def test_no_project_takes_the_sessions_of_another(store: Store) -> None:
    """Whoever comes first: a name that another project has, or would get, is one of the project itself."""
    sessions = ["shared", "shared @ acme/model", "shared"]
    slugs = ["rival/own", "rival/own", PROJECT]
    for number, (slug, session) in enumerate(zip(slugs, sessions, strict=True)):
        run = a_run(a_result(None, a_process(1.0)), project=slug, session=session)
        with store.begin() as tx:
            project = find_project(tx, slug) or create_project(tx, slug, "private", NOON)
            upload = IncomingRun(run, f"{number:064}", "body", project, AuditContext(LOCAL, NOON, "test"))
            assert store_uploaded_runs(tx, [upload])[0].stored

    with store.read() as tx:
        stored = {
            slug: {session.uid for session in runs_and_sessions.load_sessions(tx, slug)}
            for slug in ("rival/own", PROJECT)
        }
    assert stored == {
        "rival/own": {"shared", "shared @ acme/model @ rival/own"},
        PROJECT: {"shared @ acme/model"},
    }


def upload_series(store: Store, number: int, names: list[str], quota: SeriesQuota, **about: Any) -> bool:
    """Upload a run of some benchmarks; return whether it was stored."""
    results = [a_result(a_series(name), a_process(1.0)) for name in names]
    run = a_run(*results, session=f"session-{number}", **about)
    with store.begin() as tx:
        project = find_project(tx, PROJECT) or create_project(tx, PROJECT, "private", NOON)
    context = AuditContext(LOCAL, NOON + timedelta(hours=number), "test")
    try:
        with store.begin() as tx:
            upload = IncomingRun(run, f"{number:064}", "body", project, context, quota)
            return store_uploaded_runs(tx, [upload])[0].stored
    except SeriesQuotaExceeded:
        return False


def test_new_series_of_a_day_are_limited_and_known_ones_are_not(store: Store) -> None:
    quota = SeriesQuota(per_day=3)

    stored = [
        upload_series(store, number, names, quota)
        for number, names in enumerate([["a", "b"], ["c", "d"], ["a", "b"], ["c"], ["d"]])
    ]
    tomorrow = upload_series(store, 24, ["d"], quota)

    assert (stored, tomorrow) == ([True, False, True, True, False], True)


def test_new_series_of_a_pull_request_are_limited_and_take_none_of_the_main_branch(store: Store) -> None:
    of_pull = {"origin": (("event", "pull_request"), ("run_id", "1"))}
    one, two = (SeriesQuota(per_day=3, per_pull_request=2, pull_request=name) for name in ("#1", "#2"))

    assert upload_series(store, 1, ["a", "b"], one, **of_pull)
    assert not upload_series(store, 2, ["c"], one, **of_pull)
    assert upload_series(store, 3, ["a"], one, **of_pull)
    assert upload_series(store, 4, ["c"], two, **of_pull)
    assert not upload_series(store, 5, ["d"], two, **of_pull)
    assert upload_series(store, 6, ["e", "f", "g"], one)


def test_says_what_to_do_about_too_many_series(store: Store) -> None:
    with store.begin() as tx:
        project = create_project(tx, PROJECT, "private", NOON)
        quota = SeriesQuota(pull_request="#1", per_pull_request=5)
        with pytest.raises(SeriesQuotaExceeded) as refused:
            quota.charge_new_series(tx, project.id, PROJECT, 6, NOON)

    assert str(refused.value) == (
        "This pull request would bring 6 new series to acme/model, more than the 5 of [server] "
        "new_series_per_pull_request: is a name or a parameter different in every run? What it sent before, "
        "and further results of these series, are stored."
    )
