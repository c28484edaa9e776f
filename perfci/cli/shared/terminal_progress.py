"""How long work looks while it goes on: a moving line with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from perfci.cli.shared.context import is_terminal
from perfci.model import Status
from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.visit_plan import CommitVisit


class TerminalProgress:
    """Tells what is being measured. ``total`` is the number of processes expected."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, echo: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._live = is_terminal() and echo is None
        self._echo = echo or (lambda line: click.echo(line, err=True))
        self._started = clock()
        self._done = 0
        self._total = 0
        self._stage = ""
        self._width = 0
        self._said: set[str] = set()

    def report(self, line: str) -> None:
        self._clear()
        self._echo(line)

    def start_stage(self, name: str, total: int) -> None:
        """Begin a stage of so many processes."""
        self._started, self._done, self._total, self._stage = self._clock(), 0, total, name

    def set_remaining(self, remaining: int) -> None:
        """So many processes are still to come in this stage."""
        self._total = self._done + remaining

    def report_step(self, line: str) -> None:
        """One line per round or pass, with the time left."""
        self.report(f"{line}{self._time_left()}")

    def report_process(self, visit: CommitVisit, outcome: CellOutcome) -> None:
        self._done += 1
        name = outcome.cell.name
        if outcome.status is Status.SKIPPED:
            self._report_once(
                f"  {name}: skipped: {outcome.reason}", dedup_key=f"{outcome.cell.benchmark} {outcome.reason}"
            )
        elif outcome.status is not Status.OK:
            self._report_once(f"  {name} at {visit.sha[:10]}: {outcome.status}: {outcome.reason}")
        for reason, metrics in missing_metrics(outcome).items():
            missing = f"{', '.join(metrics)}: {reason}"
            self._report_once(f"  {name}: not available: {missing}", dedup_key=missing)
        if self._live:
            self._redraw(
                f"  {self._stage}: {self._done}/{self._total}{self._time_left()}  {outcome.cell.name}"
            )

    def _report_once(self, line: str, dedup_key: str = "") -> None:
        """Say once what is so every time, naming the first place where it is."""
        if (dedup_key or line) not in self._said:
            self._said.add(dedup_key or line)
            self.report(line)

    def _time_left(self) -> str:
        if not self._done or self._total <= self._done:
            return ""
        seconds = (self._clock() - self._started) / self._done * (self._total - self._done)
        return f", about {format_duration(seconds)} left"

    def _redraw(self, line: str) -> None:
        line = line[:110]
        click.echo("\r" + line.ljust(self._width), err=True, nl=False)
        self._width = len(line)

    def _clear(self) -> None:
        if self._live and self._width:
            click.echo("\r" + " " * self._width + "\r", err=True, nl=False)
            self._width = 0


def missing_metrics(outcome: CellOutcome) -> dict[str, list[str]]:
    """The metrics that a process could not give beside those it gave, by reason."""
    reasons: dict[str, list[str]] = {}
    for metric in outcome.metrics if outcome.status is Status.OK else ():
        if metric.status is Status.SKIPPED:
            reasons.setdefault(metric.reason, []).append(metric.name)
    return reasons


def format_duration(seconds: float) -> str:
    """``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
