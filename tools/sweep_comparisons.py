"""Sweeps of comparisons: mixes of modes, coarse clocks, failures, and groups with one odd member."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.model import (
    Benchmark,
    Clock,
    Machine,
    Metric,
    Process,
    Series,
    Status,
    Verdict,
    VerdictKind,
)
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from tools.study_adaptive_pairs import BAR, MOST, Answer, Case, judge_adaptively
from tools.study_history import Logs, Rng
from tools.sweep_table import SweepTable, format_share

SEED = 20_270_523
WRONG_LIMIT = 0.05
"""Error rate of a two-sided 95 % interval."""


def draw_logistic(rng: Rng, shape: Sequence[int] | int, spread: float | Logs) -> Logs:
    """Between normal and Laplace; ``spread`` is the standard deviation."""
    return np.asarray(rng.logistic(0, math.sqrt(3) / math.pi, shape) * spread)


# ------------------------------------------------------------------ mix of modes

VERDICTS = ("unchanged", "regression", "improvement", "inconclusive")

STATE_SPREAD = 0.006
MIN_WRONG_MOVE = 0.08
"""A mean that moves this far is not unchanged at a bar of 5 %."""

MIN_SHARE_MOVE = 0.3
"""A state that is rarer than this in a few pairs cannot be told from outliers."""

MAX_PAIRS_OF_EQUAL_SHARES = 7


@dataclass(frozen=True)
class StateMix:
    """States of a machine as log levels above the fastest, and how often each side is in which."""

    increases: Sequence[float]
    base: Sequence[float]
    head: Sequence[float]

    @property
    def mean_move(self) -> float:
        base, head = (
            sum(share * (1 + more) for share, more in zip(shares, self.increases, strict=True))
            for shares in (self.base, self.head)
        )
        return head / base - 1

    @property
    def is_visible(self) -> bool:
        """Whether a few pairs can show that the mean moves."""
        moves = [abs(before - after) for before, after in zip(self.base, self.head, strict=True)]
        return abs(self.mean_move) >= MIN_WRONG_MOVE and max(moves) >= MIN_SHARE_MOVE - 1e-9

    @property
    def chance_of_one_state(self) -> float:
        """That the five pairs of the first look show all processes of both sides in one state."""
        return max((first * second) ** 5 for first, second in zip(self.base, self.head, strict=True))

    def describe(self) -> str:
        states = ", ".join(f"{more:+.0%}" for more in self.increases[1:])
        shares = (", ".join(f"{share:.0%}" for share in shares[1:]) for shares in (self.base, self.head))
        return f"{states}: {' -> '.join(shares)}"

    def simulate(self, rng: Rng) -> Case:
        logs = np.log1p(self.increases)
        sides = [
            logs[rng.choice(len(logs), MOST, p=shares)] + draw_logistic(rng, MOST, STATE_SPREAD)
            for shares in (self.base, self.head)
        ]
        base, head = (np.exp(side)[:, None].tolist() for side in sides)
        return Case(self.mean_move, base, head)


STATE_MIXES = (
    StateMix((0, 0.25), (0.95, 0.05), (0.45, 0.55)),
    StateMix((0, 0.18), (0.90, 0.10), (0.20, 0.80)),
    StateMix((0, 0.40), (0.80, 0.20), (0.40, 0.60)),
    StateMix((0, 0.40), (1.0, 0.0), (0.70, 0.30)),
    StateMix((0, 1.00), (1.0, 0.0), (0.90, 0.10)),
    StateMix((0, 0.22), (0.35, 0.65), (0.85, 0.15)),
    StateMix((0, 0.12, 0.30), (0.7, 0.2, 0.1), (0.2, 0.4, 0.4)),
    StateMix((0, 0.10, 0.25), (0.6, 0.3, 0.1), (0.1, 0.3, 0.6)),
    StateMix((0, 0.12, 0.30), (0.2, 0.4, 0.4), (0.7, 0.2, 0.1)),
    StateMix((0, 0.06), (0.6, 0.4), (0.6, 0.4)),
    StateMix((0, 0.04), (0.75, 0.25), (0.75, 0.25)),
    StateMix((0, 0.25), (0.7, 0.3), (0.7, 0.3)),
    StateMix((0, 0.12, 0.30), (0.5, 0.3, 0.2), (0.5, 0.3, 0.2)),
)


def sweep_mode_mix(cases: int) -> SweepTable:
    """Verdicts of comparisons that buy pairs, where the sides are in slow states more or less often."""
    table = SweepTable(
        "Mix of modes",
        "Where the mean moves by 8 % or more and a share by 30 points, *unchanged* in at most 5 %, plus the"
        " chance that the first five pairs show one state only. Where both sides have the same shares, a move"
        " in at most 5 %; if the states are up to 6 % apart, *unchanged* in at least 95 %, on at most 7 pairs"
        " in the mean.",
        ["slower states: share of base -> head", "mean", "one state", *map(str, VERDICTS), "pairs"],
    )
    for number, mix in enumerate(STATE_MIXES):
        rng = np.random.default_rng([SEED, 1, number])
        answers: list[Answer] = judge_adaptively([mix.simulate(rng) for _ in range(cases)])
        counts = Counter(answer.word for answer in answers)
        shares = {verdict: counts[verdict] / cases for verdict in VERDICTS}
        pairs = float(np.mean([answer.pairs for answer in answers]))
        move = "same" if mix.base == mix.head else f"{mix.mean_move:+.1%}"
        blind = mix.chance_of_one_state
        row = mix.describe()
        table.rows.append(
            [row, move, format_share(blind), *map(format_share, shares.values()), f"{pairs:.1f}"]
        )
        if mix.is_visible:
            limit = WRONG_LIMIT + blind
            table.require_share_at_most(counts["unchanged"], cases, limit, f"{row}: unchanged")
        elif mix.base == mix.head:
            moves = counts["regression"] + counts["improvement"]
            table.require_share_at_most(moves, cases, WRONG_LIMIT, f"{row}: moves")
            if max(mix.increases) <= 0.06:
                table.require_share_at_least(counts["unchanged"], cases, 0.95, f"{row}: unchanged")
                table.require_at_most(pairs, MAX_PAIRS_OF_EQUAL_SHARES, f"{row}: pairs")
    return table


# ------------------------------------------------------------------ coarse clocks

Reading = Callable[[Rng, Logs], Logs]


@dataclass(frozen=True)
class CoarseClock:
    """A clock or counter that reads a true level in whole steps."""

    name: str
    level: float
    spread: float
    read: Reading
    samples: int = 1
    is_power_required: bool = False
    is_readable: bool = True
    """Whether the readings differ: of a clock that always shows the same nobody knows the steps."""

    def simulate(self, rng: Rng, pairs: int, effect: float) -> dict[str, Any]:
        """A case for ``judge_comparisons``: processes of ``samples`` readings of both sides."""
        sides = {}
        for name, move in (("base", 0.0), ("head", math.log1p(effect))):
            processes = draw_logistic(rng, (pairs, 1), self.spread)
            samples = draw_logistic(rng, (pairs, self.samples), self.spread / 3 if self.samples > 1 else 0)
            sides[name] = self.read(rng, self.level * np.exp(move + processes + samples)).tolist()
        return sides


def read_exactly(rng: Rng, levels: Logs) -> Logs:
    return levels


def round_to(step: float) -> Reading:
    return lambda rng, levels: step * np.round(levels / step)


def count_ticks(step: float) -> Reading:
    """The difference of two readings of a clock that ticks at any phase."""
    return lambda rng, levels: step * np.floor(levels / step + rng.random(levels.shape))


def round_up_to(step: float) -> Reading:
    return lambda rng, levels: step * np.ceil(levels / step)


CLOCKS = (
    CoarseClock("1 ms at 20 ms, 3 % noise", 20, 0.03, round_to(1), is_power_required=True),
    CoarseClock("1 ms at 20 ms, 0.5 % noise", 20, 0.005, round_to(1), is_readable=False),
    CoarseClock("1 ms at 55 ms, 3 % noise", 55, 0.03, round_to(1), is_power_required=True),
    CoarseClock("15.6 ms ticks at 150 ms, 2 % noise", 150, 0.02, count_ticks(15.625)),
    CoarseClock("15.6 ms ticks at 150 ms, medians of 5", 150, 0.02, count_ticks(15.625), samples=5),
    CoarseClock("15.6 ms ticks at 1.5 s, 2 % noise", 1500, 0.02, count_ticks(15.625), is_power_required=True),
    CoarseClock("blocks of 512 bytes at 20 kB, 1 % noise", 20_000, 0.01, round_up_to(512)),
    CoarseClock("bytes at 300, 2 % noise", 300, 0.02, round_to(1), is_power_required=True),
)
CLOCK_PAIRS = (5, 10, 20)
CLOCK_EFFECTS = (0.0, 0.02, 0.08)


def sweep_ticks(cases: int) -> SweepTable:
    """Candidates and intervals of levels that a clock reads in coarse steps."""
    table = SweepTable(
        "Ticks",
        "At 0 and +2 % at most 1.5 % are flagged, or 1 % more than with an exact clock. Intervals cover at"
        " least 93 %, unless the noise is so far below the step that all readings of a side are the same."
        " Where the step is at most the bar and twice the noise, +8 % is flagged in 95 % of 20 pairs.",
        ["clock", "pairs", "flagged at 0", "at +2 %", "at +8 %", "coverage", "exact clock at +2 %"],
    )
    for (number, clock), pairs in itertools.product(enumerate(CLOCKS), CLOCK_PAIRS):
        flagged, covered = {}, []
        for effect in CLOCK_EFFECTS:
            rng = np.random.default_rng([SEED, 2, number, pairs, round(100 * effect)])
            answers = judge_comparisons([clock.simulate(rng, pairs, effect) for _ in range(cases)])
            flagged[effect] = count_flagged(answers)
            covered += [interval_holds_ratio(answer, 1 + effect) for answer in answers]
        rng, exact = np.random.default_rng([SEED, 2, number, pairs, 2]), replace(clock, read=read_exactly)
        exact_flagged = count_flagged(
            judge_comparisons([exact.simulate(rng, pairs, 0.02) for _ in range(cases)])
        )
        flagged_shares = [count / cases for count in flagged.values()]
        shares = [*flagged_shares, float(np.mean(covered)), exact_flagged / cases]
        table.rows.append([clock.name, str(pairs), *map(format_share, shares)])
        row = f"{clock.name}, {pairs} pairs:"
        limit = max(0.015, exact_flagged / cases + 0.01)
        table.require_share_at_most(max(flagged[0.0], flagged[0.02]), cases, limit, f"{row} false flags")
        if clock.is_readable:
            table.require_share_at_least(sum(covered), len(covered), 0.93, f"{row} coverage")
        if clock.is_power_required and pairs == CLOCK_PAIRS[-1]:
            table.require_share_at_least(flagged[0.08], cases, 0.95, f"{row} flagged at +8 %")
    return table


def judge_comparisons(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Answers to ``compare``, at once."""
    return list(judge_cases_json({"op": "compare", "min_effect": BAR, "cases": documents})["results"])


