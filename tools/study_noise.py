"""Compare the reference suites with themselves: how far apart equal processes are, benchmark by benchmark.

Run as ``python -m tools.study_noise``; it measures HEAD against HEAD in 20 pairs per smoke benchmark,
prints the tables of docs/studies/noise-floors.md, and fails when anything that is counted exactly was not the
same in all processes. What is measured is kept in a store: a run that was cut off tells what it has, and the
same command goes on with it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfci.cli.shared.options import parse_time_budget
from perfci.config import JudgeTable, load_config
from perfci.doctor.noise_check import compute_detectable_effect
from perfci.measure.measure_and_store_session import MeasurementSession, SessionScope
from perfci.measure.open_measurement_session import (
    create_suite_runner,
    open_measurement_session,
    prepare_session_scope,
)
from perfci.model import Clock, Process, Role, Series, Status
from perfci.number_format import format_count, format_duration, format_percent
from perfci.report.escaping import code_span
from perfci.runner import visit_plan
from perfci.runner.git_repository import GitRepository, ensure_perfci_folder
from perfci.runner.locks import machine_lock
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell
from perfci.stats.noise_floor import compute_noise_floor
from perfci.store import Store, open_store
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.usable_processes import select_usable_processes
from tools.write_study_page import describe_circumstances, replace_figures

ROOT = Path(__file__).parent.parent
PAIRS = 20
SEEN_WITH = (5, 10, 20)
"""Pairs of the first look of a comparison, of a confirmation, and the most that is bought by default."""


# ------------------------------------------------------------------ what equal processes show


@dataclass(frozen=True)
class Line:
    """One judged metric of one cell: how far its pairs of equal processes are apart, or why nobody can
    say.
    """

    cell: str
    metric: str
    pairs: int
    log_ratios: tuple[float, ...] = ()
    visible: Mapping[int, float] = field(default_factory=dict)
    """The smallest change seen with so many pairs, as a ratio minus one."""
    is_false_alarm: bool = False
    """Whether these pairs of equal commits would have been called a regression or an improvement."""
    counted: tuple[float, ...] = ()
    """Of an exact metric, every value that was counted."""
    why: str = ""

    @property
    def exact(self) -> bool:
        return bool(self.counted)

    @property
    def moved(self) -> bool:
        return len(self.counted) > 1

    @property
    def floor(self) -> float:
        """95 % of the pairs differ by less, as a ratio minus one."""
        return compute_noise_floor(self.log_ratios) or 0.0

    @property
    def largest(self) -> float:
        return max(map(abs, self.log_ratios), default=0.0)


def build_noise_lines(readings: Iterable[tuple[Series, Process]], sha: str, judge: JudgeTable) -> list[Line]:
    """One line for each metric that is judged."""
    measured: dict[Series, list[Process]] = {}
    for series, process in readings:
        measured.setdefault(series, []).append(process)
    lines = [
        build_noise_line(series, measured[series], sha, judge) for series in select_judged_series(measured)
    ]
    return sorted(lines, key=lambda line: (line.cell, line.metric))


def build_noise_line(series: Series, processes: Sequence[Process], sha: str, judge: JudgeTable) -> Line:
    base, head = ([p for p in processes if p.role is role] for role in (Role.BASE, Role.HEAD))
    pairs = min(len(select_usable_processes(base)), len(select_usable_processes(head)))
    if counted := {
        s for p in select_usable_processes(processes) if p.clock is Clock.EXACT for s in p.samples
    }:
        return Line(series.cell, series.metric.name, pairs, counted=tuple(sorted(counted)))
    verdict = confirmation_verdict(series, sha, sha, base, head, rule=Rule(bar=judge.bar))
    if verdict.interval is None or not verdict.base_level:
        return Line(series.cell, series.metric.name, pairs, why=verdict.reason)
    sides = PairedLogCosts.from_processes(series, base, head)
    shift = sides.estimate_shift()
    return Line(
        series.cell,
        series.metric.name,
        sides.pair_count,
        log_ratios=tuple(float(item) for item in sides.head - sides.base),
        visible={number: compute_detectable_effect(shift, number, judge) for number in SEEN_WITH},
        is_false_alarm=verdict.kind in MOVE_KINDS,
    )


# ------------------------------------------------------------------ measuring

Say = Callable[[str], None]
Tell = Callable[["Study"], None]


@dataclass
class Study:
    """What a study knows so far; it may be told at any moment."""

    sha: str
    pairs: int
    lines: dict[str, list[Line]] = field(default_factory=dict)  # by module of the suite
    not_measured: dict[str, str] = field(default_factory=dict)  # cell -> why
    failed: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    @property
    def moved(self) -> list[Line]:
        return [line for lines in self.lines.values() for line in lines if line.moved]

    @property
    def good(self) -> bool:
        return not self.moved and not self.failed


@dataclass
class Part:
    """One module of the suite: its pairs run next to each other, and its session can be taken up again."""

    name: str
    sha: str
    pairs: int
    session: MeasurementSession
    cells: tuple[Cell, ...]
    seconds: Mapping[str, float]  # of one process of each cell
    visit_s: float  # that starting a visit takes

    def missing(self) -> list[tuple[visit_plan.CommitVisit, list[Cell]]]:
        """Visits that are still to be made, base and head next to each other, with the cells that lack
        them.
        """
        done = {
            (series.cell, p.pair, p.role)
            for series, p in self.session.readings.get_commit_processes(self.sha)
        }
        visits = (
            visit
            for number in range(self.pairs)
            for visit in visit_plan.plan_pair_visits(
                self.sha, self.sha, self.cells, number, 2 * number, self.session.seed
            )
        )
        wanted = ((v, [cell for cell in v.cells if (cell.name, v.pair, v.role) not in done]) for v in visits)
        return [(visit, cells) for visit, cells in wanted if cells]

    def left_s(self) -> float:
        return sum(
            self.visit_s + sum(self.seconds[cell.name] for cell in cells) for _, cells in self.missing()
        )

    def lines(self, judge: JudgeTable) -> list[Line]:
        return build_noise_lines(self.session.readings.get_commit_processes(self.sha), self.sha, judge)


def run_study(
    root: Path,
    store_url: str,
    *,
    revision: str = "HEAD",
    bench: str = "",
    pairs: int = PAIRS,
    budget_s: float | None = None,
    tell: Tell = lambda study: None,
    say: Say = print,
) -> Study:
    """Measure one commit of a repository against itself; ``tell`` is called whenever there is more to tell.

    A budget of 0 rehearses every cell once, says how long the whole would take, and measures nothing.
    """
    repository = GitRepository(root)
    config = load_config(root, os.environ, db=store_url, slug=repository.origin_slug)
    commit = repository.read_commit(repository.resolve_revision(revision))
    result = Study(commit.sha, pairs)
    with (
        create_suite_runner(repository, config, None, smoke=True) as runner,
        machine_lock(config.lock_path, owner=f"a study of noise in {root}", on_wait=say),
        closing(open_store(config.database_url, create=True)) as store,
    ):
        subject = prepare_session_scope(runner, [commit], bench, say)
        parts = list(rehearse_suite_modules(store, runner, config.project, subject, result))
        say(estimate_duration(parts, result))
        deadline = math.inf if budget_s is None else time.monotonic() + budget_s
        for part in parts:
            try:
                measure_missing_visits(part, runner, deadline)
            finally:
                if lines := part.lines(config.settings.judge):
                    result.lines[part.name] = lines
                    say(f"{part.name}: {format_summary(lines)}")
                    tell(result)
        result.complete = not any(part.missing() for part in parts)
        for part in parts if result.complete else ():
            part.session.finish()
    return result


def rehearse_suite_modules(
    store: Store, runner: MeasurementRunner, project: str, subject: SessionScope, result: Study
) -> Iterator[Part]:
    """Rehearse each module once, and leave out what this machine cannot run."""
    for name, group in itertools.groupby(subject.cells, key=lambda cell: cell.benchmark.split(".")[0]):
        began = time.monotonic()
        outcomes = [outcome for outcome, _ in runner.visit_commit(result.sha, tuple(group))]
        took = time.monotonic() - began
        for outcome in outcomes:
            if outcome.status is not Status.OK:
                reasons = result.not_measured if outcome.status is Status.SKIPPED else result.failed
                reasons[outcome.cell.name] = outcome.reason
        cells = tuple(outcome.cell for outcome in outcomes if outcome.status is Status.OK)
        if cells:
            own, about = (
                SessionScope(subject.commits, subject.discovery, cells),
                f"{result.sha} in {result.pairs} pairs",
            )
            yield Part(
                name,
                result.sha,
                result.pairs,
                open_measurement_session(store, runner, project, own, "aa", identity=about),
                cells,
                seconds={outcome.cell.name: outcome.duration_s for outcome in outcomes},
                visit_s=took - sum(outcome.duration_s for outcome in outcomes),
            )


def measure_missing_visits(part: Part, runner: MeasurementRunner, deadline: float) -> None:
    """Make the visits that are missing; what an interrupted study has already is not measured again."""
    runner.close_fork_servers()
    for visit, cells in part.missing():
        if time.monotonic() >= deadline:
            return
        part.session.measure_visit(visit, cells)


def estimate_duration(parts: Sequence[Part], result: Study) -> str:
    """How long it takes if a process takes as long as in the rehearsal; on a busy machine that is too
    much.
    """
    messages = [
        f"{format_count(len(part.cells), 'cell')} of {part.name} in {format_duration(part.left_s())}"
        for part in parts
        if part.missing()
    ]
    cells, whole = (
        sum(len(part.cells) for part in parts),
        format_duration(sum(part.left_s() for part in parts)),
    )
    left_out = f"{len(result.not_measured)} cannot run here, {len(result.failed)} failed"
    return (
        f"{format_count(cells, 'cell')} ({left_out}) in {result.pairs} pairs: about {whole} are left, "
        "at the pace of one "
        f"rehearsal\n  {', '.join(messages) or 'nothing to measure'}"
    )


# ------------------------------------------------------------------ telling


def format_summary(lines: Sequence[Line]) -> str:
    cells = zip(SUMMARY[1:], format_summary_row("", lines)[1:], strict=True)
    return "; ".join(f"{heading} {result}" for heading, result in cells if result)


SUMMARY = (
    "suite",
    "timed metrics",
    "pairs",
    "noise floor: median, worst",
    "seen with 10 pairs: median, worst",
    "false alarms",
    "exact metrics",
    "moved",
)


def format_summary_row(name: str, lines: Sequence[Line]) -> tuple[str, ...]:
    timed, exact = [line for line in lines if line.log_ratios], [line for line in lines if line.exact]
    pairs = sorted({line.pairs for line in lines})
    return (
        name,
        str(len(timed)),
        f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]}–{pairs[-1]}" if pairs else "0",
        format_median_and_worst([line.floor for line in timed]),
        format_median_and_worst([line.visible[10] for line in timed]),
        str(sum(line.is_false_alarm for line in timed)),
        str(len(exact)),
        str(sum(line.moved for line in exact)),
    )


def format_median_and_worst(ratios: Sequence[float]) -> str:
    return f"{format_effect(statistics.median(ratios))}, {format_effect(max(ratios))}" if ratios else ""


def format_effect(ratio: float) -> str:
    return format_percent(ratio) if math.isfinite(ratio) else "nothing"


def format_row(line: Line) -> tuple[str, ...]:
    result = (code_span(line.cell, in_table=True), code_span(line.metric, in_table=True), str(line.pairs))
    if line.exact:
        values = (
            f"**moved**: {', '.join(f'{value:,.10g}' for value in line.counted)}" if line.moved else "0 %"
        )
        return (*result, values, "", "", "", "")
    if line.why:
        return (*result, line.why, "", "", "", "")
    seen = (format_effect(line.visible[number]) for number in SEEN_WITH)
    return (*result, format_percent(line.floor), *seen, f"{line.largest:.4f}")


HEADINGS = (
    "benchmark",
    "metric",
    "pairs",
    "noise floor",
    *(f"seen with {number}" for number in SEEN_WITH),
    "largest abs. log ratio",
)


def format_rows(lines: Iterable[Line]) -> Iterator[tuple[str, ...]]:
    """A row per timed metric, and one for all of a cell's counts that did not move."""
    for cell, group in itertools.groupby(lines, key=lambda line: line.cell):
        own = list(group)
        yield from (format_row(line) for line in own if not line.exact or line.moved)
        if still := [line for line in own if line.exact and not line.moved]:
            pairs = str(min(line.pairs for line in still))
            counts = (
                f"{len(still)} exact: {', '.join(code_span(item.metric, in_table=True) for item in still)}"
            )
            yield (code_span(cell, in_table=True), counts, pairs, "0 %", "", "", "", "0")


