"""``perfci order`` and ``perfci work``: what is ordered is measured once, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perfci.cli import run_cli
from perfci.config import Settings
from perfci.engines import held_order, local_measurement, local_worker
from perfci.net.api_schemas.measurement_orders import NewOrder
from perfci.project_policies import ProjectPolicies
from perfci.service.orders.order_queues import StoreOrderQueue
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, open_store
from perfci.store.access.audit_log import list_entries
from perfci.store.projects import find_project
from perfci.store.queries.paged_lists import RunFilter, load_runs_page
from perfci.store.verdicts_and_change_points import load_verdict_records
from tests.support.git_project import GitProject
from tests.support.switchable_connection import SwitchableConnection
from tests.support.waiting import until

SUITE = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
"""

SLOW_SUITE = """
    import os, pathlib, time
    import thing

    def track_bytes():
        counted = pathlib.Path(os.environ["STARTED"])
        with counted.open("a") as file:
            file.write("x")
        if len(counted.read_text()) > 2 and not pathlib.Path(os.environ["STARTED"] + "-fast").exists():
            time.sleep(60)
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
"""

REPLAYED = "1 verdict recomputed from stored samples: identical"


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    return make_project(working_folder, SUITE)


def make_project(folder: Path, suite: str) -> GitProject:
    project = GitProject(folder)
    project.commit("First", thing="BYTES = 1000\n", benchmarks__suite=suite)
    project.commit("Second", thing="BYTES = 1200\n")
    return project


def query(project: GitProject, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(project.folder / ".perfci" / "perfci.db")) as database:
        return database.execute(text).fetchall()


@contextmanager
def open_queue(project: GitProject) -> Iterator[StoreOrderQueue]:
    [(slug,)] = query(project, "select slug from projects")
    with closing(open_store(f"sqlite:///{project.folder}/.perfci/perfci.db", create=False)) as store:
        yield StoreOrderQueue(store, slug, Settings())


@pytest.fixture
def queue(project: GitProject) -> Iterator[StoreOrderQueue]:
    run_cli(["order", "place", "HEAD~1", "HEAD"])
    with open_queue(project) as queue:
        yield queue


