"""Search twelve kinds of ranges for the commit that moved a level, with simulated and real noise.

Run as ``python -m tools.study_bisect``; ``--page docs/studies/bisect-study.md`` puts the figures into that
page. Beside each search runs a binary search with fixed repeats. It fails where a commit is named right less
often, or wrong more often, than promised.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfci.verdicts.search.commit_search import CommitSearch, SearchConclusion, SearchOutcome
from tools.study_history import DATA, KINDS, Logs, Noise, Rng, read_json_lines
from tools.write_study_page import describe_circumstances, replace_figures

SEED = 20_261_128
SEEDS = 50
SIZE = 1.5
"""Size of the step in standard deviations of one process."""

LENGTHS = (64, 128, 256)
PREPARING = 1.0
"""What checking a commit out and building it costs, in processes."""

REPEATS = (3, 5, 10, 15, 20, 30)
"""Repeats that the binary search is tried with."""

MIN_RIGHT, MAX_WRONG, MAX_COST = 0.95, 0.05, 0.60
KINDS_OF_ONE_MACHINE = (
    "white",
    "heavy tails",
    "spikes",
    "autocorrelated",
    "drifting",
    "changing spread",
    "two modes",
    "sticky states",
    "long states",
)
"""All simulated noise but that of hosted runners, each run of which lands on another machine, and a clock so
coarse that it shows no step."""

PROCESSES = 4000


@dataclass(frozen=True)
class Range:
    """A range of commits: their levels in standard deviations, which did it, and which cannot be measured.

    ``mode_share`` is how often a process of a commit is in a slow mode, 3 standard deviations up.
    """

    levels: Logs
    culprits: frozenset[int]
    broken: frozenset[int] = frozenset()
    costly: frozenset[int] = frozenset()
    mode_share: Logs | None = None
    machine_jump: float = 0.0


def _place(rng: Rng, commits: int, count: int = 1) -> list[int]:
    """Places of steps, in order, and at least two commits apart."""
    while True:
        places = sorted(int(place) for place in rng.choice(np.arange(2, commits), count, replace=False))
        if all(after - before > 1 for before, after in itertools.pairwise(places)):
            return places


def _steps(commits: int, sizes: Mapping[int, float]) -> Logs:
    levels = np.zeros(commits + 1)
    for place, size in sizes.items():
        levels[place:] += size
    return levels


def plain_step(rng: Rng, commits: int) -> Range:
    (place,) = _place(rng, commits)
    return Range(_steps(commits, {place: SIZE}), frozenset({place}))


def beside_broken_build(rng: Rng, commits: int) -> Range:
    """The commit before it, or the one after it, does not build."""
    (place,) = _place(rng, commits)
    return Range(_steps(commits, {place: SIZE}), frozenset({place}), frozenset({place + rng.choice([-1, 1])}))


def two_culprits(rng: Rng, commits: int) -> Range:
    places = _place(rng, commits, 2)
    return Range(_steps(commits, dict.fromkeys(places, SIZE)), frozenset(places))


def creep(rng: Rng, commits: int) -> Range:
    return Range(np.linspace(0, 2 * SIZE, commits + 1), frozenset())


def environment_change(rng: Rng, commits: int) -> Range:
    """The machine becomes slower by four standard deviations while the search runs."""
    (place,) = _place(rng, commits)
    return Range(_steps(commits, {place: SIZE}), frozenset({place}), machine_jump=4.0)


def reverted(rng: Rng, commits: int) -> Range:
    """A step, its revert, and the same step again: either of the two steps is right."""
    up, down, again = _place(rng, commits, 3)
    return Range(_steps(commits, {up: SIZE, down: -SIZE, again: SIZE}), frozenset({up, again}))


def added_half_way(rng: Rng, commits: int) -> Range:
    """The benchmark exists from the middle on."""
    place = int(rng.integers(commits // 2 + 1, commits + 1))
    missing = frozenset(range(commits // 2))
    return Range(_steps(commits, {place: SIZE}), frozenset({place}), missing)


def mode_switch(rng: Rng, commits: int) -> Range:
    """A slow mode that one process in ten was in becomes that of nine in ten."""
    (place,) = _place(rng, commits)
    return Range(
        np.zeros(commits + 1),
        frozenset({place}),
        mode_share=np.where(np.arange(commits + 1) >= place, 0.9, 0.1),
    )


def in_dependency(rng: Rng, commits: int) -> Range:
    """The commit changes a dependency: it and its neighbours cost ten times as much to prepare."""
    (place,) = _place(rng, commits)
    costly = frozenset({place - 1, place, place + 1})
    return Range(_steps(commits, {place: SIZE}), frozenset({place}), costly=costly)


def behind_merge(rng: Rng, commits: int) -> Range:
    """A merge did it; then the commits that it brought in are searched as well."""
    (place,) = _place(rng, commits)
    return Range(_steps(commits, {place: SIZE}), frozenset({place}))


@dataclass(frozen=True)
class Scenario:
    name: str
    build: Callable[[Rng, int], Range]
    kinds: Sequence[str] = (*KINDS_OF_ONE_MACHINE, "real")
    branch: int = 0  # commits of the branch that a merge brought in


SCENARIOS = (
    Scenario("a step", plain_step),
    Scenario("a step in memory", plain_step, ("memory",)),
    Scenario("behind a merge of eight commits", behind_merge, branch=8),
    Scenario("beside a build that breaks", beside_broken_build),
    Scenario("a flaky machine", plain_step, ("spikes", "heavy tails", "sticky states", "long states")),
    Scenario("two culprits", two_culprits),
    Scenario("a creep without culprit", creep),
    Scenario("environment changes meanwhile", environment_change),
    Scenario("a step, reverted and made again", reverted),
    Scenario("a benchmark added half-way", added_half_way),
    Scenario("a mode switch", mode_switch, ("white",)),
    Scenario("in a dependency", in_dependency),
)


def memory_noise(rng: Rng, series: int, points: int) -> Logs:
    """Peaks that are equal but for one allocator block in some processes."""
    return 0.002 * rng.binomial(2, 0.3, (series, points)).astype(float)


def draw_noise(kind: str, rng: Rng) -> Logs:
    """The log noise of consecutive processes, in standard deviations of them (robust for rare outliers)."""
    if kind == "real":
        line = _draw_real_noise(rng)
    else:
        noise: Noise = memory_noise if kind == "memory" else KINDS[kind]
        line = noise(rng, 4, PROCESSES)[rng.integers(4)]
    deviations = np.abs(line - np.median(line))
    robust = 1.4826 * float(np.median(deviations))
    spread = robust if kind in ("spikes", "heavy tails") else float(line.std())
    return (line - np.median(line)) / spread


def _draw_real_noise(rng: Rng) -> Logs:
    """Real change-free histories and forks, from a random place on, again and again."""
    lines = _load_real_lines()
    line = lines[rng.integers(len(lines))]
    return np.resize(np.roll(line, -int(rng.integers(len(line)))), PROCESSES)


_REAL: list[Logs] = []


def _load_real_lines() -> list[Logs]:
    if not _REAL:
        rows = [row for name in ("real", "semireal") for row in read_json_lines(DATA / f"{name}.jsonl")]
        quiet = [np.log(row["values"]) for row in rows if not row["must"] and not row["ignore"]]
        forks = [
            [np.log(np.median(fork)) for fork in row["forks"]]
            for row in read_json_lines(DATA / "jmh_forks.jsonl")
        ]
        lines = [np.asarray(line, dtype=float) for line in (*quiet, *forks)]
        _REAL.extend(line for line in lines if len(line) >= 10 and line.std() > 1e-4)
    return _REAL


# ------------------------------------------------------------------ searches


@dataclass
class Machine:
    """Measures one process after the other, and counts what that costs."""

    range: Range
    noise: Iterator[float]
    rng: Rng
    jump_at: int
    spread: float = 0.02
    processes: int = 0
    cost: float = 0.0

    def __post_init__(self) -> None:
        self._prepared: set[int] = set()

    def price(self, position: int) -> float:
        """Cost of one process of a commit, in processes."""
        preparing = PREPARING * (10 if position in self.range.costly else 1)
        return 1.0 + (0.0 if position in self._prepared else preparing)

    def measure(self, position: int) -> float | None:
        """The log level of a process, None where the commit cannot be measured."""
        self.cost += self.price(position)
        self._prepared.add(position)
        if position in self.range.broken:
            self.cost -= 1.0
            return None
        self.processes += 1
        level = self.range.levels[position] + next(self.noise)
        if self.range.mode_share is not None:
            level += 3.0 * (self.rng.random() < self.range.mode_share[position])
        if self.processes > self.jump_at:
            level += self.range.machine_jump
        return float(self.spread * level)


def search(machine: Machine) -> SearchConclusion:
    """perfci's search."""
    commits = len(machine.range.levels) - 1
    state = CommitSearch(commits)
    while (position := state.choose_next({p: machine.price(p) for p in range(commits + 1)})) is not None:
        level = machine.measure(position)
        if level is None:
            state.exclude(position)
        else:
            state.record(position, level)
    assert state.conclusion is not None
    return state.conclusion


