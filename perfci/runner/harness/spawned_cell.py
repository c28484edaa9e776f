"""A cell that shares no memory with its parent: started from nothing, where a fork would not be faithful."""

from __future__ import annotations

import os

from .cell_supervisor import report_or_fail
from .messages import JsonMessage, ReportFile
from .run_cell import run_cell
from .suite_discovery import load_suite
from .turn_slots import TurnSlot


def run_spawned_cell(arguments: JsonMessage) -> None:
    """Import the suite and run one cell, supervised by the commit parent like a forked one."""

    def work(report: ReportFile) -> None:
        suite = load_suite(arguments["request"])
        slot = TurnSlot(*arguments["slot"]) if arguments["slot"] else None
        run_cell(
            suite.benchmarks[arguments["cell"]["benchmark"]],
            arguments["cell"],
            arguments["request"],
            slot,
            report,
        )

    with os.fdopen(arguments["report"], "w+b") as report:
        report_or_fail(work, report)
        os._exit(0)
