"""Functions in processes of their own: what comes back, who is blamed, and that nothing is left behind."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perfci.bench.children import Child, ChildFailed, ChildOutOfMemory, ended, forked, fresh, results


def run(*functions: Callable[[], object], timeout_s: float = 30.0) -> list[object]:
    children: list[Child] = []
    with ended(children):
        children.extend(forked(f"child {index}", function) for index, function in enumerate(functions))
        return results(children, timeout_s)


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


def test_names_the_child_that_crashed_and_not_who_noticed() -> None:
    def notices() -> None:
        raise ConnectionError("child 1 is gone")

    def crashes() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(ChildFailed, match=r"^child 1: ended by SIGTERM \(signal 15\)$"):
        run(notices, crashes)


def test_tells_running_out_of_memory_from_other_ends() -> None:
    def takes_all() -> None:
        raise MemoryError("1 TB")

    def killed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildOutOfMemory, match="child 0: MemoryError: 1 TB"):
        run(takes_all)
    with pytest.raises(MemoryError, match="as the kernel does when memory runs out"):
        run(killed)


def test_tells_an_exit_without_a_result() -> None:
    with pytest.raises(ChildFailed, match="child 0: exited with code 3 before it returned a result"):
        run(lambda: os._exit(3))


def test_a_result_that_cannot_be_sent_is_a_failure() -> None:
    with pytest.raises(ChildFailed, match=r"child 0: .*pickle"):
        run(lambda: lambda: None)


def test_says_where_a_child_hangs() -> None:
    def waits_for_ever() -> None:
        time.sleep(600)

    with pytest.raises(TimeoutError, match=r"^child 1 did not end within 0.3 s: child 1 is in waits_for_ever \(test_"):
        run(lambda: 1, waits_for_ever, timeout_s=0.3)


def test_leaves_nothing_running_not_even_a_grandchild(tmp_path: Path) -> None:
    def has_a_child() -> None:
        grandchild = os.fork()
        if grandchild == 0:
            time.sleep(600)
        (tmp_path / "pids").write_text(f"{os.getpid()} {grandchild}")
        time.sleep(600)

    with pytest.raises(TimeoutError):
        run(has_a_child, timeout_s=0.5)

    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    def parent() -> None:
        child = forked("child", lambda: time.sleep(600))
        (tmp_path / "pid").write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildOutOfMemory):
        run(parent)

    assert gone(int((tmp_path / "pid").read_text()))


def test_a_fresh_child_is_another_interpreter_with_the_same_paths() -> None:
    children: list[Child] = []

    with ended(children):
        children.append(fresh("fresh", functools.partial(os.getenv, "PERFCI_TOLD"), {"PERFCI_TOLD": "yes"}))
        children.append(fresh("fresh", functools.partial(Path.exists, Path(__file__))))

        assert results(children, 60) == ["yes", True]
    assert "PERFCI_TOLD" not in os.environ


def test_a_forked_child_has_its_own_environment() -> None:
    children: list[Child] = []

    with ended(children):
        children.append(forked("forked", lambda: os.environ["PERFCI_TOLD"], {"PERFCI_TOLD": "yes"}))

        assert results(children, 30) == ["yes"]
    assert "PERFCI_TOLD" not in os.environ


def gone(pid: int) -> bool:
    """Whether a process ends within five seconds; one that waits to be reaped has ended."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False