def outputs(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert run_cli(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out.splitlines()


def test_orders_are_joined_measured_and_answered(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    base, head = (project.git("rev-parse", revision) for revision in ("HEAD~1", "HEAD"))
    pairs = ("order", "place", "HEAD~1", "HEAD", "--bench", "bytes", "--pairs", "4")

    placed = [outputs(capsys, *pairs) for _ in range(2)]
    assert placed == [["order 1 is placed"], ["order 1 was open already and is joined"]]
    assert outputs(capsys, "order", "place", "HEAD") == ["order 2 is placed"]
    assert outputs(capsys, "order", "place", "HEAD~1") == ["order 3 is placed"]
    assert outputs(capsys, "order", "cancel", "3") == ["order 3 is cancelled"]
    assert outputs(capsys, "work", "--once") == ["2 orders carried out"]

    assert outputs(capsys, "order", "list") == [
        f"    3  commit {base[:10]}  cancelled: Cancelled by local.  (local)",
        f"    2  commit {head[:10]}  done: measured  (local)",
        f"    1  pairs of {base[:10]} and {head[:10]}, --bench bytes, 4 pairs  done: 1 regression  (local)",
    ]
    [asked, state, *requests] = outputs(capsys, "order", "show", "1")
    assert asked == f"order 1: pairs of {base[:10]} and {head[:10]}, --bench bytes, 4 pairs"
    assert (state, len(requests)) == ("state: done: 1 regression", 2)
    assert query(project, "select kind, stage from verdicts") == [("regression", "confirmation")]
    assert query(project, "select kind, state from sessions order by id") == [
        ("compare", "finished"),
        ("history", "finished"),
    ]
    roles = dict(query(project, "select role, count(*) from processes group by role"))
    assert roles == {"history": 5, "base": 4, "head": 4}
    assert outputs(capsys, "check", "--replay")[-1] == REPLAYED


def test_what_cannot_be_measured_fails_with_a_sentence(
    queue: StoreOrderQueue, project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    queue.cancel(1)
    queue.place(NewOrder(head="f" * 40))
    head = project.git("rev-parse", "HEAD")
    queue.place(NewOrder(head=head, bench="nothing; rm -rf /"))

    outputs(capsys, "work", "--once")

    assert [order.problem for order in queue.list_orders("failed", 9)][::-1] == [
        f"There is no commit ffffffffffff in {project.folder}, and its origin has none: push it there, and "
        "order it again.",
        "no benchmark matches --bench 'nothing; rm -rf /'; the suite has suite.track_bytes",
    ]


def test_orders_nothing_of_github_where_no_app_is(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["order", "place", "HEAD", "--engine", "github"]) == 2

    assert capsys.readouterr().err == (
        "perfci: The engine github was asked for, and nothing here carries out its orders: that takes a "
        "server that is a GitHub App ([app] id) and a project that is bound to a workflow "
        "(`perfci project bind`). Order it of the engine local, for `perfci work`.\n"
    )
    assert query(project, "select count(*) from measurement_orders") == [(0,)]


def test_fetches_a_commit_that_the_clone_lacks(
    tmp_path: Path, working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin = make_project(tmp_path / "origin", SUITE)
    clone = GitProject(working_folder)
    clone.git("remote", "add", "origin", str(origin.folder))
    clone.git("pull", "--quiet", "origin", "main")
    late = origin.commit("Third", thing="BYTES = 1300\n")
    outputs(capsys, "order", "place", "HEAD")
    with open_queue(clone) as queue:
        queue.cancel(1)
        queue.place(NewOrder(head=late))

    outputs(capsys, "work", "--once")

    assert query(clone, "select state, problem from measurement_orders") == [
        ("cancelled", "Cancelled by local."),
        ("done", ""),
    ]


@pytest.mark.proof
def test_ordered_pairs_refute_a_candidate_of_the_history(
    working_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine that was busy for the later half of a history, and is quiet when the pairs are measured."""
    quiet = tmp_path / "quiet"
    suite = f"""
        import pathlib, thing
        def track_bytes():
            return 1200 if thing.NUMBER > 6 and not pathlib.Path({str(quiet)!r}).exists() else 1000
        track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
    """
    project = GitProject(working_folder)
    project.commit("Begin", thing="NUMBER = 0\n", benchmarks__suite=suite)
    for number in range(1, 13):
        project.commit(f"Number {number}", thing=f"NUMBER = {number}\n")
    outputs(capsys, "run", "HEAD~12..HEAD", "--rounds", "1", "--no-confirm")
    before = query(project, "select kind from incidents")
    quiet.touch()

    outputs(capsys, "order", "place", "HEAD~6", "HEAD~5")
    outputs(capsys, "work", "--once")

    after = query(project, "select kind from incidents")
    assert (before, after) == ([("regression",)], [("machine",)])
    assert query(project, "select state from measurement_orders") == [("done",)]


def start_worker(project: GitProject) -> subprocess.Popen[str]:
    """Start a worker on a suite whose third process hangs, and wait for it."""
    started = project.folder / "started"
    worker = subprocess.Popen(
        [sys.executable, "-m", "perfci.cli", "work", "--once"],
        cwd=project.folder,
        env={**os.environ, "STARTED": str(started)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert until(lambda: started.exists() and len(started.read_text()) == 3)
    return worker


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_worker_goes_on_where_one_was_stopped(
    working_folder: Path,
    number: signal.Signals,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = make_project(working_folder, SLOW_SUITE)
    outputs(capsys, "order", "place", "HEAD~1", "HEAD", "--pairs", "4")
    worker = start_worker(project)

    worker.send_signal(number)
    worker.communicate(timeout=90)

    [(state, attempts)] = query(project, "select state, attempts from measurement_orders")
    if number == signal.SIGKILL:
        assert (state, attempts) == ("running", 1)
        with closing(sqlite3.connect(project.folder / ".perfci" / "perfci.db")) as database, database:
            database.execute("update measurement_orders set lease_ends_at = 0")
    else:
        assert (worker.returncode, state, attempts) == (0, "queued", 0)
    (project.folder / "started-fast").touch()
    monkeypatch.setenv("STARTED", str(project.folder / "started"))
    assert outputs(capsys, "work", "--once") == ["1 order carried out"]
    assert query(project, "select state, result is not null from measurement_orders") == [("done", 1)]
    assert query(project, "select state, count(*) from sessions") == [("finished", 1)]
    pairs = query(project, "select pair, count(*) from processes group by pair order by pair")
    assert all(count == 2 for _, count in pairs), pairs


class LosesEveryFirstAnswer:
    """Lets each request that writes arrive, and loses the answer to the first one of each address."""

    def __init__(self, connection: SwitchableConnection, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost: list[str] = []
        self._pass_on = connection.handle_request
        monkeypatch.setattr(connection, "handle_request", self.handle)
        monkeypatch.setattr(local_worker, "FIRST_RETRY_S", 0.001)
        monkeypatch.setattr(local_measurement, "RESEND_S", 0.001)

    def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1").removeprefix("/projects/acme:model")
        answer = self._pass_on(request)
        if request.method == "GET" or path in self.lost:
            return answer
        self.lost.append(path)
        if path == "/runs":
            return httpx.Response(503, headers={"Retry-After": "0"})
        raise httpx.ReadError("the connection was reset")


def test_a_server_whose_answers_are_lost_gets_everything_once(
    project: GitProject,
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PERFCI_CLIENT_SERVER", "https://perf.example.com")
    monkeypatch.setenv("PERFCI_PROJECT", "acme/model")
    outputs(capsys, "project", "create", "acme/model")
    outputs(capsys, "order", "place", "HEAD~1", "HEAD", "--pairs", "4")
    losses = LosesEveryFirstAnswer(connection, monkeypatch)

    assert outputs(capsys, "work", "--once") == ["1 order carried out"]

    assert losses.lost == ["/orders/claim", "/runs", "/orders/1/finish"]
    assert outputs(capsys, "order", "list")[0].endswith("done: 1 regression  (local)")
    with server_store.read() as tx:
        project_row = find_project(tx, "acme/model")
        assert project_row is not None
        runs = load_runs_page(tx, project_row.id, RunFilter(), before=0, limit=9)
        actions = [entry.action for entry in list_entries(tx, project_row.id)][::-1]
    assert [run.kind for run in runs] == ["compare", "compare"]
    assert [action for action in actions if action.startswith("order")] == [
        "order.place",
        "order.claim",
        "order.finish",
    ]
    JudgeWorker(server_store, lambda _: ProjectPolicies()).drain()
    with server_store.read() as tx:
        verdicts = [record.verdict for record in load_verdict_records(tx, "acme/model")]
    assert [(verdict.kind, verdict.stage) for verdict in verdicts] == [("regression", "confirmation")]
    assert query(project, "select count(*) from measurement_orders") == [(0,)]


def test_a_cancelled_order_stops_the_measurement(
    queue: StoreOrderQueue,
    project: GitProject,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pass_on = StoreOrderQueue.send_heartbeat

    def cancel_at_first_process(
        self: StoreOrderQueue, number: int, lease: int, progress: str, findings: Any
    ) -> Any:
        if progress.startswith("0 of "):
            queue.cancel(number)
        return pass_on(self, number, lease, progress, findings)

    monkeypatch.setattr(StoreOrderQueue, "send_heartbeat", cancel_at_first_process)
    monkeypatch.setattr(held_order, "HEARTBEATS_PER_LEASE", 6000)

    capsys.readouterr()
    assert run_cli(["work", "--once"]) == 0

    assert "stopped: order 1 is cancelled\n" in capsys.readouterr().err
    assert query(project, "select state, problem, result from measurement_orders") == [
        ("cancelled", "Cancelled by local.", None)
    ]
    assert query(project, "select count(*) from verdicts") == [(0,)]
