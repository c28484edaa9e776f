"""Progress of a measurement in a log and on a terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.model import Clock, Status
from perfci.number_format import format_duration
from perfci.runner.cell_outcomes import CellOutcome, MeasuredMetric
from perfci.runner.suite_cells import Cell
from perfci.runner.visit_plan import CommitVisit
from tests.support.builders import NOON

VISIT = CommitVisit("a" * 40, (), 0)


@dataclass
class Watch:
    now_s: float = 0.0
    lines: list[str] = field(default_factory=list)

    def progress(self) -> TerminalProgress:
        return TerminalProgress(clock=lambda: self.now_s, echo=self.lines.append)


def ended(
    benchmark: str = "suite.time_step", status: Status = Status.OK, reason: str = "", *metrics: MeasuredMetric
) -> CellOutcome:
    cell = Cell(benchmark, None, (), 60.0, None, 600.0)
    return CellOutcome(cell, status, reason, metrics, NOON, 1.0, 1.0, 0, "", ())


def test_a_log_gets_a_line_for_each_round_with_the_time_left() -> None:
    watch = Watch()
    progress = watch.progress()

    progress.start_stage("rounds", 4)
    progress.report_with_time_left("round 1 of 2")
    for _ in range(2):
        watch.now_s += 20
        progress.report_process(VISIT, ended())
    progress.report_with_time_left("round 2 of 2")

    assert watch.lines == ["round 1 of 2", "round 2 of 2, about 40 s left"]


def test_a_budget_limits_the_time_left_of_its_stage() -> None:
    watch = Watch()
    progress = watch.progress()

    for stage, limit_s in (("rounds", 60.0), ("confirmation", math.inf)):
        progress.start_stage(stage, 10)
        progress.limit_stage_seconds(limit_s)
        watch.now_s += 20
        progress.report_process(VISIT, ended())
        progress.report_with_time_left(stage)

    assert watch.lines == ["rounds, about 40 s left", "confirmation, about 3 min 0 s left"]


def test_counts_pairs_that_are_added_later() -> None:
    watch = Watch()
    progress = watch.progress()

    progress.start_stage("pairs", 1)
    watch.now_s += 30
    progress.report_process(VISIT, ended())
    progress.set_remaining_processes(9)
    progress.report_with_time_left("pass 2")

    assert watch.lines == ["pass 2, about 4 min 30 s left"]


def test_reports_failures_once_per_reason() -> None:
    watch = Watch()
    progress = watch.progress()
    no_clock = MeasuredMetric("clock", "hertz", "higher", Clock.VALUE, 0, (), Status.SKIPPED, "no GPU")
    no_gpu = MeasuredMetric("energy", "joules", "lower", Clock.VALUE, 0, (), Status.SKIPPED, "no GPU")

    for _ in range(2):
        progress.report_process(VISIT, ended("suite.time_a", Status.SKIPPED, "needs two GPUs"))
        progress.report_process(VISIT, ended("suite.time_b", Status.FAILED, "ValueError: no batch"))
        progress.report_process(VISIT, ended("suite.time_c", Status.OK, "", no_gpu))
        progress.report_process(VISIT, ended("suite.time_d", Status.OK, "", no_gpu))
        progress.report_process(VISIT, ended("suite.time_e", Status.OK, "", no_gpu, no_clock))

    assert watch.lines == [
        "  suite.time_a: skipped: needs two GPUs",
        "  suite.time_b at aaaaaaaaaa: failed: ValueError: no batch",
        "  suite.time_c: not available: energy: no GPU",
        "  suite.time_e: not available: clock: no GPU",
    ]


def test_a_terminal_shows_one_moving_line_below_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfci.cli.shared.terminal_progress.stderr_is_terminal", lambda: True)
    watch = Watch()
    progress = TerminalProgress(clock=lambda: watch.now_s)

    progress.start_stage("rounds", 3)
    watch.now_s += 5
    progress.report_process(VISIT, ended("suite.time_long_name"))
    progress.report_process(VISIT, ended("suite.time_b"))
    progress.report("the machine is in use")

    long, short = (
        "  rounds: 1/3, about 10 s left  suite.time_long_name",
        "  rounds: 2/3, about 2 s left  suite.time_b",
    )
    cleared = "\r" + " " * len(short) + "\r"
    assert capsys.readouterr().err == f"\r{long}\r{short.ljust(len(long))}{cleared}the machine is in use\n"


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")])
def test_formats_a_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
