"""The pages of the fleet and of the environment: who is alive, and what changed under the benchmarks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from html import unescape

import pytest
from flask.testing import FlaskClient
from page_reading import P, read
from web_builders import NOW, PROJECT, STEP, a_commit, a_store

from perfci.model import Environment, Machine, Result, Run, Status, Variant, freeze_named_values
from perfci.store import Store
from perfci.store.incidents.reporting_schedules_and_run_arrivals import (
    ReportSource,
    load_reporting_schedules,
    save_learned_schedule,
    set_reporting_schedule,
)
from perfci.store.jobs.work_queue_and_leases import claim_free_lease, enqueue_work
from perfci.store.projects import find_project
from perfci.store.queries.series_commits_machines import load_machines_by_id
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app
from tests.support.builders import a_series

HOSTILE = "<script>alert(1)</script>"
H100, A100 = Machine(name="h100-lab"), Machine(name=f"a100 {HOSTILE}")


def an_ok_run(number: int, machine: Machine, at: datetime, variant: str = "", **observed: str) -> Run:
    """A run with a value, and on the A100 a failure beside it."""
    series = a_series(machine=machine)
    results = [Result(series, Status.SKIPPED, reason="not here")]
    if machine is A100:
        results = [Result(series, Status.FAILED, reason="boom")]
    return Run(
        project=PROJECT,
        session="fleet",
        commit=a_commit(number),
        machine=machine,
        environment=Environment(freeze_named_values(observed)),
        variant=Variant(freeze_named_values({"torch": variant}) if variant else ()),
        suite="nightly",
        harness="1",
        started_at=at,
        finished_at=at,
        results=tuple(results),
    )


def fill_fleet(store: Store) -> None:
    """Two machines: the H100 ran an hour ago, the A100 is silent since eight days."""
    old, new = "550.54", f"560.35 {HOSTILE}"
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(8)])
        start_session(tx, PROJECT, "fleet", "history", "spec", 7, 5, NOW - timedelta(days=40))
        for number in range(6):
            driver = old if number < 4 else new
            at = NOW - timedelta(days=5 - number, hours=1)
            for variant in ("", "nightly"):
                host = {"hostname": f"node-{number}"}
                find_or_add_run(tx, an_ok_run(number, H100, at, variant, torch="2.12", driver=driver, **host))
        find_or_add_run(tx, an_ok_run(1, A100, NOW - timedelta(days=8), torch="2.12", kernel="6.1"))
        project = find_project(tx, PROJECT)
        assert project is not None
        ids = {machine: row_id for row_id, machine in load_machines_by_id(tx).items()}
        for machine, last in ((H100, NOW - timedelta(hours=1)), (A100, NOW - timedelta(days=8))):
            source = ReportSource("nightly", ids[machine], "main")
            save_learned_schedule(tx, project.id, source, None, 1, last)
        for schedule in load_reporting_schedules(tx, project.id):
            set_reporting_schedule(tx, project.id, schedule.id, every_s=86_400.0, muted=False, actor="ada")


@pytest.fixture(scope="module")
def fleet_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(a_store(tmp_path_factory.mktemp("fleet"))) as store:
        fill_fleet(store)
        yield store


@pytest.fixture(scope="module")
def fleet_client(fleet_store: Store) -> FlaskClient:
    return create_app(fleet_store, clock=lambda: NOW).test_client()


def words(page: str) -> str:
    """What a reader sees, with a space between the cells of a table."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split()).replace(" .", ".")


def test_says_which_machine_is_late(fleet_client: FlaskClient) -> None:
    page = read(fleet_client, f"{P}/fleet")

    text = words(page)
    since = f"{NOW - timedelta(days=8):%Y-%m-%d %H:%M}"
    assert (
        f"1 of 2 machines is late: nightly (main) has not reported from a100 {HOSTILE} since {since} UTC."
        in text
    )
    assert HOSTILE not in page
    assert "h100-lab nightly ✓ on time every 1 day 1 hour ago 12 12 0 –" in text
    assert "✕ late every 1 day" in text
    assert "8 days ago 0 1 1 –" in text


def test_says_whether_a_worker_runs(fleet_store: Store, fleet_client: FlaskClient) -> None:
    before = words(read(fleet_client, f"{P}/fleet"))
    with fleet_store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        claim_free_lease(tx, "judge", "host-of-the-worker")
        enqueue_work(tx, project.id, "judge", ["0" * 64], NOW - timedelta(minutes=20))
    page = read(fleet_client, f"{P}/fleet")

    assert "No judge worker runs; nothing waits. No open order." in before
    assert "The oldest upload waits for 20 minutes to be judged: does perfci judge-worker run?" in words(page)
    assert "host-of-the-worker" not in page


def test_gives_the_fleet_as_json(fleet_client: FlaskClient) -> None:
    document = fleet_client.get(f"{P}/fleet.json").get_json()

    fields = [
        (each["machine"], each["state"], each["runs_7d"], each["failed_results_30d"])
        for each in document["machines"]
    ]
    assert fields == [("h100-lab", "on time", 12, 0), (f"a100 {HOSTILE}", "late", 0, 1)]


def test_says_that_no_machine_has_reported(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(1)])
    client = create_app(empty_store, clock=lambda: NOW).test_client()

    assert "No machine has reported a run yet." in words(read(client, f"{P}/fleet"))
    assert "No run says what it was measured in yet." in words(read(client, f"{P}/env"))


def test_lists_a_change_of_the_environment_once(fleet_client: FlaskClient) -> None:
    page = read(fleet_client, f"{P}/env")

    text = words(page)
    assert "1 recorded change of the environment, the last one on 11 Apr 2026." in text
    assert f"driver 550.54 → 560.35 {HOSTILE} 11 Apr 2026 h100-lab in 2 suites or variants" in text
    assert f"{P}/compare/{a_commit(3).sha}...{a_commit(4).sha}" in page
    assert HOSTILE not in page


def test_says_since_when_nothing_changed_and_what_is_unknown(fleet_client: FlaskClient) -> None:
    text = words(read(fleet_client, f"{P}/env"))

    assert (
        "No change since 11 Apr 2026. 12 runs, the last one 1 hour ago. Unknown: cuda, python, kernel."
        in text
    )
    assert "No recorded change since 4 Apr 2026. 1 run, the last one 8 days ago." in text
    assert "Changes too often to explain anything: hostname (10 times)." in text


def test_shows_the_change_of_torch_of_a_real_history(client: FlaskClient) -> None:
    document = client.get(f"{P}/env.json").get_json()

    [change] = document["changes"]
    assert change["changes"] == [{"name": "torch", "before": "2.12.1", "after": "2.13.0"}]
    assert (change["base"], change["head"]) == (a_commit(STEP - 1).sha, a_commit(STEP).sha)
