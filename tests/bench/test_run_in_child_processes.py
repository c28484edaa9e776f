"""Functions in processes of their own: what comes back, who is blamed, and that nothing is left behind."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest

from perfci.bench.processes.run_in_child_processes import (
    ChildFailed,
    ChildOutOfMemory,
    ChildProcess,
    fork_child,
    kill_children_on_exit,
    spawn_child,
    wait_for_results,
)
from tests.support.waiting import has_ended, until


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a child is given to tell of itself, on a machine that lets it wait for its turn."""
    monkeypatch.setattr("perfci.bench.processes.run_in_child_processes.FAILURE_GRACE_S", 60.0)


def run(*functions: Callable[[], object], timeout_s: float = 30.0) -> list[object]:
    children: list[ChildProcess] = []
    with kill_children_on_exit(children):
        children.extend(fork_child(f"child {index}", function) for index, function in enumerate(functions))
        return wait_for_results(children, timeout_s)


def test_gives_the_results_in_the_order_of_the_children() -> None:
    def late() -> int:
        time.sleep(0.05)
        return os.getpid()

    first, second = run(late, os.getpid)

    assert len({first, second, os.getpid()}) == 3
    assert run(lambda: "slow" if not time.sleep(0.05) else "", lambda: "fast") == ["slow", "fast"]


def test_names_the_child_that_raised() -> None:
    def fails() -> None:
        raise ValueError("no such rank")

    with pytest.raises(ChildFailed, match=r"^child 1: ValueError: no such rank$"):
        run(lambda: time.sleep(60), fails)


def test_names_the_child_that_failed_first_though_both_reports_arrive_at_once() -> None:
    """A machine may be too busy to listen in between: then all have failed, in an order of which only they
    know.
    """
    reader, writer = Pipe(duplex=False)
    children: list[ChildProcess] = []

    def notices() -> None:
        writer.close()
        reader.recv()

    def fails() -> None:
        raise ValueError("no such rank")

    with kill_children_on_exit(children), reader:
        children.extend([fork_child("child 0", notices), fork_child("child 1", fails)])
        writer.close()
        assert all(until(child.result_pipe.poll) for child in children)

        with pytest.raises(ChildFailed, match=r"^child 1: ValueError: no such rank$"):
            wait_for_results(children, 0.0)


@pytest.mark.usefixtures("patience")
def test_names_the_child_that_crashed_and_not_the_one_that_noticed() -> None:
    def notices() -> None:
        raise ConnectionError("child 1 is gone")

    def crashes() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(ChildFailed, match=r"^child 1: ended by SIGTERM \(signal 15\)$"):
        run(notices, crashes)


def test_distinguishes_running_out_of_memory_from_other_crashes() -> None:
    def takes_all() -> None:
        raise MemoryError("1 TB")

    def killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildOutOfMemory, match="child 0: MemoryError: 1 TB"):
        run(takes_all)
    with pytest.raises(MemoryError, match="as the kernel does when memory runs out"):
        run(killed)


def test_reports_an_exit_without_a_result() -> None:
    with pytest.raises(ChildFailed, match="child 0: exited with code 3 before it returned a result"):
        run(lambda: os._exit(3))


def test_a_result_that_cannot_be_sent_is_a_failure() -> None:
    with pytest.raises(ChildFailed, match=r"child 0: .*pickle"):
        run(lambda: lambda: None)


@pytest.mark.usefixtures("patience")
def test_reports_the_line_at_which_a_child_hangs(tmp_path: Path) -> None:
    children: list[ChildProcess] = []

    def waits_for_ever() -> None:
        (tmp_path / "waits").touch()
        time.sleep(600)

    with kill_children_on_exit(children):
        children.extend([fork_child("child 0", lambda: 1), fork_child("child 1", waits_for_ever)])
        assert until(children[0].result_pipe.poll)
        assert until((tmp_path / "waits").exists)

        with pytest.raises(
            TimeoutError, match=r"^child 1 did not end within 0.1 s: child 1 is in waits_for_ever \(te"
        ):
            wait_for_results(children, 0.1)


def test_leaves_nothing_running_not_even_a_grandchild(tmp_path: Path) -> None:
    children: list[ChildProcess] = []

    def has_a_child() -> None:
        grandchild = os.fork()
        if grandchild == 0:
            time.sleep(600)
        (tmp_path / "pids").write_text(f"{os.getpid()} {grandchild}\n")
        time.sleep(600)

    with kill_children_on_exit(children):
        children.append(fork_child("child", has_a_child))
        assert until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith("\n"))

    assert all(has_ended(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    def parent() -> None:
        child = fork_child("child", lambda: time.sleep(600))
        (tmp_path / "pid").write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildOutOfMemory):
        run(parent)

    assert has_ended(int((tmp_path / "pid").read_text()))


def test_a_fresh_child_is_another_interpreter_with_the_same_paths() -> None:
    children: list[ChildProcess] = []

    with kill_children_on_exit(children):
        children.append(
            spawn_child("fresh", functools.partial(os.getenv, "PERFCI_TOLD"), {"PERFCI_TOLD": "yes"})
        )
        children.append(spawn_child("fresh", functools.partial(Path.exists, Path(__file__))))

        assert wait_for_results(children, 60) == ["yes", True]
    assert "PERFCI_TOLD" not in os.environ


def test_a_forked_child_has_its_own_environment() -> None:
    children: list[ChildProcess] = []

    with kill_children_on_exit(children):
        children.append(fork_child("forked", lambda: os.environ["PERFCI_TOLD"], {"PERFCI_TOLD": "yes"}))

        assert wait_for_results(children, 30) == ["yes"]
    assert "PERFCI_TOLD" not in os.environ
