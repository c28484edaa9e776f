"""The progress of a session, as a terminal or a log shows it."""

from __future__ import annotations

from typing import Protocol

from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.visit_plan import CommitVisit


class SessionProgress(Protocol):
    """Receives the messages, stages and processes of a session. Totals count processes."""

    def report(self, line: str) -> None: ...
    def start_stage(self, name: str, total: int) -> None: ...
    def set_remaining(self, remaining: int) -> None: ...
    def report_step(self, line: str) -> None: ...
    def report_process(self, visit: CommitVisit, outcome: CellOutcome) -> None: ...
