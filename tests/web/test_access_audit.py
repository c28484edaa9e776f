"""Every operation that writes adds an audit entry, with the caller and the id of the request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from access_scenario import AccessScenario

from perfci.auth.permissions import LOCAL
from perfci.formats import run_document
from perfci.formats.format_types import ImportDefaults
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.service.orders.carry_out_orders import claim_order
from perfci.service.orders.place_orders import place_order
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store, open_store
from perfci.store.access import audit_log
from perfci.store.column_conversions import series_identity
from perfci.store.jobs.measurement_orders import OrderContent
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.projects import load_projects
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.verdicts.judging_policy import Policy
from perfci_web.api.operation import API_PREFIX
from perfci_web.api.operation_table import ALL_OPERATIONS
from tests.support.builders import NOON, PROJECT, a_commit, a_result, a_run, a_series, a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, an_evaluation, measured_project
from tests.support.stored_runs import ingest_run

P = "/projects/acme:model"
RUN = a_run(a_result(), session="uploaded")
SEEN = {"If-Match": '"1"'}

POINT_MARK = f"{P}/series/{series_identity(PROJECT, a_series())}/points/{a_sha(2)}/invalid-mark"

VALID: dict[str, tuple[str, Any]] = {
    "create_project": ("/projects", {"project": "acme/new"}),
    "upload_run": ("/runs", json.loads(run_document.dump_run(RUN))),
    "change_project": (P, {"visibility": "public"}),
    "create_token": (f"{P}/tokens", {"name": "ci", "scopes": ["admin"]}),
    "revoke_token": (f"{P}/tokens/UID", None),
    "set_member": (f"{P}/members/proxy:ada", {"role": "reader"}),
    "remove_member": (f"{P}/members/proxy:ada", None),
    "bind_repository": (f"{P}/repository", {"repository": "acme/model", "repository_id": 7, "owner_id": 5}),
    "unbind_repository": (f"{P}/repository", None),
    "set_muted_benchmark": (
        f"{P}/muted-benchmarks",
        {"benchmark": "suite.a", "days": 1, "reason": "it wanders"},
    ),
    "set_archived_series": (
        f"{P}/archived-series",
        {"benchmark": a_series().benchmark.name, "reason": "its machine is gone"},
    ),
    "change_incident": (f"{P}/incidents/1", {"assignee": "ada"}),
    "change_incidents": (
        f"{P}/incidents/bulk",
        {"incidents": [{"number": 1, "revision": 1}], "change": {"assignee": "ada"}},
    ),
    "add_incident_note": (f"{P}/incidents/1/notes", {"text": "seen"}),
    "undo_incident": (f"{P}/incidents/3/undo", None),
    "merge_incident": (f"{P}/incidents/1/merge", {"others": [{"number": 2, "revision": 1}]}),
    "split_incident": (f"{P}/incidents/1/split", {"series": [series_identity(PROJECT, a_series("x"))]}),
    "move_incident_boundary": (f"{P}/incidents/1/move-boundary", {"last_good": a_sha(1), "commit": a_sha(2)}),
    "set_destination": (f"{P}/destinations/new", {"kind": "webhook", "address": "https://example.com/hook"}),
    "remove_destination": (f"{P}/destinations/team", None),
    "test_destination": (f"{P}/destinations/team/test", None),
    "resolve_result": (f"{P}/unresolved-results/1/resolve", {"unit": "points", "direction": "higher"}),
    "set_reporting_schedule": (f"{P}/reporting-schedules", {"id": 1, "every_s": 3600}),
    "mark_run_invalid": (f"{P}/runs/{2:064}/invalid-mark", {"reason": "a fan stood still"}),
    "mark_run_valid": (f"{P}/runs/{2:064}/invalid-mark", None),
    "mark_point_invalid": (POINT_MARK, {"reason": "a fan stood still"}),
    "mark_point_valid": (POINT_MARK, None),
    "add_note": (f"{P}/notes", {"commit": a_sha(1), "text": "the fan was changed"}),
    "remove_note": (f"{P}/notes/1", None),
    "rename_series": (
        f"{P}/renames",
        {"kind": "benchmark", "old": a_series().benchmark.name, "new": "suite.time_renamed"},
    ),
    "delete_run": (f"{P}/runs/{1:064}", None),
    "delete_series": (f"{P}/series/{series_identity(PROJECT, a_series())}", None),
    "delete_project": (P, None),
    "place_order": (f"{P}/orders", {"base": a_sha(1), "head": a_sha(2)}),
    "cancel_order": (f"{P}/orders/2/cancel", None),
    "bisect_incident": (f"{P}/incidents/1/bisect", {}),
    "backfill_incident": (f"{P}/incidents/1/backfill", {}),
    "claim_order": (f"{P}/orders/claim", {"worker": "another box"}),
    "finish_order": (f"{P}/orders/1/finish", {"lease": 1, "result": {"verdict": "unchanged"}}),
    "fail_order": (f"{P}/orders/1/fail", {"lease": 1, "problem": "There is no such commit."}),
    "release_order": (f"{P}/orders/1/release", {"lease": 1}),
    "add_expected_changes": (
        f"{P}/expected-changes",
        {
            "commit": a_sha(1),
            "source": "#12",
            "items": [{"match": "peak", "relative_change": 0.03, "reason": "a cache"}],
        },
    ),
}
"""A change that each operation makes of what is stored below."""

ELSEWHERE = {"exchange_token": "tests/api/test_api_trusted_publishers.py"}
"""What needs more than a caller with a token or a login: it is held to its line there."""

UNRECORDED = {"heartbeat_order"}
"""What changes nothing but how long a worker keeps what it claimed, several times a minute."""

BEFORE = {
    "remove_member": "set_member",
    "revoke_token": "create_token",
    "unbind_repository": "bind_repository",
    "undo_incident": "change_third",
    "remove_note": "add_note",
    "mark_run_valid": "mark_run_invalid",
    "mark_point_valid": "mark_point_invalid",
}
"""What has to be done before there is something to change."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of everything that can be changed."""
    path = tmp_path_factory.mktemp("audit") / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        incidents = [
            a_budgeted_incident(
                f"i{at}", a_move("x" if at == 6 else f"b{at}", at), a_move(f"c{at}", at), good=at - 1, bad=at
            )
            for at in (6, 12, 18)
        ]
        project = measured_project(store, *incidents)
        with store.begin() as tx:
            upsert_commits(tx, PROJECT, [a_commit(number) for number in range(1, 30)])
            for number in (1, 2, 3):
                began = NOON + timedelta(hours=number)
                run = a_run(a_result(), commit=a_commit(number), session=f"s{number}", started_at=began)
                ingest_run(tx, run, f"{number:064}", "body", kind="history", received_at=began)
            save_destination(tx, project.id, Destination("team", "webhook", "https://127.0.0.1/hook"))
            MissingDataMonitor()(tx, project, NOON + timedelta(hours=4))
            for number in (1, 2):
                content = OrderContent("measure", None, a_sha(number))
                place_order(tx, AuditContext(LOCAL, NOON), project, content, "cli")
            claim_order(tx, "local", "box", NOON)
        reconcile_incidents(store, project, Policy(), an_evaluation(*incidents[::-1]), NOON)
        (path.parent / "custom.json").write_text(
            json.dumps([{"name": "encode", "unit": "points", "value": 12.5}])
        )
        import_file_or_folder(
            store, path.parent / "custom.json", "auto", ImportDefaults(PROJECT, a_commit(), machine="box")
        )
    return path.read_bytes()


