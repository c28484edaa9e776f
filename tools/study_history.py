"""Replay change-free histories point by point, and see how often the detector of changes would have spoken.

Run as ``python -m tools.study_history``; ``--page docs/studies/history-study.md`` puts the figures into
that page. It fails when a kind of noise makes more than one page per thousand points, at the exact upper 95
% limit of a Poisson count. Real A/A measurements are replayed too where ``../shared/data/changepoints`` is
present.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from perfci.demo.machine_noise import FRESH_PAIRS
from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.stats.incremental_segmentation import MIN_POINTS, SegmentedSeries, update_segmentations
from tools.write_study_page import describe_circumstances, replace_figures

SEED = 20_261_207
SERIES, POINTS = 20, 500
STEPS, STEP_POINTS, AFTER = 24, 130, 30
"""Series with a step per kind, how long they are, and after how many points of the new level it counts as
missed.
"""
RETESTS = 20
"""Retests that a line has runs for."""
SAME_PLACE = 5
"""Points within which two reports are one, and a report is of the step: the margin of the study of
detection.
"""
WANTED = 1.0
"""Pages per thousand points at the upper 95 % limit."""
PEER_SERIES, PEER_POINTS, PEER_TAIL = 6, 150, 50
DATA = Path(__file__).parents[2] / "shared" / "data" / "changepoints"

Rng = np.random.Generator
Logs = NDArray[np.float64]


# ------------------------------------------------------------------ kinds of noise, as logs


def draw_spreads(series: int) -> Logs:
    """From a quiet GPU kernel to a busy runner, in turn."""
    return np.resize([0.003, 0.01, 0.02, 0.04], series)[:, None]


def white_noise(rng: Rng, series: int, points: int) -> Logs:
    return rng.normal(0, draw_spreads(series), (series, points))


def heavy_tailed_noise(rng: Rng, series: int, points: int) -> Logs:
    return 0.8 * draw_spreads(series) * rng.standard_t(2.5, (series, points))


def spiky_noise(rng: Rng, series: int, points: int) -> Logs:
    hit = rng.random((series, points)) < 0.05
    return white_noise(rng, series, points) + hit * rng.uniform(0.1, 1.2, (series, points))


def autocorrelated_noise(rng: Rng, series: int, points: int) -> Logs:
    line = white_noise(rng, series, points)
    for at in range(1, points):
        line[:, at] = 0.6 * line[:, at - 1] + 0.8 * line[:, at]
    return line


def drifting_noise(rng: Rng, series: int, points: int) -> Logs:
    """Slow waves of 3 % from crest to trough, up to five in 500 points."""
    turns, phase = rng.uniform(1, 5, (series, 1)), rng.random((series, 1))
    return white_noise(rng, series, points) + 0.015 * np.sin(
        2 * np.pi * (turns * np.arange(points) / 500 + phase)
    )


def changing_spread_noise(rng: Rng, series: int, points: int) -> Logs:
    return white_noise(rng, series, points) * np.where(np.arange(points) // 100 % 2, 0.4, 1.6)


def coarse_clock_noise(rng: Rng, series: int, points: int) -> Logs:
    return np.round(white_noise(rng, series, points) / 0.02) * 0.02


def two_mode_noise(rng: Rng, series: int, points: int) -> Logs:
    """Each run lands in either of two modes."""
    high = rng.random((series, points)) < rng.uniform(0.1, 0.45, (series, 1))
    return white_noise(rng, series, points) / 2 + high * rng.uniform(0.03, 0.12, (series, 1))


def hosted_runner_noise(rng: Rng, series: int, points: int) -> Logs:
    """Each run lands on one of two to four kinds of machine, 15 to 60 % apart."""
    levels = np.cumsum(rng.uniform(0.15, 0.5, (series, 4)), axis=1)
    drawn = (rng.random((series, points)) * rng.integers(2, 5, (series, 1))).astype(int)
    return white_noise(rng, series, points) + np.take_along_axis(levels, drawn, axis=1)


def sticky_state_noise(rng: Rng, series: int, points: int) -> Logs:
    """A state of the machine lasts seven runs, and is 3 to 10 % from the other."""
    return _states(rng, series, points, stay=0.85, gap=(0.03, 0.10))


def long_state_noise(rng: Rng, series: int, points: int) -> Logs:
    """A state of the machine lasts fourteen runs, and is 6 to 20 % from the other."""
    return _states(rng, series, points, stay=0.93, gap=(0.06, 0.20))


def _states(rng: Rng, series: int, points: int, stay: float, gap: tuple[float, float]) -> Logs:
    state = np.cumsum(rng.random((series, points)) > stay, axis=1) % 2
    return white_noise(rng, series, points) / 2 + state * rng.uniform(*gap, (series, 1))


Noise = Callable[[Rng, int, int], Logs]

KINDS: Mapping[str, Noise] = {
    "white": white_noise,
    "heavy tails": heavy_tailed_noise,
    "spikes": spiky_noise,
    "autocorrelated": autocorrelated_noise,
    "drifting": drifting_noise,
    "changing spread": changing_spread_noise,
    "coarse clock": coarse_clock_noise,
    "two modes": two_mode_noise,
    "hosted runner": hosted_runner_noise,
    "sticky states": sticky_state_noise,
    "long states": long_state_noise,
}
LASTING = {"sticky states", "long states"}
"""Levels that really last, though no commit made them: only measuring a commit beside its parent tells."""


def simulate_change_free(kind: str, rng: Rng, series: int, points: int) -> Logs:
    """Histories of one commit after the other that change nothing, in seconds."""
    return np.exp(KINDS[kind](rng, series, points) + rng.uniform(-7, 7, (series, 1)))


def seed_generator(kind: str, *more: int) -> Rng:
    return np.random.default_rng([SEED, list(KINDS).index(kind), *more])


# ------------------------------------------------------------------ replaying


@dataclass(frozen=True)
class ReportedMove:
    """A move that was told of one line: where it was said to be, and after how many points."""

    line: int
    index: int
    after: int


def replay_detection(lines: Sequence[Logs]) -> Iterator[ReportedMove]:
    """Every move the detector tells for the first time as the points of some lines arrive one by one."""
    segmented_series = [SegmentedSeries(np.empty(0)) for _ in lines]
    seen: list[list[int]] = [[] for _ in lines]
    for end in range(MIN_POINTS, max(map(len, lines)) + 1):
        segmented_series = update_segmentations(segmented_series, [line[:end] for line in lines])
        for row, line in enumerate(segmented_series):
            for step in line.change_points:
                if len(lines[row]) >= end and is_new_change(step.index, seen[row]):
                    seen[row].append(step.index)
                    yield ReportedMove(row, step.index, end)


def is_new_change(index: int, seen: Sequence[int]) -> bool:
    return all(abs(index - other) > SAME_PLACE for other in seen)


def is_confirmed_by_retest(fresh: Sequence[Logs]) -> list[bool]:
    """Whether fresh pairs of a commit and its parent confirm it, as before every page: two runs each, in
    turns.
    """
    cases = []
    for runs in fresh:
        first, second = runs[::2], runs[1::2]
        swapped = np.arange(FRESH_PAIRS) % 2 == 1
        base, head = np.where(swapped, second, first), np.where(swapped, first, second)
        cases.append({"base": base[:, None].tolist(), "head": head[:, None].tolist()})
    answers = judge_cases_json({"op": "compare", "cases": cases})["results"]
    return [answer["verdict"] in ("regression", "improvement") for answer in answers]


def simulate_fresh_runs(line: Logs, number: int) -> Logs:
    """What is measured for one more retest: the line's own noise, which goes on meanwhile."""
    begin = POINTS + 2 * FRESH_PAIRS * (number % RETESTS)
    return line[begin : begin + 2 * FRESH_PAIRS]