def count_flagged(answers: Sequence[Mapping[str, Any]]) -> int:
    return sum(answer["regression"] for answer in answers)


def interval_holds_ratio(answer: Mapping[str, Any], ratio: float) -> bool:
    """Whether the interval of an answer holds the true ratio."""
    return answer["ci"] is None or answer["ci"][0] <= ratio <= answer["ci"][1]


# ------------------------------------------------------------------ failures

FAILING_SERIES = Series(
    Benchmark("simulated.Part.time_it", "1"), (), Metric("time", "seconds"), Machine(cpu="simulated")
)
FIXED_FAILURES = (
    (5, 0, 1),
    (5, 0, 2),
    (5, 2, 2),
    (10, 0, 1),
    (10, 0, 2),
    (10, 0, 4),
    (10, 1, 1),
    (10, 1, 6),
    (10, 2, 4),
    (10, 3, 0),
    (20, 0, 2),
    (20, 2, 9),
    (20, 5, 5),
    (10, 2, 3),
    (40, 0, 2),
    (40, 0, 3),
)
"""Processes of a side, and how many of the base and of the head fail."""

FAILURE_RATES = ((10, 0.01, 0.01), (10, 0.02, 0.02), (20, 0.02, 0.02), (10, 0.05, 0.05), (10, 0.0, 0.4))
"""Processes of a side, and the probability that one of the base and of the head fails."""