@pytest.fixture
def scenario(stored: bytes, tmp_path: Path) -> Iterator[AccessScenario]:
    (tmp_path / "perfci.db").write_bytes(stored)
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=False)) as store:
        scenario = AccessScenario(store, admins=["proxy/admin"])
        yield scenario
        scenario.close()


def test_lists_every_operation_that_writes() -> None:
    assert {
        operation.name for operation in ALL_OPERATIONS if operation.method != "GET"
    } == VALID.keys() | ELSEWHERE.keys() | UNRECORDED


@pytest.mark.parametrize("name", VALID)
def test_records_every_change_in_the_audit_log(scenario: AccessScenario, name: str) -> None:
    uid = ""
    if earlier := BEFORE.get(name):
        uid = (made(scenario, earlier) or {}).get("token", {}).get("uid", "")
    before = lines(scenario.store)

    answer = ask(scenario, name, uid)

    new = [line for line in lines(scenario.store) if line not in before]
    assert answer.status_code in (200, 201, 202, 204), answer.text
    places = 2 if name == "delete_project" else 1  # the log of the server as well, which is there afterwards
    assert [(item.actor, item.request_id) for item in new] == places * [
        ("user:proxy/admin", answer.headers["X-Request-Id"])
    ]


def made(scenario: AccessScenario, name: str) -> Any:
    if name == "change_third":
        body = {"state": "investigating"}
        return scenario.send("admin", "PATCH", f"{API_PREFIX}{P}/incidents/3", json=body, headers=SEEN).json
    answer = ask(scenario, name)
    return answer.json if answer.data else None


def ask(scenario: AccessScenario, name: str, uid: str = "") -> Any:
    operation = next(each_operation for each_operation in ALL_OPERATIONS if each_operation.name == name)
    path, body = VALID[name]
    headers = {"If-Match": '"2"'} if name == "undo_incident" else SEEN if operation.revision else {}
    headers |= {"Idempotency-Key": run_document.idempotency_key(RUN)} if name == "upload_run" else {}
    return scenario.send(
        "admin", operation.method, f"{API_PREFIX}{path.replace('UID', uid)}", json=body, headers=headers
    )


def lines(store: Store) -> list[audit_log.AuditEntry]:
    with store.read() as tx:
        return [
            line
            for place in (-1, *(project.id for project in load_projects(tx)))
            for line in audit_log.list_entries(tx, place)
        ]
