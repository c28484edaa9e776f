"""One cell supervised: a fresh process, forked or spawned, under a wall clock, and how it ended."""

from __future__ import annotations

import functools
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from .captured_output import flush_output, read_output_tail
from .messages import (
    CellWork,
    JsonMessage,
    ReportFile,
    build_outcome_without_result,
    last_error_line,
    parse_report,
    write_report,
)
from .process_control import (
    call_then_exit_process,
    describe_process,
    die_with_parent,
    has_child,
    kill_descendants,
    kill_process_group,
    list_children,
    list_leftover_processes,
    wait_for_exit_or_hangup,
    wait_for_exit_status,
)
from .run_cell import run_cell
from .suite_discovery import load_suite
from .turn_slots import TurnSlot

LEFTOVER_GRACE_S = 1.5
"""Seconds that processes started by a benchmark get to end by themselves: the workers of a process pool
check for their parent once a second.
"""

RECHECK_S = 0.1
"""Interval at which a cell past its time limit is checked for waiting in between."""

MAX_COMMAND_LENGTH = 200  # characters of a leaked process's command line


def supervise_cell(
    benchmark: Any, cell: JsonMessage, request: JsonMessage, launch: str, slot: TurnSlot | None
) -> JsonMessage:
    """Run one cell in a fresh process under a wall clock limit; with a ``slot`` it takes turns."""
    if cell["cache_dir"]:
        problem = ensure_setup_cache(benchmark, cell, request)
        if problem is not None:
            return problem
    folder = cell["cache_dir"] or tempfile.mkdtemp(prefix="cell-", dir=request["scratch"])
    start = run_cell if launch == "fork" else exec_spawned_cell
    work = functools.partial(start, benchmark, cell, request, slot)
    try:
        return fork_and_supervise(
            work, cell["timeout_s"], folder, request, slot.waited_s if slot else zero_turn_wait_s
        )
    finally:
        if not cell["cache_dir"]:
            shutil.rmtree(folder, ignore_errors=True)


def zero_turn_wait_s() -> float:
    """Seconds a cell waits for its turns when it is measured by itself."""
    return 0.0


def ensure_setup_cache(benchmark: Any, cell: JsonMessage, request: JsonMessage) -> JsonMessage | None:
    """Run ``setup_cache`` once per commit and directory; return the failure, if that is how it ends."""
    folder = cell["cache_dir"]
    done = os.path.join(folder, "cache.done")
    if os.path.exists(done):
        return None
    os.makedirs(folder, exist_ok=True)

    def fill(report: ReportFile) -> None:
        with open("cache.pickle", "wb") as file:
            pickle.dump(benchmark.do_setup_cache(), file)
        write_report(report, {"status": "ok"})

    outcome = fork_and_supervise(fill, cell["setup_cache_timeout_s"], folder, request)
    if outcome["status"] != "ok":
        return outcome | {"reason": "setup_cache: " + outcome["reason"]}
    with open(done, "w"):
        return None


def fork_and_supervise(
    work: CellWork,
    timeout_s: float,
    folder: str,
    request: JsonMessage,
    waited_s: Callable[[], float] = zero_turn_wait_s,
) -> JsonMessage:
    """Fork, do the work in its own session, and kill the whole group at the time limit or after it.

    Seconds spent waiting for other processes (``waited_s``) do not count.
    """
    earlier_children = list_children() if has_child() else []
    kills_before = count_oom_kills()
    log = os.path.join(request["scratch"], "cell.log")
    with tempfile.TemporaryFile(dir=request["scratch"]) as report:
        started = time.time()
        begin = time.monotonic()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            call_then_exit_process(lambda: forked_child_main(work, report, folder, log, me))
        # The limit moves while the cell waits for its turns, so it is computed anew after each wait.
        ended, status = False, 0
        while not ended and (left := begin + timeout_s + waited_s() - time.monotonic()) > 0:
            ended, status = wait_for_exit_or_hangup(pid, time.monotonic() + max(left, RECHECK_S))
        duration = time.monotonic() - begin
        leaked = []
        if ended and status == 0:
            leaked = [
                describe_process(left) for left in list_leftover_processes(LEFTOVER_GRACE_S, earlier_children)
            ]
        # Only after the leftovers were listed: this ends those that are of the cell's group.
        kill_process_group(pid)
        if not ended:
            status = wait_for_exit_status(pid)
        kill_descendants()  # those that left the group, in a session of their own
        report.seek(0)
        outcome = parse_report(report.read())
    kills_after = count_oom_kills()
    memory_kills = None if kills_before is None or kills_after is None else kills_after - kills_before
    outcome = classify_exit(outcome, status, None if ended else timeout_s, memory_kills)
    if leaked and outcome["status"] == "ok":
        outcome = build_outcome_without_result("failed", describe_leaked_processes(leaked))
    outcome.update(started_at=started, duration_s=duration, exit_code=os.waitstatus_to_exitcode(status))
    outcome["stderr_tail"] = read_output_tail(log) if outcome["status"] not in ("ok", "skipped") else ""
    return outcome


