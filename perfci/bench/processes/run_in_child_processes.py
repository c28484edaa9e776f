"""Run functions in child processes that never outlive their parent, and collect results and failures."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Any

PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>, see prctl(2)
FAILURE_GRACE_S = 0.3
"""Seconds that other children get to report a failure: the first report need not be the first failure."""

BEGIN_COMMAND = (
    "from perfci.bench.processes.run_in_child_processes import spawned_child_main; spawned_child_main()"
)


class ChildFailed(RuntimeError):
    """A child raised or crashed; the message names it."""


class ChildOutOfMemory(ChildFailed, MemoryError):
    """A child ran out of memory."""


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A running child: its name, the pipe its result comes through, and the file its stack is written to."""

    name: str
    pid: int
    result_pipe: Connection[Any, Any]
    stack_file: IO[bytes]


@dataclass(frozen=True, slots=True)
class ChildFailure:
    """The failure a child reports, and its moment by the monotonic clock of the machine."""

    reason: str
    out_of_memory: bool = False
    failed_at_s: float = field(default_factory=time.monotonic)


def fork_unsafe_reason() -> str:
    """Return why this process must not fork, or an empty text: threads and CUDA do not survive a fork."""
    with contextlib.suppress(OSError):
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            return f"{threads} threads are running"
        torch = sys.modules.get("torch")
        return "CUDA is initialised" if torch is not None and torch.cuda.is_initialized() else ""
    return "the number of running threads is unknown on this system"


def fork_child(
    name: str, function: Callable[[], object], environment: Mapping[str, str] | None = None
) -> ChildProcess:
    """Fork a child that calls the function; it writes to the standard output and error of this process."""
    reader, writer = Pipe(duplex=False)
    stack = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the child
    parent = os.getpid()
    _flush()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)  # here and in the parent, so that it is done whoever runs first
        os.environ.update(environment or {})
        _run_and_report(function, writer, stack.fileno(), parent)
    writer.close()
    with contextlib.suppress(OSError):  # the child may have been faster
        os.setpgid(pid, pid)
    return ChildProcess(name, pid, reader, stack)


def spawn_child(
    name: str, function: Callable[[], object], environment: Mapping[str, str] | None = None
) -> ChildProcess:
    """Start a fresh interpreter that finds the same modules and calls the function, which must be
    picklable.
    """
    reader, writer = Pipe(duplex=False)
    stack = tempfile.TemporaryFile()  # noqa: SIM115
    paths = [os.path.abspath(entry) for entry in sys.path]
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN_COMMAND, str(writer.fileno()), str(stack.fileno()), str(os.getpid())],
        env={**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        pass_fds=(writer.fileno(), stack.fileno()),
        process_group=0,
    )
    writer.close()
    assert process.stdin is not None
    # A child that ends before it reads breaks the pipe; its exit status gives the reason.
    with process.stdin, contextlib.suppress(BrokenPipeError):
        process.stdin.write(pickle.dumps(function))
    process.returncode = 0  # waited for by its id, like a forked one
    return ChildProcess(name, process.pid, reader, stack)


def spawned_child_main() -> None:
    """Run in the fresh interpreter of ``spawn_child``: read the function from stdin and call it."""
    result, stack, parent = (int(argument) for argument in sys.argv[1:])
    _run_and_report(lambda: pickle.load(sys.stdin.buffer)(), Connection(result), stack, parent)


def _run_and_report(
    function: Callable[[], object], result: Connection[Any, Any], stack: int, parent: int
) -> None:
    """Call the function, send its result or failure, and exit without the exit handlers of the parent."""
    outcome: Any = ChildFailure("it ended before it started")
    try:
        _die_with_parent(parent)
        # A parent that waits too long asks by this signal where the child is.
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
        outcome = function()
        pickle.dumps(outcome)  # raises here, where it can still be reported, and not while it is sent
    except BaseException as error:
        traceback.print_exc()
        memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
        outcome = ChildFailure(traceback.format_exception_only(error)[-1].strip(), memory)
    finally:
        with contextlib.suppress(OSError):
            result.send(outcome)
        _flush()
        os._exit(isinstance(outcome, ChildFailure))