def binary_search(machine: Machine, repeats: int) -> int | None:
    """Bisect with a threshold half-way between the medians of the ends, ``repeats`` processes a commit."""

    def level(position: int) -> float | None:
        levels = [machine.measure(position) for _ in range(repeats)]
        usable = [item for item in levels if item is not None]
        return float(np.median(usable)) if usable else None

    good, bad = 0, len(machine.range.levels) - 1
    last, first = level(bad), level(good)
    while first is None and good < bad:
        good += 1
        first = level(good)
    if first is None or last is None:
        return None
    threshold = (first + last) / 2
    slower = last > first
    while bad - good > 1:
        candidates = sorted(range(good + 1, bad), key=lambda p: abs(p - (good + bad) / 2))
        middle = next(((p, value) for p in candidates if (value := level(p)) is not None), None)
        if middle is None:
            return None
        if (middle[1] > threshold) == slower:
            bad = middle[0]
        else:
            good = middle[0]
    return bad


# ------------------------------------------------------------------ figures


@dataclass
class Tally:
    right: int = 0
    narrowed: int = 0
    wrong: int = 0
    silent: int = 0
    cost: float = 0.0
    processes: int = 0
    runs: int = 0

    def count(self, verdict: str, machine: Machine) -> None:
        self.runs += 1
        self.cost += machine.cost
        self.processes += machine.processes
        setattr(self, verdict, getattr(self, verdict) + 1)

    def share(self, verdict: str) -> float:
        return float(getattr(self, verdict)) / self.runs


