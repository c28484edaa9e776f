"""Who is told how a session gets on."""

from __future__ import annotations

from typing import Protocol

from perfci.runner.cell_outcomes import Outcome
from perfci.runner.visit_plan import Visit


class Watcher(Protocol):
    """A terminal, a log, or nobody. Counts are of processes."""

    def say(self, line: str) -> None: ...
    def stage(self, name: str, total: int) -> None: ...
    def expect(self, more: int) -> None: ...
    def step(self, line: str) -> None: ...
    def process(self, visit: Visit, outcome: Outcome) -> None: ...