def sweep_failures(cases: int) -> SweepTable:
    """Verdicts where processes fail, on levels that do not change."""
    table = SweepTable(
        "Failures",
        "Four or more of ten that fail at the head only are *failed*, with their number. A head that fails"
        " more often than its base is never *unchanged* or a move. Of sides that fail equally, in up to 2 %"
        " of their processes, at most 2.5 % are *failed*.",
        ["processes a side", "base fails", "head fails", "failed", "inconclusive", "unchanged", "other"],
    )
    for number, (total, before, after) in enumerate(FIXED_FAILURES):
        rng = np.random.default_rng([SEED, 3, number])
        verdicts = [judge_with_failures(rng, total, before, after) for _ in range(cases)]
        shares = count_kinds(verdicts)
        table.rows.append([str(total), str(before), str(after), *map(format_share, shares.values())])
        row = f"{before} of {total} fail at the base, {after} at the head:"
        if after > before:
            calm = shares["unchanged"] + shares["other"]
            table.require_at_most(calm, 0.0, f"{row} unchanged or a move")
        if before == 0 and after >= 0.4 * total:
            named = np.mean([f"{after} of {total} head" in verdict.reason for verdict in verdicts])
            table.require_at_least(min(shares["failed"], float(named)), 1.0, f"{row} failed and named")
        if after <= before:
            table.require_at_most(shares["failed"], 0.0, f"{row} failed")
    for number, (total, base_rate, head_rate) in enumerate(FAILURE_RATES):
        rng = np.random.default_rng([SEED, 4, number])
        counts = rng.binomial(total, [base_rate, head_rate], (10 * cases, 2))
        shares = count_kinds([judge_with_failures(rng, total, *map(int, pair)) for pair in counts])
        rates = [f"each with {rate:.0%}" for rate in (base_rate, head_rate)]
        table.rows.append([str(total), *rates, *map(format_share, shares.values())])
        row = f"{total} processes, which fail with {base_rate:.0%} and {head_rate:.0%}:"
        if base_rate == head_rate <= 0.02:
            failed = round(shares["failed"] * len(counts))
            table.require_share_at_most(failed, len(counts), 0.025, f"{row} failed")
        elif base_rate < head_rate:
            table.require_at_least(shares["failed"], 0.9, f"{row} failed")
    return table