def classify(conclusion: SearchConclusion, item: Range) -> str:
    """A range is right where commits that cannot be measured leave no smaller one, or nobody did it."""
    if conclusion.outcome is SearchOutcome.NAMED:
        return "right" if conclusion.last in item.culprits else "wrong"
    inside = any(conclusion.first < place <= conclusion.last for place in item.culprits)
    if not item.culprits:
        return "right"
    if conclusion.outcome is SearchOutcome.NARROWED and inside:
        between = set(range(conclusion.first + 1, conclusion.last))
        return "right" if between <= item.broken else "narrowed"
    return "wrong" if conclusion.outcome is SearchOutcome.NARROWED else "silent"


def search_and_classify(machine: Machine) -> str:
    return classify(search(machine), machine.range)


def fixed_search(repeats: int) -> Callable[[Machine], str]:
    def find(machine: Machine) -> str:
        named = binary_search(machine, repeats)
        if named in machine.range.culprits:
            return "right"
        return "silent" if named is None else "wrong"

    return find


def run_scenario(scenario: Scenario, seeds: int) -> tuple[Tally, dict[int, Tally]]:
    """Search the ranges of a scenario, and the same ranges with fixed repeats."""
    mine, fixed = Tally(), {repeats: Tally() for repeats in REPEATS}
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, seed, SCENARIOS.index(scenario)])
        kind = scenario.kinds[seed % len(scenario.kinds)]
        item = scenario.build(rng, LENGTHS[seed % len(LENGTHS)])
        line, jump_at = draw_noise(kind, rng), int(rng.integers(5, 40))
        branch = plain_step(rng, scenario.branch) if scenario.branch else None
        for tally, find in [(mine, search_and_classify), *((t, fixed_search(n)) for n, t in fixed.items())]:
            machine = Machine(item, iter(line), rng, jump_at)
            verdict = find(machine)
            if branch and verdict == "right":
                inner = Machine(branch, iter(line[PROCESSES // 2 :]), rng, PROCESSES)
                verdict = find(inner)
                machine.cost += inner.cost
                machine.processes += inner.processes
            tally.count(verdict, machine)
    return mine, fixed


def choose_equal_error(mine: Tally, fixed: Mapping[int, Tally]) -> int | None:
    """The least repeats with as few wrong answers as the search, None where none of them has."""
    wrong = mine.wrong + mine.silent + mine.narrowed
    return next((n for n, t in fixed.items() if t.wrong + t.silent <= wrong), None)


def format_table(rows: Sequence[tuple[Scenario, Tally, dict[int, Tally]]]) -> str:
    lines = [
        "| range | right | smallest range only | wrong | no answer | processes | cost | "
        "fixed repeats: right, cost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for scenario, mine, fixed in rows:
        repeats = choose_equal_error(mine, fixed)
        best = fixed[repeats or REPEATS[-1]]
        note = f"{repeats}x: " if repeats else f"{REPEATS[-1]}x, not as good: "
        lines.append(
            f"| {scenario.name} | {mine.share('right'):.0%} | {mine.share('narrowed'):.0%} | "
            f"{mine.share('wrong'):.0%} | {mine.share('silent'):.0%} | {mine.processes / mine.runs:.0f} | "
            f"{mine.cost / mine.runs:.0f} | {note}{best.share('right'):.0%}, {best.cost / best.runs:.0f} |"
        )
    return "\n".join(lines).replace("%", " %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    if not DATA.exists():
        raise SystemExit(f"{DATA} is not here: the study replays real noise")
    load, started = os.getloadavg()[0], time.process_time()
    rows = []
    for scenario in SCENARIOS:
        if options.only in scenario.name:
            rows.append((scenario, *run_scenario(scenario, options.seeds)))
            print(format_table(rows[-1:]).splitlines()[-1], flush=True)
    mine = [row[1] for row in rows]
    runs = sum(tally.runs for tally in mine)
    right, wrong = (sum(getattr(tally, name) for tally in mine) / runs for name in ("right", "wrong"))
    print(f"right {right:.1%}, wrong {wrong:.1%} of {runs}, {time.process_time() - started:.0f} s of CPU")
    if options.page:
        summary = f"All: right {right:.1%}, wrong {wrong:.1%} of {runs} searches.".replace("%", " %")
        replace_figures(options.page, f"{describe_circumstances(load)}\n\n{format_table(rows)}\n\n{summary}")
    raise SystemExit(right < MIN_RIGHT or wrong > MAX_WRONG)


if __name__ == "__main__":
    main()