def _die_with_parent(parent: int) -> None:
    """On Linux, be killed when the parent ends, however it ends."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the request
        os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


@contextmanager
def kill_children_on_exit(children: list[ChildProcess]) -> Iterator[None]:
    """Kill the children and their process groups when the block ends, however it ends."""
    try:
        yield
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
            child.result_pipe.close()
            child.stack_file.close()


def wait_for_results(children: Sequence[ChildProcess], timeout_s: float) -> list[Any]:
    """Wait for all children and return the results of their functions, in the children's order.

    Raises ChildFailed (or ChildOutOfMemory) as soon as one fails, and TimeoutError where one has not ended
    after ``timeout_s`` seconds; both name the child, and the latter where each of them was.
    """
    deadline = time.monotonic() + timeout_s
    outcomes: dict[ChildProcess, Any] = {}
    while len(outcomes) < len(children):
        _receive(children, outcomes, deadline - time.monotonic())
        if any(isinstance(outcome, ChildFailure) for outcome in outcomes.values()):
            _receive(children, outcomes, FAILURE_GRACE_S)
            raise _choose_failure(
                [(child, outcome) for child, outcome in outcomes.items() if isinstance(outcome, ChildFailure)]
            )
        if len(outcomes) < len(children) and time.monotonic() >= deadline:
            raise TimeoutError(
                _describe_hang([child for child in children if child not in outcomes], timeout_s)
            )
    return [outcomes[child] for child in children]


def _receive(children: Sequence[ChildProcess], outcomes: dict[ChildProcess, Any], timeout_s: float) -> None:
    """Read the results that have arrived; a pipe that closes early is that of a child which crashed."""
    running = {child.result_pipe: child for child in children if child not in outcomes}
    for connection in wait(list(running), max(0.0, timeout_s)):
        child = running[connection]  # type: ignore[index]
        try:
            outcomes[child] = child.result_pipe.recv()
        except (EOFError, OSError):
            outcomes[child] = _describe_crash(os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]))


def _describe_crash(code: int) -> ChildFailure:
    if code >= 0:
        return ChildFailure(f"exited with code {code} before it returned a result")
    killed = -code == signal.SIGKILL
    hint = ", as the kernel does when memory runs out" if killed else ""
    return ChildFailure(f"ended by {signal.Signals(-code).name} (signal {-code}){hint}", out_of_memory=killed)


def _choose_failure(failures: Sequence[tuple[ChildProcess, ChildFailure]]) -> ChildFailed:
    """Choose a child that ran out of memory or crashed, else the first that failed.

    Several reports may arrive at once, and the later ones may only be about a lost connection to the first.
    """

    def rank(report: tuple[ChildProcess, ChildFailure]) -> tuple[bool, bool, float]:
        _, failure = report
        return not failure.out_of_memory, not failure.reason.startswith("ended by"), failure.failed_at_s

    child, failure = min(failures, key=rank)
    return (ChildOutOfMemory if failure.out_of_memory else ChildFailed)(f"{child.name}: {failure.reason}")


def _describe_hang(running: Sequence[ChildProcess], timeout_s: float) -> str:
    """Name the children that still run; those inside torch, which wait for another rank, come last."""
    places = [(child.name, *_locate_child(child)) for child in running]
    places.sort(key=lambda place: place[2])
    locations = "; ".join(f"{name} is in {place}" for name, place, _ in places)
    return f"{' and '.join(child.name for child in running)} did not end within {timeout_s:g} s: {locations}"


def _locate_child(child: ChildProcess) -> tuple[str, bool]:
    """Where a child is now (its innermost Python function), and whether that is inside torch."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child.pid, signal.SIGUSR1)
    until = time.monotonic() + FAILURE_GRACE_S
    frame = None
    while frame is None and time.monotonic() < until:
        time.sleep(0.01)
        # pread, since the child writes through the same position of the file.
        frame = re.search(rb'File "(.+)", line (\d+) in (.+)', os.pread(child.stack_file.fileno(), 4096, 0))
    if frame is None:
        return "an unknown place", False
    file, line, function = (os.fsdecode(part) for part in frame.groups())
    return f"{function} ({os.path.basename(file)}:{line})", f"{os.sep}torch{os.sep}" in file
