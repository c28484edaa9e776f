"""Processes of an interrupted run, and two runs on one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject
from tests.support.waiting import until
from tools.torture_runs import list_surviving_processes

SLEEPER = """
    import os, subprocess, time
    def track_slow():
        open(os.environ["STARTED"], "a").write("x")
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        time.sleep(60)
        return 1
"""


SLOWER = """
    import os, pathlib, time
    def track_it():
        started = pathlib.Path(os.environ["STARTED"])
        if started.exists():
            pathlib.Path(f"{started}-again").touch()
            time.sleep(60)
        started.touch()
        return 1
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "STARTED": str(folder / "started")}
    command = [sys.executable, "-m", "perfci.cli", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_ctrl_c,
    )


def hears_ctrl_c() -> None:
    """A shell starts background jobs deaf to Ctrl-C; the tests may run in one, the command they start must
    not.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(path: Path) -> None:
    assert until(path.exists), f"{path} never came"


def test_ctrl_c_leaves_no_process_behind(working_folder: Path) -> None:
    GitProject(working_folder).commit("Slow", benchmarks__suite=SLEEPER)
    going = start(working_folder, "run", "--rounds", "1")
    wait_for(working_folder / "started")

    going.send_signal(signal.SIGINT)
    _, err = going.communicate(timeout=90)

    assert going.returncode == 130
    assert err.endswith("interrupted; what was measured is stored, run the same command again to go on\n")
    assert list_surviving_processes(working_folder) == []


def test_results_measured_before_an_interrupt_can_be_uploaded(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit("Slow the second time", benchmarks__suite=SLOWER)
    going = start(working_folder, "run", "--rounds", "2")
    wait_for(working_folder / "started-again")

    going.send_signal(signal.SIGINT)
    going.communicate(timeout=90)

    assert run_cli(["export", "--format", "perfci"]) == 0
    (document,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert [process["samples"] for result in document["results"] for process in result["processes"]] == [
        [1.0]
    ]


def test_rejects_a_second_run_that_may_not_wait(working_folder: Path) -> None:
    GitProject(working_folder).commit("Slow", benchmarks__suite=SLEEPER)
    first = start(working_folder, "run", "--rounds", "1")
    wait_for(working_folder / "started")

    second = start(working_folder, "run", "--rounds", "1", "--no-wait")
    _, err = second.communicate(timeout=90)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=90)

    assert second.returncode == 2
    assert err.startswith(
        f"perfci: this machine is already being measured by perfci run in {working_folder} "
        f"(process {first.pid}, "
    )


def test_a_second_run_waits_for_the_first(working_folder: Path) -> None:
    suite = """
        import os, time
        def track_span():
            with open("{folder}/spans", "a") as spans:
                spans.write("begin\\n"); spans.flush()
                time.sleep(0.5)
                spans.write("end\\n")
            return 1
    """.replace("{folder}", str(working_folder))
    GitProject(working_folder).commit("Spans", benchmarks__suite=suite)

    both = [start(working_folder, "run", "--rounds", "2") for _ in range(2)]
    codes = [each_side.wait(timeout=300) for each_side in both]
    for side in both:
        side.communicate()

    assert codes == [0, 0]
    assert (working_folder / "spans").read_text() == "begin\nend\n" * 4


def test_reports_a_process_that_the_kernel_killed_for_memory(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = memory_group(f"perfci-test-{os.getpid()}")
    suite = f"""
        import os
        def track_hungry():
            open({str(group / "cgroup.procs")!r}, "w").write(str(os.getpid()))
            return len(bytearray(os.urandom(1)) * 400_000_000)
    """
    GitProject(working_folder).commit("Hungry", benchmarks__suite=suite)

    try:
        assert run_cli(["run", "--rounds", "1"]) == 4
    finally:
        group.rmdir()

    assert "oom: killed by the kernel for memory (SIGKILL)" in capsys.readouterr().err


def memory_group(name: str) -> Path:
    """A control group of 100 MB, in either version of the interface."""
    places = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}
    groups = [root / name for root, limit in places.items() if limited(root / name, limit)]
    if not groups:
        pytest.skip("this machine does not let the tests make a memory control group")
    return groups[0]


def limited(group: Path, limit: str) -> bool:
    """Whether a group is made; where no control groups are mounted, a mere folder is."""
    try:
        group.mkdir(exist_ok=True)
        if not (group / limit).exists():
            group.rmdir()
            return False
        (group / limit).write_text("100000000")
    except OSError:
        return False
    return True