@dataclass(frozen=True)
class Replay:
    """What one kind of change-free noise came to, and what steps in it did."""

    name: str
    points: int
    told: int
    pages: int | None = None
    steps: int = 0
    delays: tuple[int, ...] = ()
    us_per_point: float = 0.0

    @property
    def lasting(self) -> bool:
        return self.name in LASTING

    @property
    def hit(self) -> float:
        return len(self.delays) / self.steps if self.steps else math.nan

    @property
    def delay(self) -> float:
        return (
            statistics.median([*self.delays, *[AFTER] * (self.steps - len(self.delays))])
            if self.steps
            else math.nan
        )


def poisson_upper_limit(events: int, points: int) -> float:
    """The exact upper 95 % limit of a Poisson rate, per thousand points (Garwood 1936)."""
    return float(1000 * chi2.ppf(0.95, 2 * (events + 1)) / 2 / points)


def study_noise_kind(kind: str, series: int = SERIES) -> Replay:
    """Change-free histories of one kind, each move that was told retested; then the same with a step in
    each.
    """
    lines = simulate_change_free(kind, seed_generator(kind, 1), series, POINTS + 2 * FRESH_PAIRS * RETESTS)
    begin = time.perf_counter()
    result = list(replay_detection(list(lines[:, :POINTS])))
    took, points = time.perf_counter() - begin, series * POINTS
    pages = sum(
        is_confirmed_by_retest(
            [simulate_fresh_runs(lines[item.line], number) for number, item in enumerate(result)]
        )
    )
    return Replay(
        kind, points, len(result), pages, STEPS, tuple(list_detection_delays(kind)), 1e6 * took / points
    )


