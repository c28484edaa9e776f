"""Simulate comparisons that buy pairs where they decide, beside fixed numbers of pairs and plain looks.

Run as ``python -m tools.study_adaptive_pairs``; it prints the table of docs/studies/adaptive-study.md: how
many pairs our looks spend at each noise of the processes, how often they are right, and how many pairs a
fixed number needs to be right as often. It fails when our looks err more than promised, need more pairs
anywhere than a fixed number that is right as often, or save less than 40 % over all noises together, since
a fixed number has to be chosen before the noise is known.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.number_format import format_percent
from perfci.stats.group_sequential import nominal_look_levels
from tools.write_study_page import describe_circumstances, replace_figures

PROCESS_SDS = (0.005, 0.01, 0.02, 0.04)
EFFECTS = (-0.10, 0.0, 0.02, 0.08, 0.10, 0.20)
"""True changes that have a right answer; at the bar itself none is wrong."""

BAR = 0.05
MOOD_SD, SAMPLE_SD, SAMPLES = 0.03, 0.01, 15
"""What both processes of a pair share, what one process varies by inside, and how many samples it has."""

HICCUPS = 0.05
"""How many processes something else holds up, by 10 to 40 %, on a machine that has hiccups."""

MOST = 20
LOOKS = tuple(range(5, 21))
FIXED = (*range(5, 21), 24, 28, 32, 40, 48, 64)
MOST_WRONG = 0.04
LEAST_SAVED, MOST_LOST = 0.4, 0.1


@dataclass(frozen=True)
class Answer:
    """What a way of comparing said of one case, and the pairs it took."""

    word: str
    pairs: int


@dataclass(frozen=True)
class Case:
    """Samples in seconds, [pair][sample], of both sides."""

    effect: float
    base: list[list[float]]
    head: list[list[float]]

    @property
    def right(self) -> str:
        if abs(self.effect) < BAR:
            return "unchanged"
        return "regression" if self.effect > 0 else "improvement"

    def first(self, pairs: int) -> dict[str, Any]:
        return {"base": self.base[:pairs], "head": self.head[:pairs]}


def simulate_cases(process_sd: float, hiccups: float, count: int, seed: int) -> Iterator[Case]:
    dice = np.random.default_rng([seed, round(process_sd * 1e4), round(hiccups * 1e4)])
    for effect in EFFECTS:
        for _ in range(count):
            mood = dice.normal(0, MOOD_SD, FIXED[-1])
            levels = [
                shift + mood + simulate_process_noise(dice, process_sd, hiccups)
                for shift in (0.0, math.log1p(effect))
            ]
            sides = [
                np.exp(level[:, None] + dice.normal(0, SAMPLE_SD, (FIXED[-1], SAMPLES))) for level in levels
            ]
            yield Case(effect, sides[0].tolist(), sides[1].tolist())


def simulate_process_noise(dice: np.random.Generator, process_sd: float, hiccups: float) -> np.ndarray:
    """What each process of a side has to itself."""
    held_up = np.log1p(dice.uniform(0.1, 0.4, FIXED[-1])) * (dice.random(FIXED[-1]) < hiccups)
    return np.asarray(dice.normal(0, process_sd, FIXED[-1]) + held_up)


# ------------------------------------------------------------------ ways of comparing

Way = Callable[[Sequence[Case]], list[Answer]]


def judge_adaptively(asked: Sequence[Case]) -> list[Answer]:
    """``perfci judge``, which asks for more pairs until it knows enough."""
    pairs = dict.fromkeys(range(len(asked)), LOOKS[0])
    answers: dict[int, Answer] = {}
    while open_ones := [k for k in pairs if k not in answers]:
        verdicts = judge_cases_json(
            {
                "op": "decide",
                "min_effect": BAR,
                "max_pairs": MOST,
                "cases": [{"id": k, **asked[k].first(pairs[k])} for k in open_ones],
            }
        )
        for result in verdicts["results"]:
            if result["decision"] == "more":
                pairs[result["id"]] += result["more_pairs"]
            else:
                answers[result["id"]] = Answer(result["decision"], pairs[result["id"]])
    return [answers[k] for k in range(len(asked))]


def judge_fixed_pairs(pairs: int) -> Way:
    """The same rule, looked at once."""

    def way(asked: Sequence[Case]) -> list[Answer]:
        documents = [{"id": k, **case.first(pairs)} for k, case in enumerate(asked)]
        verdicts = judge_cases_json({"op": "compare", "min_effect": BAR, "cases": documents})
        return [Answer(result["verdict"], pairs) for result in verdicts["results"]]

    return way


def judge_at_pocock_looks(asked: Sequence[Case]) -> list[Answer]:
    """Student's t of the pairs at the same looks, each at the level that Pocock-like spending by pairs
    leaves it.
    """
    levels = nominal_look_levels(tuple(look / MOST for look in LOOKS))
    return [_first_settled(_log_ratios(case), levels) for case in asked]


def _log_ratios(case: Case) -> np.ndarray:
    base, head = (np.log(np.median(np.asarray(side), axis=1)) for side in (case.base, case.head))
    return np.asarray(head - base)


def _first_settled(ratios: np.ndarray, levels: Sequence[float]) -> Answer:
    for look, level in zip(LOOKS, levels, strict=True):
        word = _rule_m(ratios[:look], level)
        if word != "inconclusive":
            return Answer(word, look)
    return Answer("inconclusive", LOOKS[-1])


def _rule_m(ratios: np.ndarray, level: float) -> str:
    centre = float(ratios.mean())
    half = float(student.ppf(1 - level, len(ratios) - 1) * ratios.std(ddof=1) / math.sqrt(len(ratios)))
    bar, null = math.log1p(BAR), math.log1p(BAR / 2)
    if abs(centre) >= bar and abs(centre) - half > null:
        return "regression" if centre > 0 else "improvement"
    return "unchanged" if abs(centre) + half < bar else "inconclusive"


# ------------------------------------------------------------------ what comes out


@dataclass(frozen=True)
class Score:
    """Shares of all cases, and the mean number of pairs."""

    right: float
    wrong: float
    pairs: float

    @classmethod
    def of(cls, way: Way, asked: Sequence[Case]) -> Score:
        answers = way(asked)
        right = [answer.word == case.right for answer, case in zip(answers, asked, strict=True)]
        undecided = [answer.word == "inconclusive" for answer in answers]
        wrong = 1 - np.mean(right) - np.mean(undecided)
        return cls(float(np.mean(right)), float(wrong), float(np.mean([answer.pairs for answer in answers])))


@dataclass(frozen=True)
class Row:
    """One noise of the processes: our looks, plain looks, and fixed numbers of pairs."""

    noise: str
    ours: Score
    plain: Score
    fixed: Mapping[int, Score]

    @property
    def as_good(self) -> int | None:
        """The smallest fixed number that is right as often as our looks."""
        return next((pairs for pairs, score in self.fixed.items() if score.right >= self.ours.right), None)

    @property
    def saved(self) -> float:
        return 1 - self.ours.pairs / (self.as_good or max(self.fixed))

    def good(self, least_saved: float) -> bool:
        return self.ours.wrong <= MOST_WRONG and self.saved >= least_saved


def simulate_row(process_sd: float, hiccups: float, count: int, seed: int) -> Row:
    request = list(simulate_cases(process_sd, hiccups, count, seed))
    scores = {pairs: Score.of(judge_fixed_pairs(pairs), request) for pairs in FIXED}
    name = format_percent(process_sd) + (", hiccups" if hiccups else "")
    return Row(name, Score.of(judge_adaptively, request), Score.of(judge_at_pocock_looks, request), scores)


def average_rows(rows: Sequence[Row]) -> Row:
    """All noises, each as often as any other."""
    scores = {pairs: mean_scores([row.fixed[pairs] for row in rows]) for pairs in FIXED}
    return Row(
        "**all**", mean_scores([row.ours for row in rows]), mean_scores([row.plain for row in rows]), scores
    )


def mean_scores(scores: Sequence[Score]) -> Score:
    return Score(*(float(np.mean(column)) for column in zip(*map(astuple, scores), strict=True)))


HEADINGS = (
    "sd of processes",
    "our looks: right, wrong",
    "pairs",
    "plain looks (t, Pocock): right",
    "pairs",
    "fixed 5",
    "fixed 12",
    "fixed 20",
    "as often right as ours",
    "pairs saved",
)


def format_table(rows: Sequence[Row]) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    return "\n".join([*lines, *(f"| {' | '.join(format_row(row))} |" for row in rows)])


def format_row(row: Row) -> tuple[str, ...]:
    return (
        row.noise,
        f"{format_percent(row.ours.right)}, {format_percent(row.ours.wrong)}",
        f"{row.ours.pairs:.1f}",
        format_percent(row.plain.right),
        f"{row.plain.pairs:.1f}",
        *(format_percent(row.fixed[pairs].right) for pairs in (5, 12, 20)),
        f"fixed {row.as_good}" if row.as_good else f"none up to {max(row.fixed)}",
        format_percent(row.saved),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="of every true change at every noise")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument(
        "--page", type=Path, help="write the table into this page too, such as docs/studies/adaptive-study.md"
    )
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rows = []
    for hiccups, process_sd in itertools.product((0.0, HICCUPS), PROCESS_SDS):
        rows.append(simulate_row(process_sd, hiccups, options.cases, options.seed))
        print(format_table(rows).splitlines()[-1], flush=True)
    everything = average_rows(rows)
    count = options.cases * len(EFFECTS)
    figures = f"{describe_circumstances(load)}; {count} cases a row:\n\n{format_table([*rows, everything])}"
    print(f"\n{figures}")
    if options.page:
        replace_figures(options.page, figures)
    sys.exit(0 if everything.good(LEAST_SAVED) and all(row.good(-MOST_LOST) for row in rows) else 1)


if __name__ == "__main__":
    main()
