"""Progress of a measurement: a moving line with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from perfci.measure.stage_pace import StagePace
from perfci.model import Status
from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.visit_plan import CommitVisit


class TerminalProgress:
    """Reports which processes were measured; ``total`` is the number expected.

    A verb whose last table says what cannot be measured leaves it out here (``name_unavailable``).
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        echo: Callable[[str], None] | None = None,
        name_unavailable: bool = True,
    ) -> None:
        self._name_unavailable = name_unavailable
        self._live = stderr_is_terminal() and echo is None
        self._echo = echo or (lambda line: click.echo(line, err=True))
        self._pace = StagePace(clock)
        self._width = 0
        self._reported: set[str] = set()

    def report(self, line: str) -> None:
        """Print a line, below the moving one that it replaces."""
        self._clear()
        self._echo(line)

    def start_stage(self, name: str, total: int) -> None:
        """Begin a stage of ``total`` processes."""
        self._pace.start(name, total)

    def set_remaining_processes(self, remaining: int) -> None:
        """Set how many processes of this stage are still to come."""
        self._pace.set_remaining(remaining)

    def limit_stage_seconds(self, seconds: float) -> None:
        """End this stage in so many seconds, whatever is left of it."""
        self._pace.limit_seconds(seconds)

    def report_with_time_left(self, line: str) -> None:
        """Print a line for a round, with the time left."""
        self.report(f"{line}{self._pace.time_left_text}")

    def report_process(self, visit: CommitVisit, outcome: CellOutcome) -> None:
        """Count a measured process; print what failed, was skipped or is missing, once for each reason."""
        self._pace.done += 1
        name = outcome.cell.name
        if outcome.status is Status.SKIPPED:
            self._report_once(
                f"  {name}: skipped: {outcome.reason}", dedup_key=f"{outcome.cell.benchmark} {outcome.reason}"
            )
        elif outcome.status is not Status.OK:
            self._report_once(f"  {name} at {visit.sha[:10]}: {outcome.status}: {outcome.reason}")
        unavailable = group_unavailable_metrics_by_reason(outcome) if self._name_unavailable else {}
        for reason, metrics in unavailable.items():
            new = [metric for metric in metrics if f"{metric}: {reason}" not in self._reported]
            self._reported.update(f"{metric}: {reason}" for metric in new)
            if new:
                self.report(f"  {name}: not available: {', '.join(new)}: {reason}")
        if self._live:
            pace = self._pace
            self._redraw(f"  {pace.name}: {pace.done}/{pace.total}{pace.time_left_text}  {outcome.cell.name}")

    def _report_once(self, line: str, dedup_key: str = "") -> None:
        """Print a line unless one with its key was printed before."""
        if (dedup_key or line) not in self._reported:
            self._reported.add(dedup_key or line)
            self.report(line)

    def _redraw(self, line: str) -> None:
        # A line that wraps cannot be overwritten from its start.
        line = line[:110]
        click.echo("\r" + line.ljust(self._width), err=True, nl=False)
        self._width = len(line)

    def _clear(self) -> None:
        if self._live and self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0


def stderr_is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


def group_unavailable_metrics_by_reason(outcome: CellOutcome) -> dict[str, list[str]]:
    """Metrics a successful process could not measure, by reason."""
    reasons: dict[str, list[str]] = {}
    for metric in outcome.metrics if outcome.status is Status.OK else ():
        if metric.status is Status.SKIPPED:
            reasons.setdefault(metric.reason, []).append(metric.name)
    return reasons