def list_detection_delays(kind: str) -> list[int]:
    """How many points of the new level had been seen when a step of 6 to 20 % was told, of those that
    were.
    """
    rng = seed_generator(kind, 3)
    at = rng.integers(60, STEP_POINTS - AFTER, STEPS)
    effect = np.log1p(rng.uniform(0.06, 0.20, STEPS)) * rng.choice([-1, 1], STEPS)
    after = np.arange(STEP_POINTS) >= at[:, None]
    lines = simulate_change_free(kind, rng, STEPS, STEP_POINTS) * np.exp(after * effect[:, None])
    result: dict[int, int] = {}
    for report in replay_detection([line[: place + AFTER] for line, place in zip(lines, at, strict=True)]):
        if abs(report.index - at[report.line]) <= SAME_PLACE and report.after > at[report.line]:
            result.setdefault(report.line, report.after - int(at[report.line]))
    return list(result.values())


# ------------------------------------------------------------------ real A/A


def replay_real_histories(data: Path = DATA) -> Iterator[Replay]:
    """Measurements of unchanged code; forks of one benchmark have no order, so one is drawn."""
    if not data.is_dir():
        return
    rng = np.random.default_rng([SEED, 99])
    forks = [np.concatenate(row["forks"]) for row in read_json_lines(data / "jmh_forks.jsonl")]
    yield replay_histories("real: JMH forks, A/A", [rng.permutation(line) for line in forks])
    quiet = [row for row in read_json_lines(data / "semireal.jsonl") if not row["must"] and not row["ignore"]]
    quiet += [row for row in read_json_lines(data / "real.jsonl") if not row["must"] and not row["ignore"]]
    yield replay_histories("real: histories without a change", [np.array(row["values"]) for row in quiet])


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def replay_histories(name: str, lines: Sequence[Logs]) -> Replay:
    begin = time.perf_counter()
    result, points = sum(1 for _ in replay_detection(lines)), sum(map(len, lines))
    return Replay(name, points, result, us_per_point=1e6 * (time.perf_counter() - begin) / points)


# ------------------------------------------------------------------ peers on the same series

Detector = Callable[[Logs], list[int]]


def load_peer_detectors() -> dict[str, Detector | str]:
    """Each detector of others as it comes, with the size bar that ours has; or why it is not here."""
    result: dict[str, Detector | str] = {}
    makers = {
        "KernelCPD": ("ruptures", build_kernel_cpd_detector),
        "Otava": ("otava.analysis", build_otava_detector),
        "asv": ("asv.step_detect", build_asv_detector),
    }
    for name, (module, maker) in makers.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result[name] = maker(importlib.import_module(module))
        except ImportError as missing:
            result[name] = f"not measured: {missing}"
    return result


