"""The commit parent: one commit's code and the suite, imported once for the cells of one visit."""

from __future__ import annotations

import gc
import os
import socket
import sys

from .captured_output import redirect_output
from .cell_supervisor import supervise_cell
from .messages import JsonMessage, build_outcome_without_result, send_message
from .process_control import adopt_orphans, die_with_parent
from .suite_discovery import describe_benchmark, describe_wrong_commit_module, load_suite
from .turn_slots import TurnSlot


def run_visit(request: JsonMessage, control: socket.socket, parent: int) -> None:
    """Import one commit's code and the suite, then run the requested cells one after another."""
    adopt_orphans()
    die_with_parent(parent)
    output = os.path.join(request["scratch"], "import.log")
    with redirect_output(output):
        suite = load_suite(request)
        wrong = describe_wrong_commit_module(request)
    descriptions = [
        describe_benchmark(benchmark) | suite.plans[name] for name, benchmark in suite.benchmarks.items()
    ]
    send_message(
        control,
        {"event": "suite", "benchmarks": descriptions, "errors": suite.errors, "omissions": suite.omissions},
    )
    launch, spawn_reason = choose_launch_method(request)
    gc.freeze()  # cells must not copy pages by counting references in what the imports left
    for cell in request["cells"]:
        may_start, slot = wait_for_cell_start(control)
        if not may_start:
            return
        if wrong:
            outcome = build_outcome_without_result("failed", wrong)
        elif cell["benchmark"] not in suite.benchmarks:
            outcome = build_outcome_without_result(
                "failed", missing_benchmark_reason(cell["benchmark"], suite.errors)
            )
        else:
            outcome = supervise_cell(suite.benchmarks[cell["benchmark"]], cell, request, launch, slot)
        if spawn_reason:
            outcome["flags"].append("spawned: " + spawn_reason)
        if slot is not None:
            slot.close()
        send_message(control, {"event": "cell", **cell, **outcome})


def wait_for_cell_start(control: socket.socket) -> tuple[bool, TurnSlot | None]:
    """Wait until the next cell may start, and receive its turn slot, if it takes turns with others.

    The runner starts a cell once the outcome of the last one is stored, so that none is lost.
    """
    message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
    return bool(message), TurnSlot(descriptors[0]) if descriptors else None


def missing_benchmark_reason(benchmark: str, errors: list[JsonMessage]) -> str:
    """Name the module that failed to import where the benchmark's name belongs to it."""
    for error in errors:
        inner = error["module"].partition(".")[2]
        if not inner or benchmark.startswith(inner + "."):
            return f"module {error['module']} of the suite does not import: {error['error']}"
    return "the benchmark does not exist at this commit"


def choose_launch_method(request: JsonMessage) -> tuple[str, str]:
    if request["launch"] == "spawn":
        return "spawn", ""
    why = fork_unsafe_reason()
    return ("spawn", why) if why else ("fork", "")


def fork_unsafe_reason() -> str:
    """Return why this process must not fork, or an empty text: threads and CUDA do not survive a fork."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"{threads} threads are running after the imports"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA was initialised by the imports"
    return ""