def forked_child_main(work: CellWork, report: ReportFile, folder: str, log: str, parent: int) -> None:
    """In the forked child: make a session of its own, redirect the output, and do the work."""
    os.setsid()
    die_with_parent(parent)
    os.chdir(folder)
    # Output goes into a file, so that no pipe can fill up or keep its parent waiting.
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    run_or_report_error_and_exit(work, report)


def run_or_report_error_and_exit(work: CellWork, report: ReportFile) -> None:
    """Let the work report; where it raises, report that instead and leave with 1."""
    try:
        work(report)
    except BaseException as error:
        traceback.print_exc()
        memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        write_report(report, {"status": "oom" if memory else "failed", "reason": last_error_line(error)})
        flush_output()
        os._exit(1)
    flush_output()


def exec_spawned_cell(
    benchmark: Any, cell: JsonMessage, request: JsonMessage, slot: TurnSlot | None, report: ReportFile
) -> None:
    """Become a process that shares no memory with this one: after CUDA or threads, a fork is not safe."""
    handles = {"report": report.fileno(), "slot": slot.inheritable_handles if slot else ()}
    for handle in (report.fileno(), *(slot.inheritable_handles if slot else ())):
        os.set_inheritable(handle, True)
    arguments = json.dumps({"cell": cell, "request": request, **handles})
    os.execv(sys.executable, [sys.executable, os.path.dirname(os.path.abspath(__file__)), "cell", arguments])


def spawned_cell_main(arguments: JsonMessage) -> None:
    """In that process: import the suite and run the cell, supervised by the commit parent as if forked."""

    def work(report: ReportFile) -> None:
        suite = load_suite(arguments["request"])
        slot = TurnSlot(*arguments["slot"]) if arguments["slot"] else None
        benchmark = suite.benchmarks[arguments["cell"]["benchmark"]]
        run_cell(benchmark, arguments["cell"], arguments["request"], slot, report)

    with os.fdopen(arguments["report"], "w+b") as report:
        run_or_report_error_and_exit(work, report)
        os._exit(0)


def classify_exit(
    outcome: JsonMessage | None, status: int, timed_out_s: float | None, memory_kills: int | None
) -> JsonMessage:
    """Turn a report (or its absence) and an exit status into one status with a reason."""
    if timed_out_s is not None:
        return build_outcome_without_result("timeout", f"did not end within {timed_out_s:g} s")
    if outcome is not None and (outcome["status"] != "ok" or status == 0):
        return build_outcome_without_result("", "") | outcome
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number == signal.SIGKILL and memory_kills:
            return build_outcome_without_result("oom", "killed by the kernel for memory (SIGKILL)")
        if number == signal.SIGKILL and memory_kills is None:
            return build_outcome_without_result(
                "oom", "killed with SIGKILL, as the kernel does when memory runs out"
            )
        return build_outcome_without_result("crashed", f"ended by {name} (signal {number})")
    return build_outcome_without_result(
        "failed", f"exited with code {os.waitstatus_to_exitcode(status)} before it returned a result"
    )


def describe_leaked_processes(commands: list[str]) -> str:
    """Reason of a cell that left processes running, with their command lines."""
    processes = "a process" if len(commands) == 1 else f"{len(commands)} processes"
    return f"left {processes} running after it returned: {'; '.join(commands)[:MAX_COMMAND_LENGTH]}"


def count_oom_kills() -> int | None:
    """How many processes the kernel has killed for memory since it booted, where it counts them."""
    try:
        with open("/proc/vmstat") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return None
