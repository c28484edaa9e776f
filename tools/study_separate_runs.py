"""How often is a head that changed nothing called worse, and what step is found, where runs are separate?

Run as ``python -m tools.study_separate_runs``; ``--page docs/studies/separate-runs.md`` puts the tables into
that page. Real histories are replayed (``../shared/data``, not part of this repository): points by lot are
the head, compared with the points before them since the last change point that these show. It fails when more
than 1 % of the comparisons in which nothing moved call a regression.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from perfci.model import Environment, Status, Verdict, VerdictKind
from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.shift_between_runs import MIN_BASE_RUNS
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.compare.separate_runs import (
    MAX_BASE_RUNS,
    RecordedRun,
    UploadedResult,
    separate_runs_verdict,
)
from tests.support.builders import NOON, a_series
from tools.study_django import ARCHIVE, History, find_calls, load_histories
from tools.study_history import DATA, KINDS, read_json_lines, seed_generator, simulate_change_free
from tools.write_study_page import replace_figures

BAR = 0.05
STEPS = (0.0, 0.05, 0.08, 0.12, 0.2, 0.3)
SEED = 20_261_127
UPLOADS_PER_PLACE = 20
HEADS_PER_SERIES = 12
SIMULATED_HEADS = 300
NEAR = 5
"""Points that a head lies at least from a change of its history, for nothing to have moved there."""
MAX_FALSE_REGRESSIONS = 0.01

Levels = Sequence[float]


@dataclass
class Tally:
    """Verdicts counted by kind, of comparisons of one step; ``red`` heads have at least one regression."""

    kinds: Counter[VerdictKind] = field(default_factory=Counter)
    heads: int = 0
    red: int = 0

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    def share(self, *kinds: VerdictKind) -> float:
        return sum(self.kinds[kind] for kind in kinds) / self.total if self.total else 0.0

    def add(self, verdicts: Sequence[Verdict]) -> None:
        self.kinds.update(verdict.kind for verdict in verdicts)
        self.heads += 1
        self.red += any(verdict.kind is VerdictKind.REGRESSION for verdict in verdicts)


@dataclass(frozen=True)
class Head:
    """The runs before one point of a history at its level, and the points that are taken for the head."""

    name: str
    base: Levels
    head: Levels


def judge_head(item: Head, step: float) -> Verdict:
    """Judge the head as if it were slower by a step."""
    runs = [
        RecordedRun(
            str(number),
            NOON + timedelta(hours=number),
            Environment(),
            (UploadedResult(number, Status.OK, level),),
        )
        for number, level in enumerate([*item.base, *(level * (1 + step) for level in item.head)])
    ]
    places = len(item.base)
    return separate_runs_verdict(a_series(item.name), "base", "head", runs[:places], runs[places:])


def tally_uploads(uploads: Sequence[Sequence[Head]]) -> dict[float, Tally]:
    """Judge whole uploads, of several series each, with control of the false discovery rate, for each step;
    every tenth series of an upload has it."""
    tallies = {step: Tally() for step in STEPS}
    for heads in uploads:
        unmoved = [judge_head(item, 0.0) for item in heads]
        for step, tally in tallies.items():
            moved = range(0, len(heads), 10 if step else 1)
            verdicts = list(unmoved)
            if step:
                for number in moved:
                    verdicts[number] = judge_head(heads[number], step)
            controlled = control_false_discoveries(verdicts, FALSE_DISCOVERY_RATE)
            tally.add([controlled[number] for number in moved])
    return tallies


# ------------------------------------------------------------------ real histories


def draw_django_uploads(histories: Sequence[History], runs: int) -> list[list[Head]]:
    """Commits of Django by lot, each with all benchmarks of one place where nothing moved near it."""
    changes = defaultdict(set)
    for call in find_calls(histories):
        changes[call.history.key].add(call.place)
    by_place = defaultdict(list)
    for history in histories:
        by_place[history.environment].append(history)
    lots = random.Random(SEED)
    uploads = []
    for _, some in sorted(by_place.items()):
        counts = Counter(sha for history in some for sha in history.shas)
        often = sorted(sha for sha, count in counts.items() if 2 * count >= len(some))
        for sha in lots.sample(often, min(UPLOADS_PER_PLACE, len(often))):
            quiet = [
                (history.key, history.levels, place)
                for history in some
                if (place := history.places.get(sha)) is not None
                and not any(abs(place - change) <= NEAR for change in changes[history.key])
            ]
            uploads.append(build_heads(quiet, runs))
    return [upload for upload in uploads if upload]


def draw_labelled_heads() -> list[list[Head]]:
    """Points by lot of the histories that a person labelled, away from every label; one series an upload."""
    lots = random.Random(SEED)
    heads = []
    for line in read_json_lines(DATA / "real.jsonl"):
        levels = line["values"]
        changed = [index for index, _ in line["must"]]
        changed += [index for first, last in line["ignore"] for index in range(first, last + 1)]
        quiet = [
            place
            for place in range(MIN_BASE_RUNS, len(levels))
            if all(abs(place - change) > NEAR for change in changed)
        ]
        for place in lots.sample(quiet, min(HEADS_PER_SERIES, len(quiet))):
            heads.append(build_heads([(line["id"], levels, place)], 1))
    return [head for head in heads if head]


def build_heads(places: Sequence[tuple[str, Levels, int]], runs: int) -> list[Head]:
    """Cut histories at a place, with the level that the points before it show."""
    places = [item for item in places if item[2] >= MIN_BASE_RUNS and item[2] + runs <= len(item[1])]
    if not places:
        return []
    steps = detect_change_points_in_many([levels[:place] for _, levels, place in places], BAR)
    heads = []
    for (name, levels, place), known in zip(places, steps, strict=True):
        start = max([0, *(step.index for step in known)])
        base = levels[max(start, place - MAX_BASE_RUNS) : place]
        head = levels[place : place + runs]
        if len(base) >= MIN_BASE_RUNS and min(*base, *head) > 0:
            heads.append(Head(name, base, head))
    return heads


# ------------------------------------------------------------------ simulated noise


def simulate_heads(kind: str, runs: int) -> Iterator[list[Head]]:
    """Histories of one kind of noise without a change, thirty runs each, and further runs as the head."""
    rng = seed_generator(kind)
    for line in simulate_change_free(kind, rng, SIMULATED_HEADS, MAX_BASE_RUNS + runs):
        levels = line.tolist()
        yield [Head(kind, levels[:MAX_BASE_RUNS], levels[MAX_BASE_RUNS:])]


# ------------------------------------------------------------------ tables


def format_row(name: str, uploads: Sequence[Sequence[Head]]) -> tuple[str, float]:
    tallies = tally_uploads(uploads)
    none = tallies[0.0]
    wrong = none.share(VerdictKind.REGRESSION)
    moves = [f"{100 * tallies[step].share(VerdictKind.REGRESSION):.0f} %" for step in STEPS[1:]]
    cells = [
        name,
        f"{none.total:,}",
        f"{100 * wrong:.2f} %",
        f"{100 * none.share(VerdictKind.IMPROVEMENT):.2f} %",
        f"{none.red} of {none.heads:,}",
        f"{100 * none.share(VerdictKind.UNCHANGED):.0f} %",
        *moves,
    ]
    return f"| {' | '.join(cells)} |", wrong


def format_tables() -> tuple[str, dict[str, float]]:
    names = ["", "comparisons", "false regressions", "false improvements", "heads with one", "unchanged"]
    heading = [*names, *(f"+{100 * step:.0f} % found" for step in STEPS[1:])]
    lines = [f"| {' | '.join(heading)} |", f"|---|{'--:|' * (len(heading) - 1)}"]
    wrong: dict[str, float] = {}
    sources: list[tuple[str, Sequence[Sequence[Head]]]] = []
    if ARCHIVE.exists():
        histories = load_histories()
        sources += [
            ("Django, one run of the head", draw_django_uploads(histories, 1)),
            ("Django, three runs", draw_django_uploads(histories, 3)),
        ]
    if DATA.exists():
        sources.append(("histories labelled by a person", draw_labelled_heads()))
    for kind in KINDS:
        for runs in (1, 3):
            sources.append((f"{kind}, {runs} run{'s' if runs > 1 else ''}", list(simulate_heads(kind, runs))))
    for name, uploads in sources:
        line, wrong[name] = format_row(name, uploads)
        print(line, flush=True)
        lines.append(line)
    return "\n".join(lines), wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="put the tables into this page")
    options = parser.parse_args(arguments)
    tables, wrong = format_tables()
    if options.page:
        replace_figures(options.page, tables)
    above = {name: share for name, share in wrong.items() if share > MAX_FALSE_REGRESSIONS}
    print(json.dumps({"false regressions above 1 %": above}) if above else "no source has more than 1 %")
    return 1 if any("Django" in name or "labelled" in name for name in above) else 0


if __name__ == "__main__":
    sys.exit(main())