def count_kinds(verdicts: Sequence[Verdict]) -> dict[str, float]:
    names = ("failed", "inconclusive", "unchanged")
    counts = Counter(verdict.kind.value for verdict in verdicts)
    shares = {name: counts[name] / len(verdicts) for name in names}
    return shares | {"other": 1 - sum(shares.values())}


def judge_with_failures(rng: Rng, total: int, before: int, after: int) -> Verdict:
    """Verdict of equal sides, some processes of which run out of memory."""
    sides = []
    for failed in (before, after):
        levels = np.exp(draw_logistic(rng, total, 0.004))
        failing = set(rng.choice(total, failed, replace=False).tolist())
        sides.append(
            [
                Process(k, status=Status.OOM, reason="out of memory", pair=k)
                if k in failing
                else Process(k, samples=(float(level),), clock=Clock.WALL, pair=k)
                for k, level in enumerate(levels)
            ]
        )
    return confirmation_verdict(FAILING_SERIES, "base", "head", *sides)


# ------------------------------------------------------------------ batches

BATCH_SIZES = (5, 20, 80, 200)
BATCH_PAIRS = 5
CHANGED_SHARE, CHANGE = 0.1, 0.12
MIRRORED = {
    VerdictKind.REGRESSION.value: VerdictKind.IMPROVEMENT.value,
    VerdictKind.IMPROVEMENT.value: VerdictKind.REGRESSION.value,
}
MEMBERS = ("none", "constant", "thirty times noisier", "two modes, 40 % apart", "slower by 60 %")


@dataclass(frozen=True)
class Batch:
    """Log levels of base and head, shape (members, pairs), their noise, and what really changed.

    The last member may be an odd one.
    """

    base: Logs
    head: Logs
    spreads: Logs
    changes: Logs

    @classmethod
    def simulate(cls, rng: Rng, size: int, member: str) -> Batch:
        spreads = np.exp(rng.uniform(math.log(0.004), math.log(0.04), size))
        changes = rng.choice([-1, 1], size) * (rng.random(size) < CHANGED_SHARE) * math.log1p(CHANGE)
        base, head = draw_logistic(rng, (2, size, BATCH_PAIRS), spreads[:, None])
        head = head + changes[:, None]
        if member == "constant":
            base[-1] = head[-1] = 0.0
        elif member == "thirty times noisier":
            base[-1], head[-1] = draw_logistic(rng, (2, BATCH_PAIRS), 30 * 0.0126)
        elif member == "two modes, 40 % apart":
            base[-1], head[-1] = 0.34 * (rng.random((2, BATCH_PAIRS)) < 0.5)
        elif member == "slower by 60 %":
            head[-1] = base[-1] + math.log(1.6)
        return cls(base, head, spreads, changes)

    def judge(self, members: int, *, is_swapped: bool = False) -> list[dict[str, Any]]:
        """Answers to the first members, as one group."""
        sides = (self.head, self.base) if is_swapped else (self.base, self.head)
        base, head = (np.exp(side)[:, :, None].tolist() for side in sides)
        documents = [{"group": "all", "base": base[k], "head": head[k]} for k in range(members)]
        return judge_comparisons(documents)