def format_table(headings: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(cells)} |" for cells in (headings, *body))
    head, *rest = lines
    return "\n".join([head, "|" + "---|" * len(headings), *rest])


def format_study(result: Study, load: float) -> str:
    """Everything that is known: a summary by suite, then metric by metric, then what could not be
    measured.
    """
    whole = [line for lines in result.lines.values() for line in lines]
    state = "" if result.complete else " So far; the study was not finished."
    parts = [
        f"{describe_circumstances(load)}, commit {result.sha[:10]}.{state}",
        format_table(
            SUMMARY,
            [
                *(format_summary_row(*item) for item in result.lines.items()),
                format_summary_row("**all**", whole),
            ],
        ),
        "<details><summary>Metric by metric</summary>\n\n"
        f"{format_table(HEADINGS, format_rows(whole))}\n\n</details>",
        *format_reasons("could not run here", result.not_measured),
        *format_reasons("failed", result.failed),
    ]
    return "\n\n".join(parts)


def format_reasons(what: str, cells: Mapping[str, str]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for cell, reason in cells.items():
        by_reason.setdefault(reason, []).append(cell)
    if by_reason:
        items = [f"- {', '.join(map(code_span, names))}: {reason}" for reason, names in by_reason.items()]
        yield "\n".join([f"{format_count(len(cells), 'cell')} {what}:", "", *items])


# ------------------------------------------------------------------ the command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default="", metavar="REGEX", help="only cells in whose name this is found")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument(
        "--budget", default="", metavar="TIME", help="stop after this long, e.g. 30m; 0s only estimates"
    )
    parser.add_argument("--commit", default="HEAD", help="what is compared with itself")
    parser.add_argument("--store", default="", metavar="FILE", help="default: .perfci/noise.db")
    parser.add_argument(
        "--page", type=Path, help="write what is known into this page, such as docs/studies/noise-floors.md"
    )
    options = parser.parse_args()
    load = os.getloadavg()[0]
    latest: list[Study] = []

    def tell(outcome: Study) -> None:
        latest[:] = [outcome]
        if options.page:
            replace_figures(options.page, format_study(outcome, load))

    signal.signal(signal.SIGTERM, raise_keyboard_interrupt)
    with suppress(KeyboardInterrupt):
        tell(
            run_study(
                ROOT,
                options.store or f"sqlite:///{ensure_perfci_folder(ROOT)}/noise.db",
                revision=options.commit,
                bench=options.bench,
                pairs=options.pairs,
                budget_s=parse_time_budget(options.budget),
                tell=tell,
                say=lambda line: print(line, flush=True),
            )
        )
    if not latest:
        sys.exit(1)
    result = latest[-1]
    print(f"\n{format_study(result, load)}")
    for line in result.moved:
        print(
            f"moved although it is counted exactly: {line.cell} {line.metric}: {line.counted}",
            file=sys.stderr,
        )
    sys.exit(0 if result.good else 1)


def raise_keyboard_interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
