"""One cell supervised: a fresh process under a wall clock, and how it ended."""

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

from .messages import Json, Report, Work, flush_output, last_line, not_run, read_report, tail, write_report
from .processes import (
    any_child,
    children,
    command_of,
    die_with_parent,
    end_group,
    leftovers,
    reap,
    run_as_child,
    sweep,
    wait_until,
)  # fmt: skip
from .run_cell import run_cell
from .turn_slots import Seat

GRACE_S = 1.5
"""What a benchmark started may take this long to end by itself: a process pool's workers look for their parent once a
second."""

LOOK_AGAIN_S = 0.1
"""How often to look whether a cell that had its time has waited meanwhile."""

COMMAND_SHOWN = 200  # characters of a leaked process's command line


def supervise(benchmark: Any, cell: Json, request: Json, launch: str, seat: Seat | None) -> Json:
    """Run one cell in a fresh process under a wall clock and say how it ended; on a ``seat`` it takes turns."""
    if cell["cache_dir"]:
        problem = ensure_setup_cache(benchmark, cell, request)
        if problem is not None:
            return problem
    folder = cell["cache_dir"] or tempfile.mkdtemp(prefix="cell-", dir=request["scratch"])
    start = run_cell if launch == "fork" else spawn_cell
    work = functools.partial(start, benchmark, cell, request, seat)
    try:
        return in_process(work, cell["timeout_s"], folder, request, seat.waited if seat else never)
    finally:
        if not cell["cache_dir"]:
            shutil.rmtree(folder, ignore_errors=True)


def never() -> float:
    """How long a cell waits that is measured by itself."""
    return 0.0


def ensure_setup_cache(benchmark: Any, cell: Json, request: Json) -> Json | None:
    """Run ``setup_cache`` once per commit and directory; return the failure, if that is how it ends."""
    folder = cell["cache_dir"]
    done = os.path.join(folder, "cache.done")
    if os.path.exists(done):
        return None
    os.makedirs(folder, exist_ok=True)

    def fill(report: Report) -> None:
        with open("cache.pickle", "wb") as file:
            pickle.dump(benchmark.do_setup_cache(), file)
        write_report(report, {"status": "ok"})

    outcome = in_process(fill, cell["setup_cache_timeout_s"], folder, request)
    if outcome["status"] != "ok":
        return outcome | {"reason": "setup_cache: " + outcome["reason"]}
    with open(done, "w"):
        return None


def in_process(
    work: Work, timeout_s: float, folder: str, request: Json, waited: Callable[[], float] = never
) -> Json:  # fmt: skip
    """Fork, do the work in its own process group and session, and end the whole group by the clock or after it.

    What it has ``waited`` for others does not count.
    """
    known = children() if any_child() else []
    kills_before = kernel_memory_kills()
    log = os.path.join(request["scratch"], "cell.log")
    with tempfile.TemporaryFile(dir=request["scratch"]) as report:
        started = time.time()
        begin = time.monotonic()
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_as_child(lambda: cell_child(work, report, folder, log, me))
        ended, status = False, 0
        while not ended and (left := begin + timeout_s + waited() - time.monotonic()) > 0:
            ended, status = wait_until(pid, time.monotonic() + max(left, LOOK_AGAIN_S))
        duration = time.monotonic() - begin
        leaked = [command_of(left) for left in leftovers(GRACE_S, known)] if ended and status == 0 else []
        end_group(pid)
        if not ended:
            status = reap(pid)
        sweep()
        report.seek(0)
        outcome = read_report(report.read())
    kills_after = kernel_memory_kills()
    memory_kills = None if kills_before is None or kills_after is None else kills_after - kills_before
    outcome = classify(outcome, status, None if ended else timeout_s, memory_kills)
    if leaked and outcome["status"] == "ok":
        outcome = not_run("failed", leak_reason(leaked))
    outcome.update(started_at=started, duration_s=duration, exit_code=os.waitstatus_to_exitcode(status))
    outcome["stderr_tail"] = tail(log) if outcome["status"] not in ("ok", "skipped") else ""
    return outcome


def cell_child(work: Work, report: Report, folder: str, log: str, parent: int) -> None:
    os.setsid()
    die_with_parent(parent)
    os.chdir(folder)
    # A talking benchmark writes into a file, so that no pipe can fill up or keep its parent waiting.
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    report_or_fail(work, report)


def report_or_fail(work: Work, report: Report) -> None:
    """Let the work report; where it raises, report that instead and leave with 1."""
    try:
        work(report)
    except BaseException as error:
        traceback.print_exc()
        memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        write_report(report, {"status": "oom" if memory else "failed", "reason": last_line(error)})
        flush_output()
        os._exit(1)
    flush_output()


def spawn_cell(benchmark: Any, cell: Json, request: Json, seat: Seat | None, report: Report) -> None:
    """Become a process that shares no memory with this one: after CUDA or threads, a fork is not safe."""
    handles = {"report": report.fileno(), "seat": seat.handles if seat else ()}
    for handle in (report.fileno(), *(seat.handles if seat else ())):
        os.set_inheritable(handle, True)
    arguments = json.dumps({"cell": cell, "request": request, **handles})
    os.execv(sys.executable, [sys.executable, os.path.dirname(os.path.abspath(__file__)), "cell", arguments])


def classify(outcome: Json | None, status: int, timed_out_s: float | None, memory_kills: int | None) -> Json:
    """Turn a report (or its absence) and an exit status into one status with a reason."""
    if timed_out_s is not None:
        return not_run("timeout", f"did not end within {timed_out_s:g} s")
    if outcome is not None and (outcome["status"] != "ok" or status == 0):
        return not_run("", "") | outcome
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number == signal.SIGKILL and memory_kills:
            return not_run("oom", "killed by the kernel for memory (SIGKILL)")
        if number == signal.SIGKILL and memory_kills is None:
            return not_run("oom", "killed with SIGKILL, as the kernel does when memory runs out")
        return not_run("crashed", f"ended by {name} (signal {number})")
    return not_run("failed", f"exited with code {os.waitstatus_to_exitcode(status)} before it returned a result")


def leak_reason(commands: list[str]) -> str:
    what = "a process" if len(commands) == 1 else f"{len(commands)} processes"
    return f"left {what} running after it returned: {'; '.join(commands)[:COMMAND_SHOWN]}"


def kernel_memory_kills() -> int | None:
    """How many processes the kernel has killed for memory since it booted, where it counts them."""
    try:
        with open("/proc/vmstat") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    except (OSError, StopIteration):
        return None
