"""How many real steps page somebody once fresh pairs have confirmed them, and how many false ones do.

Run as ``python -m tools.study_paging``. It fails where fewer than nine of ten confirmed steps page, or where
false pages pass 0.5 in 1000 points at the exact upper 95 % limit of a Poisson count.

Steps: one series of a project of ``SERIES`` moved at a commit of the week; the history has three to
fifteen points of the new level and ten fresh pairs confirmed it, among a number of retests of the same
week that found nothing. False pages: no series of a project changes. Every change point the detector
reports, looked at every ``LOOK_EVERY`` commits, is retested while the same noise goes on; none is in a
second project.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from perfci.demo.machine_noise import FRESH_PAIRS
from perfci.history.incident_inputs import group_confirmations_by_series
from perfci.model import (
    Benchmark,
    ChangePoint,
    Clock,
    Commit,
    Incident,
    Machine,
    Metric,
    Process,
    Series,
    Verdict,
    VerdictKind,
)
from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from perfci.verdicts.history.change_points_and_jumps import build_change_point, measure_change_point
from perfci.verdicts.history.step_evidence import LevelPoint
from perfci.verdicts.incidents.incident_builder import build_incidents
from perfci.verdicts.incidents.paging_budget import Disposition, apply_paging_budget
from perfci.verdicts.incidents.step_causes import HistoryContext, SessionVisit
from tools.study_history import (
    Logs,
    Rng,
    is_new_change,
    poisson_upper_limit,
)

SEED = 20_261_123
SERIES, POINTS, LOOK_EVERY = 1000, 200, 10
COMMITS_A_WEEK = 100
STEPS = 200
POINTS_BEFORE = 15
SIZES, SPREADS = (0.06, 0.08, 0.10), (0.01, 0.02)
RANKS, REFUTED = (1, 5, 20, 100), (0, 10)
WANTED_SHARE, WANTED_RATE = 0.9, 0.5
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
Noise = Callable[[Rng, int, int], Logs]
"""Log levels of some series at some points, shape (series, points)."""
MACHINE = Machine(cpu="simulated")


def a_series(number: int) -> Series:
    return Series(Benchmark(f"file_{number}.Part.time_it", "1"), (), Metric("time", "seconds"), MACHINE)


def a_sha(number: int) -> str:
    return f"{number:040x}"


def judge_fresh_pairs(series: Series, commit: int, runs: Logs) -> Verdict:
    """Verdict on fresh pairs of a commit and its parent, the log times of their processes in turns."""
    sides = [
        [
            Process(k, samples=(float(np.exp(value)),), clock=Clock.WALL, pair=k)
            for k, value in enumerate(runs[begin::2])
        ]
        for begin in (0, 1)
    ]
    return confirmation_verdict(series, a_sha(commit - 1), a_sha(commit), *sides)


@dataclass(frozen=True)
class Project:
    """Simulated levels of every series, shape (series, commits), and fresh pairs of some commits."""

    levels: Mapping[Series, Logs]
    changes: Sequence[ChangePoint]
    verdicts: Sequence[Verdict]

    def find_pages(self) -> set[tuple[str, Series]]:
        """The commit and series of every member of an incident that pages."""
        count = max(map(len, self.levels.values()))
        starts = [MONDAY + timedelta(days=7 * at / COMMITS_A_WEEK) for at in range(count)]
        context = HistoryContext(
            "simulated",
            [Commit(a_sha(at), position=at) for at in range(count)],
            points={
                series: [LevelPoint(a_sha(at), float(np.exp(level))) for at, level in enumerate(line)]
                for series, line in self.levels.items()
            },
            confirmations=group_confirmations_by_series(self.verdicts),
            visits={
                (a_sha(at), MACHINE): [SessionVisit(f"session {at}", started_at)]
                for at, started_at in enumerate(starts)
            },
            count_series=lambda machine, unit, shas: SERIES,
        )
        ranks = {a_sha(at): 1 + at % COMMITS_A_WEEK for at in range(count)}
        incidents: list[Incident] = build_incidents(self.changes, context)
        budgeted = apply_paging_budget(incidents, ranks, series_count=SERIES, pages_per_week=10**6)
        return {
            (item.incident.commit, change.series)
            for item in budgeted
            if item.disposition is Disposition.PAGE
            for change in item.incident.members
        }


# ------------------------------------------------------------------ steps that were confirmed


def simulate_confirmed_step(rng: Rng, size: float, spread: float, rank: int, refuted: int) -> bool | None:
    """Whether a confirmed step pages; None where fresh pairs did not confirm it."""
    at = COMMITS_A_WEEK + rank - 1
    levels, changes, verdicts = {}, [], []
    for number in range(1 + refuted):
        series, step = a_series(number), math.log1p(size) if number == 0 else 0.0
        # those that were refuted came with commits up to this one
        commit = at if number == 0 else max(COMMITS_A_WEEK, at - number)
        line = rng.normal(0, spread, at + int(rng.integers(3, POINTS_BEFORE + 1)))
        line[commit:] += step
        fresh = rng.normal(0, spread, 2 * FRESH_PAIRS)
        fresh[1::2] += step
        levels[series] = line
        verdicts.append(judge_fresh_pairs(series, commit, fresh))
        # without the p-value of the history, so that it is the pairs alone that may page
        history = [(a_sha(place), float(level)) for place, level in enumerate(np.exp(line))]
        changes.append(replace(measure_change_point(series, history, commit), p_value=None))
    # each in a session of its own
    verdicts = [control_false_discoveries([verdict], FALSE_DISCOVERY_RATE)[0] for verdict in verdicts]
    if verdicts[0].kind is not VerdictKind.REGRESSION:
        return None
    return (a_sha(at), a_series(0)) in Project(levels, changes, verdicts).find_pages()


def study_confirmed_steps(steps: int) -> Iterator[tuple[str, float]]:
    for size in SIZES:
        for spread in SPREADS:
            for refuted in REFUTED:
                shares = []
                for rank in RANKS:
                    rng = np.random.default_rng(
                        [SEED, round(1000 * size), round(1000 * spread), rank, refuted]
                    )
                    outcomes = [
                        simulate_confirmed_step(rng, size, spread, rank, refuted) for _ in range(steps)
                    ]
                    confirmed = [outcome for outcome in outcomes if outcome is not None]
                    shares.append(sum(confirmed) / len(confirmed) if confirmed else math.nan)
                cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
                yield f"| {size:+.0%} | {spread:.0%} | {refuted} | {cells} |", min(shares)


# ------------------------------------------------------------------ pages where nothing changed
# Other kinds of noise than those of the other studies, which the detector was designed on.


def draw_deviations(rng: Rng, series: int) -> Logs:
    return np.exp(rng.uniform(math.log(0.003), math.log(0.06), (series, 1)))


def one_sided_noise(rng: Rng, series: int, points: int) -> Logs:
    """Neighbours only slow down: a gamma distribution with a long right tail."""
    return draw_deviations(rng, series) * rng.gamma(0.7, 1.2, (series, points))


def weekly_noise(rng: Rng, series: int, points: int) -> Logs:
    """Quiet on some days of the week, busy on others."""
    days = rng.normal(0, 1, (series, 7))[:, np.arange(points) % 7]
    return draw_deviations(rng, series) * (0.7 * days + 0.7 * rng.normal(0, 1, (series, points)))


def bursty_noise(rng: Rng, series: int, points: int) -> Logs:
    """A spread that follows the size of the last deviation (ARCH, Engle 1982)."""
    shocks, line = rng.normal(0, 1, (series, points)), np.empty((series, points))
    line[:, 0] = shocks[:, 0]
    for at in range(1, points):
        line[:, at] = shocks[:, at] * np.sqrt(0.4 + 0.6 * line[:, at - 1] ** 2)
    return draw_deviations(rng, series) * line


def remembering_noise(r: float) -> Noise:
    """First-order autoregressive noise."""

    def simulate(rng: Rng, series: int, points: int) -> Logs:
        line = rng.normal(0, 1, (series, points))
        for at in range(1, points):
            line[:, at] = r * line[:, at - 1] + math.sqrt(1 - r * r) * line[:, at]
        return draw_deviations(rng, series) * line

    return simulate


KINDS: Mapping[str, Noise] = {
    "one-sided": one_sided_noise,
    "weekly": weekly_noise,
    "bursts": bursty_noise,
    "AR(1), 0.5": remembering_noise(0.5),
    "AR(1), 0.8": remembering_noise(0.8),
    "AR(1), 0.9": remembering_noise(0.9),
}


def count_false_pages(kind: str, rng: Rng, series: int, *, is_retested: bool) -> tuple[int, int]:
    """Change points reported and pages raised in a project that never changes."""
    fresh_runs = 2 * FRESH_PAIRS
    logs = KINDS[kind](rng, series, POINTS + 10 * fresh_runs)
    names = [a_series(number) for number in range(series)]
    seen: list[list[int]] = [[] for _ in names]
    reports = [0] * series
    verdicts: list[Verdict] = []
    pages: set[tuple[str, Series]] = set()
    for end in range(LOOK_EVERY, POINTS + 1, LOOK_EVERY):
        reported = detect_change_points_in_many([np.exp(line[:end]) for line in logs])
        changes, moving = [], []
        for number, steps in enumerate(reported):
            history = [(a_sha(place), float(level)) for place, level in enumerate(np.exp(logs[number, :end]))]
            for step in steps:
                index = step.index
                changes.append(build_change_point(names[number], history, step))
                moving.append(number)
                reports[number] += is_new_change(index, seen[number])
                # one that moved is measured again: pairs of its old place say nothing of the new one
                if index not in seen[number]:
                    begin = POINTS + fresh_runs * (len(seen[number]) % 10)
                    seen[number].append(index)
                    if is_retested:
                        runs = logs[number, begin : begin + fresh_runs]
                        verdicts.append(judge_fresh_pairs(names[number], index, runs))
        levels = {names[number]: logs[number, :end] for number in moving}
        if changes:
            pages |= Project(levels, changes, verdicts).find_pages()
    return sum(reports), len(pages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS, help="of every row")
    parser.add_argument("--series", type=int, default=200, help="without a change, of every kind of noise")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    chosen = parser.parse_args()
    broken = []
    print(f"Confirmed steps that page, of {SERIES} series, by their commit of the week:\n")
    print(f"| step | noise | refuted | {' | '.join(f'commit {rank}' for rank in RANKS)} |")
    print("|---" * (3 + len(RANKS)) + "|")
    for row, share in study_confirmed_steps(chosen.steps):
        print(row, flush=True)
        if share < WANTED_SHARE:
            broken.append(f"{row}: fewer than {WANTED_SHARE:.0%} page")
    print("\nPages where nothing changed, per 1000 points (at most):\n")
    print(
        "| noise | points | reported | pages, each retested | pages, none retested |\n|---|---|---|---|---|"
    )
    points, totals = chosen.series * POINTS, [0, 0]
    for number, kind in enumerate(chosen.kinds):
        cells = []
        reported = 0
        for column, is_retested in enumerate((True, False)):
            rng = np.random.default_rng([SEED, number])
            reported, pages = count_false_pages(kind, rng, chosen.series, is_retested=is_retested)
            totals[column] += pages
            cells.append(f"{1000 * pages / points:.2f} ({poisson_upper_limit(pages, points):.2f})")
        print(f"| {kind} | {points:,} | {reported} | {' | '.join(cells)} |", flush=True)
    all_points = points * len(chosen.kinds)
    cells = [
        f"{1000 * pages / all_points:.3f} ({poisson_upper_limit(pages, all_points):.3f})" for pages in totals
    ]
    print(f"| all | {all_points:,} | | {' | '.join(cells)} |")
    broken += [
        f"false pages at most {limit:.2f} per 1000 points"
        for pages in totals
        if (limit := poisson_upper_limit(pages, all_points)) > WANTED_RATE
    ]
    sys.exit("\n".join(broken) or 0)


if __name__ == "__main__":
    main()