@dataclass
class BatchTally:
    """Counts over batches of one kind; the odd member itself counts nowhere but in symmetry."""

    false_shares: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    covered_noisy: list[bool] = field(default_factory=list)
    asymmetric: int = 0
    flipped: int = 0
    compared: int = 0

    def add(self, batch: Batch, has_odd_member: bool) -> None:
        size = len(batch.spreads)
        normal = size - has_odd_member
        answers, mirrored = batch.judge(size), batch.judge(size, is_swapped=True)
        self.asymmetric += sum(
            not is_mirrored(answer, other) for answer, other in zip(answers, mirrored, strict=True)
        )
        moves = [k for k in range(normal) if answers[k]["verdict"] in MIRRORED]
        self.false_shares.append(sum(batch.changes[k] == 0 for k in moves) / max(len(moves), 1))
        is_covered = [interval_holds_ratio(answers[k], math.exp(batch.changes[k])) for k in range(normal)]
        self.covered += is_covered
        noisy = np.quantile(batch.spreads[:normal], 0.8)
        self.covered_noisy += [is_covered[k] for k in range(normal) if batch.spreads[k] >= noisy]
        if has_odd_member:
            alone = batch.judge(normal)
            self.flipped += sum(answers[k]["verdict"] != alone[k]["verdict"] for k in range(normal))
        self.compared += normal

    def extend(self, other: BatchTally) -> None:
        """Count the batches of another one too."""
        self.false_shares += other.false_shares
        self.covered += other.covered
        self.covered_noisy += other.covered_noisy
        self.asymmetric += other.asymmetric
        self.flipped += other.flipped
        self.compared += other.compared

    def format_cells(self) -> list[str]:
        shares = [float(np.mean(values)) for values in (self.false_shares, self.covered, self.covered_noisy)]
        flipped = format_share(self.flipped / self.compared)
        return [f"{len(self.false_shares):,}", *map(format_share, shares), str(self.asymmetric), flipped]


def is_mirrored(answer: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two answers say the same of base and head as of head and base."""
    is_same_verdict = MIRRORED.get(answer["verdict"], answer["verdict"]) == other["verdict"]
    return is_same_verdict and math.isclose(answer["ratio"] * other["ratio"], 1.0, rel_tol=1e-9)


def sweep_batches(comparisons: int) -> SweepTable:
    """Groups of benchmarks that are judged together, one of them unlike the others."""
    table = SweepTable(
        "Batches",
        f"Of {CHANGED_SHARE:.0%} changes by {CHANGE:.0%}: at most 5 % of the moves of a batch are false (mean"
        " over batches). Intervals cover at least 93 %, over all sizes those of the noisiest fifth too. Every"
        " verdict is mirrored where base and head are. The odd member changes at most 1 % of the other"
        " verdicts.",
        [
            "odd member",
            "group of",
            "batches",
            "false moves",
            "coverage",
            "noisiest fifth",
            "asymmetric",
            "flipped",
        ],
    )
    for number, member in enumerate(MEMBERS):
        everything = BatchTally()
        for size in BATCH_SIZES:
            rng = np.random.default_rng([SEED, 5, number, size])
            tally = BatchTally()
            for _ in range(max(comparisons // size, 3)):
                tally.add(Batch.simulate(rng, size, member), member != "none")
            everything.extend(tally)
            table.rows.append([member, str(size), *tally.format_cells()])
            row = f"{member}, group of {size}:"
            table.require_at_most(float(np.mean(tally.false_shares)), WRONG_LIMIT, f"{row} false moves")
            table.require_share_at_least(sum(tally.covered), tally.compared, 0.93, f"{row} coverage")
            table.require_at_most(tally.asymmetric, 0, f"{row} asymmetric")
            table.require_share_at_most(tally.flipped, tally.compared, 0.01, f"{row} flipped")
        table.rows.append([member, "**any**", *everything.format_cells()])
        noisy, row = everything.covered_noisy, f"{member}: coverage of the noisiest fifth"
        table.require_share_at_least(sum(noisy), len(noisy), 0.93, row)
    return table