def build_kernel_cpd_detector(ruptures: Any) -> Detector:
    """The best of the detectors that were there, as in the study: penalty 1.5 log n on logs in units of the
    noise.
    """

    def detect(values: Logs) -> list[int]:
        logs = np.log(values)
        changes = np.diff(logs)
        sigma = 1.4826 * float(np.median(np.abs(changes - np.median(changes)))) / math.sqrt(2)
        scaled = np.clip((logs - np.median(logs)) / max(sigma, 1e-9), -1e4, 1e4).reshape(-1, 1)
        model = ruptures.KernelCPD(kernel="rbf", min_size=2).fit(scaled)
        return drop_small_changes(values, model.predict(pen=1.5 * math.log(len(values)))[:-1])

    return detect


def build_otava_detector(analysis: Any) -> Detector:
    def detect(values: Logs) -> list[int]:
        result, _ = analysis.compute_change_points(
            values.tolist(), window_len=50, max_pvalue=0.001, min_magnitude=0.05
        )
        return [int(item.index) for item in result]

    return detect


def build_asv_detector(step_detect: Any) -> Detector:
    def detect(values: Logs) -> list[int]:
        return drop_small_changes(
            values, [int(step[0]) for step in step_detect.detect_steps(values.tolist())[1:]]
        )

    return detect


def drop_small_changes(values: Logs, changes: Sequence[int]) -> list[int]:
    """Drop the smallest change until every one left is one of 5 % between the medians of its sides."""
    kept = list(changes)
    while kept:
        edges = [0, *kept, len(values)]
        levels = [math.log(np.median(values[item:other])) for item, other in itertools.pairwise(edges)]
        sizes = np.abs(np.diff(levels))
        if sizes.min() >= math.log(1.05):
            break
        del kept[int(sizes.argmin())]
    return kept


@dataclass
class Peer:
    """What one detector came to on the series that all of them saw."""

    name: str
    why_not: str = ""
    told: int = 0
    points: int = 0
    seconds: float = 0.0
    looks: int = 0


def compare_with_peers() -> list[Peer]:
    """The tails of the same change-free series, each looked at again at every point, by ours and by those
    of others.
    """
    ours = Peer("perfci")
    result = [ours] + [
        Peer(name, item if isinstance(item, str) else "") for name, item in load_peer_detectors().items()
    ]
    detectors = {name: item for name, item in load_peer_detectors().items() if not isinstance(item, str)}
    for kind in KINDS:
        for line in simulate_change_free(kind, seed_generator(kind, 4), PEER_SERIES, PEER_POINTS):
            replay_tail(ours, line, growing_detector())
            for peer in result[1:]:
                if peer.name in detectors:
                    replay_tail(peer, line, detectors[peer.name])
    return result


def growing_detector() -> Detector:
    """Ours as it is used: it keeps what it knows of a line."""
    line = SegmentedSeries(np.empty(0))

    def detect(values: Logs) -> list[int]:
        nonlocal line
        (line,) = update_segmentations([line], [values])
        return [step.index for step in line.change_points]

    return detect


def replay_tail(peer: Peer, line: Logs, detect: Detector) -> None:
    """Count the new moves of the last points; what was told before is not new."""
    begin = PEER_POINTS - PEER_TAIL
    seen = detect(line[:begin])
    for end in range(begin + 1, PEER_POINTS + 1):
        since = time.perf_counter()
        result = detect(line[:end])
        peer.seconds += time.perf_counter() - since
        new = [index for index in result if is_new_change(index, seen)]
        seen += new
        peer.told += len(new)
        peer.looks += 1
        peer.points += 1


# ------------------------------------------------------------------ telling

HEADINGS = (
    "noise",
    "points",
    "told",
    "told per 1000 (at most)",
    "pages per 1000 (at most)",
    "steps told",
    "median delay",
    "us a point",
)


