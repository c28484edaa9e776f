"""Processes that are measured beside each other take turns: one runs, the others wait, and none waits for
the dead.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from runner.conftest import a_runner

from perfci.config import RunTable, Settings
from perfci.model import ALTERNATING_FLAG, Commit, Status
from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import expand_cells
from perfci.runner.turn_scheduler import TurnScheduler
from tests.support.git_project import GitProject

SUITE = """
    import json, os, time
    import thing

    class Work:
        params = [1, 2]
        spans = []
        def setup(self, size):
            thing.prepare()
        def time_it(self, size):
            begin = time.monotonic_ns()
            thing.work()
            self.spans.append((begin, time.monotonic_ns()))
        def teardown(self, size):
            if not self.spans:
                return
            with open(os.environ["SPANS"], "a") as file:
                print(json.dumps([thing.NAME, self.spans]), file=file)
            self.spans.clear()

    def time_counted(): thing.work()
    time_counted.number, time_counted.repeat = 3, 4
    time_counted.timeout = 1.0

    def track_one(): return 1
"""

STEADY = "NAME = {name!r}\ndef prepare(): pass\ndef work(): return sum(range(20_000))\n"


@pytest.fixture(params=["fork", "spawn"])
def launch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPANS", str(tmp_path / "spans"))
    return tmp_path / "spans"


def side_by_side(
    project: GitProject, head: str, match: str, launch: str = "fork"
) -> list[tuple[CellOutcome, CellOutcome]]:
    """The cells that match, at a steady base and at this head; what each pair of processes gave."""
    project.commit("Base", thing=STEADY.format(name="base"), benchmarks__suite=SUITE)
    project.commit("Head", thing=head)
    with a_runner(project, Settings(run=RunTable.model_validate({"launch": launch}))) as runner:
        commits = [runner.repository.list_commit_or_range(rev)[0] for rev in ("HEAD~1", "HEAD")]
        runner.prepare_commits(commits)
        return list(measured_beside(runner, commits, match))


def measured_beside(
    runner: MeasurementRunner, commits: list[Commit], match: str
) -> Iterator[tuple[CellOutcome, CellOutcome]]:
    cells = expand_cells(runner.discover_suite(commits[0].sha).benchmarks.values(), match, 10)
    rows = [[cell, cell] for cell in cells]
    for measured in runner.visit_commits_interleaved([commit.sha for commit in commits], rows):
        (base, _), (head, _) = measured
        yield base, head


# ------------------------------------------------------------------ who keeps the turns


def test_no_process_runs_before_all_wait_and_then_each_in_turn() -> None:
    (a, his), (b, hers) = socket.socketpair(), socket.socketpair()
    keeper = TurnScheduler([a, b])

    order = []
    for name, player, ours in [("a", his, a), ("b", hers, b), ("a", his, a), ("b", hers, b)]:
        player.sendall(b"w")
        keeper.handle_message_and_grant_turn(ours)
        order.append([name for name, entry in (("a", his), ("b", hers)) if _has_the_turn(entry)])

    assert order == [[], ["a"], ["b"], ["a"]]
    for item in (a, his, b, hers):
        item.close()


def test_a_process_that_hangs_up_is_not_waited_for() -> None:
    (a, his), (b, hers) = socket.socketpair(), socket.socketpair()
    keeper = TurnScheduler([a, b])
    his.close()
    hers.sendall(b"w")

    keeper.handle_message_and_grant_turn(b)
    keeper.handle_message_and_grant_turn(a)

    assert (_has_the_turn(hers), keeper.live_participants) == (True, (b,))
    for item in (a, b, hers):
        item.close()


def test_all_processes_use_the_first_requested_number() -> None:
    (a, his), (b, hers) = socket.socketpair(), socket.socketpair()
    keeper = TurnScheduler([a, b])

    answers = []
    for player, ours, number in [(his, a, 7), (hers, b, 9), (hers, b, 2), (his, a, 4)]:
        player.sendall(b"n" + number.to_bytes(8, "little"))
        keeper.handle_message_and_grant_turn(ours)
        answers.append(int.from_bytes(player.recv(8), "little"))

    assert answers == [7, 7, 2, 2]
    for item in (a, his, b, hers):
        item.close()


def _has_the_turn(player: socket.socket) -> bool:
    player.setblocking(False)
    try:
        return bool(player.recv(1))
    except BlockingIOError:
        return False
    finally:
        player.setblocking(True)


# ------------------------------------------------------------------ real processes


def test_no_call_of_one_side_overlaps_one_of_the_other(project: GitProject, spans: Path, launch: str) -> None:
    ((base, head),) = side_by_side(project, STEADY.format(name="head"), r"time_it\(1\)", launch)

    recorded = [json.loads(line) for line in spans.read_text().splitlines()]
    calls = sorted((begin, end, name) for name, mine in recorded for begin, end in mine)
    changes = sum(item[2] != after[2] for item, after in itertools.pairwise(calls))
    assert all(end <= begin for (_, end, _), (begin, _, _) in itertools.pairwise(calls))
    assert changes >= 2 * min(len(side.metrics[0].samples) for side in (base, head)) - 1
    assert all(ALTERNATING_FLAG in side.flags for side in (base, head))


def test_a_sample_is_as_many_calls_as_last_a_turn(project: GitProject, spans: Path) -> None:
    ((base, head),) = side_by_side(project, STEADY.format(name="head"), r"time_it\(1\)")

    wall, cpu = base.metrics
    assert (wall.name, cpu.name, len(wall.samples)) == ("time", "cpu_time", len(cpu.samples))
    assert len(wall.samples) >= 5  # however slow the machine is
    assert wall.number == head.metrics[0].number > 1


def test_a_benchmark_that_offers_no_turn_is_not_interleaved(project: GitProject) -> None:
    ((base, head),) = side_by_side(project, STEADY.format(name="head"), "track_one")

    assert [(side.status, side.flags) for side in (base, head)] == [(Status.OK, ())] * 2


def test_a_number_set_by_the_suite_is_kept(project: GitProject) -> None:
    ((base, head),) = side_by_side(project, STEADY.format(name="head"), "time_counted")

    assert [(len(side.metrics[0].samples), side.metrics[0].number) for side in (base, head)] == [
        (4, 3),
        (4, 3),
    ]


def test_one_side_that_fails_leaves_the_other_to_end_by_itself(project: GitProject, spans: Path) -> None:
    broken = STEADY.format(name="head") + "def prepare(): raise ValueError('no model')\n"

    pairs = side_by_side(project, broken, "time_it")

    assert [(base.status, head.status) for base, head in pairs] == [(Status.OK, Status.FAILED)] * 2
    assert pairs[0][1].reason == "ValueError: no model"


def test_one_side_that_hangs_is_ended_by_its_own_limit(project: GitProject) -> None:
    hangs = STEADY.format(name="head") + "import time\ndef work(): time.sleep(60)\n"

    ((base, head),) = side_by_side(project, hangs, "time_counted")

    assert (base.status, head.status) == (Status.OK, Status.TIMEOUT)
    assert head.reason == "did not end within 1 s"


def test_a_commit_that_does_not_import_is_not_waited_for(project: GitProject) -> None:
    ((base, head),) = side_by_side(project, "import os; os._exit(7)\n", "track_one")

    assert base.status is Status.OK
    assert head.reason == "importing the suite crashed (status 1792)"


def test_variants_of_one_commit_take_turns_with_each_other(project: GitProject, spans: Path) -> None:
    project.commit("Only one", thing=STEADY.format(name="one"), benchmarks__suite=SUITE)
    with a_runner(project) as runner:
        (commit,) = runner.repository.list_commit_or_range("HEAD")
        runner.prepare_commits([commit])
        item, two = expand_cells(runner.discover_suite(commit.sha).benchmarks.values(), "time_it", 10)
        ((first, second),) = runner.visit_commits_interleaved([commit.sha] * 2, [[item, two]])

    assert [(outcome.cell.name, outcome.status) for outcome, _ in (first, second)] == [
        ("suite.Work.time_it(1)", Status.OK),
        ("suite.Work.time_it(2)", Status.OK),
    ]


@pytest.mark.parametrize(("turns", "taken"), [("auto", True), ("always", True), ("never", False)])
def test_interleaving_can_be_switched_off(project: GitProject, turns: str, taken: bool) -> None:
    project.commit("Only one", thing=STEADY.format(name="one"), benchmarks__suite=SUITE)

    with a_runner(project, Settings(run=RunTable.model_validate({"interleave": turns}))) as runner:
        (commit,) = runner.repository.list_commit_or_range("HEAD")
        runner.prepare_commits([commit])

        assert runner.can_interleave([commit.sha]) is taken