@dataclass(frozen=True)
class Study:
    replays: Sequence[Replay]
    peers: Sequence[Peer] = field(default_factory=list)

    def summed(self, name: str, some: Sequence[Replay]) -> Replay:
        pages = sum(item.told if item.pages is None else item.pages for item in some)
        delays = tuple(delay for item in some for delay in item.delays)
        points = sum(item.points for item in some)
        us = sum(item.us_per_point * item.points for item in some) / max(points, 1)
        return Replay(
            name, points, sum(item.told for item in some), pages, sum(item.steps for item in some), delays, us
        )

    @property
    def totals(self) -> list[Replay]:
        passing = [replay for replay in self.replays if not replay.lasting]
        return [self.summed("**all but lasting states**", passing), self.summed("**all**", self.replays)]

    @property
    def broken(self) -> list[str]:
        """Every promise that was not held."""
        paged = [replay for replay in [*self.replays, *self.totals] if replay.pages is not None]
        messages = [
            replay
            for replay in [*self.replays, self.totals[0]]
            if not replay.lasting and has_enough_points(replay)
        ]
        return [
            *(
                f"{item.name}: pages at most {poisson_upper_limit(item.pages or 0, item.points):.2f} per 1000"
                for item in paged
                if poisson_upper_limit(item.pages or 0, item.points) > WANTED
            ),
            *(
                f"{message.name}: told at most "
                f"{poisson_upper_limit(message.told, message.points):.2f} per 1000"
                for message in messages
                if poisson_upper_limit(message.told, message.points) > WANTED
            ),
        ]


def has_enough_points(replay: Replay) -> bool:
    """Whether not a single event would show the limit to be held."""
    return poisson_upper_limit(0, replay.points) <= WANTED


def format_replay_row(replay: Replay) -> str:
    pages = "" if replay.pages is None else format_rate(replay.pages, replay.points)
    steps = (f"{100 * replay.hit:.0f} %", f"{replay.delay:.0f}") if replay.steps else ("", "")
    cells = (
        replay.name,
        f"{replay.points:,}",
        str(replay.told),
        format_rate(replay.told, replay.points),
        pages,
        *steps,
    )
    return f"| {' | '.join(cells)} | {replay.us_per_point:.0f} |"


def format_rate(events: int, points: int) -> str:
    return f"{1000 * events / points:.2f} ({poisson_upper_limit(events, points):.2f})"


def format_peer_row(peer: Peer) -> str:
    if peer.why_not:
        return f"| {peer.name} | {peer.why_not} | | |"
    text = f"{peer.told} | {1000 * peer.told / peer.points:.1f}"
    return f"| {peer.name} | {text} | {1000 * peer.seconds / peer.looks:.2f} |"


def format_tables(result: Study, load: float) -> str:
    body = [
        f"{describe_circumstances(load)}, seed {SEED}.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        "|" + "---|" * len(HEADINGS),
        *map(format_replay_row, [*result.replays, *result.totals]),
    ]
    if result.peers:
        points = f"{result.peers[0].points:,}"
        body += [
            "",
            f"Beside others, on the last {PEER_TAIL} points of {PEER_SERIES} series of every kind "
            f"({points} points), "
            "nothing retested:",
            "",
            "| detector | told | per 1000 | ms a look |",
            "|---|---|---|---|",
            *map(format_peer_row, result.peers),
        ]
    return "\n".join(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=SERIES, help="of every kind; fewer show less")
    parser.add_argument("--no-peers", action="store_true", help="leave out the detectors of others")
    parser.add_argument("--page", type=Path, help="a page to put the figures into")
    chosen = parser.parse_args()
    load, replays = os.getloadavg()[0], []
    for kind in KINDS:
        replays.append(study_noise_kind(kind, chosen.series))
        print(format_replay_row(replays[-1]), flush=True)
    for item in replay_real_histories():
        replays.append(item)
        print(format_replay_row(item), flush=True)
    result = Study(replays, [] if chosen.no_peers else compare_with_peers())
    report = format_tables(result, load)
    print(report)
    if chosen.page:
        replace_figures(chosen.page, report)
    sys.exit("\n".join(result.broken) or 0)


if __name__ == "__main__":
    main()
