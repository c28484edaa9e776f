"""Look at what the detector calls in the published measurements of Django, one picture at a time.

Run as ``python -m tools.study_django``; ``--page docs/studies/django-calls.md`` draws the contact sheets anew
and puts the tables into that page. The measurements (``../shared/data/asv-django``, MIT licence) are not part
of this repository; what was judged of each picture is, in ``docs/studies/django-calls.csv``. It fails when
fewer than 95 % of the calls that were judged right are made, or more than 15 % of those judged wrong.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from perfci.formats.asv.asv_reader import read_imported_runs
from perfci.formats.format_types import ImportDefaults
from perfci.history.result_summaries import summarize_processes
from perfci.model import ChangePoint, Series
from perfci.number_format import format_signed_percent
from perfci.stats.incremental_segmentation import MIN_POINTS
from perfci.verdicts.history.change_points_and_jumps import find_change_points_in_levels
from tools.history_charts import Panel, draw_sheet, format_call
from tools.write_study_page import replace_figures

ROOT = Path(__file__).parent.parent
ARCHIVE = ROOT.parent / "shared" / "data" / "asv-django" / "results.tar.xz"
PLOTS = ROOT / "docs" / "studies" / "plots" / "django"
JUDGEMENTS = ROOT / "docs" / "studies" / "django-calls.csv"
PROJECT = "django"

SEED = 20_261_123
LOOKED_AT = 40
"""Largest calls, other calls by lot, and histories without a call by lot: so many pictures of each."""
PANELS_PER_SHEET = 10
NEAR = 2
"""Commits that a call may lie from where the level moves, or from another call of the same move."""
SIDE_POINTS = 15
"""Points either side that the move of the other benchmarks is subtracted from."""
LATE = timedelta(days=30)
"""Commits measured so long after they were written were merged long after, too: results know author dates
only, so such a point stands too far to the left."""

GROUPS = {
    "largest": f"the {LOOKED_AT} largest calls",
    "random": f"{LOOKED_AT} of the other calls, by lot",
    "quiet": f"{LOOKED_AT} histories without a call, by lot",
}
MIN_RIGHT_KEPT, MAX_WRONG_KEPT = 0.95, 0.15
"""Shares of the judged calls that have to be made, and may be."""

ANSWERS = ("right", "wrong", "cannot tell")


@dataclass(frozen=True)
class History:
    """One series: its measured commits by author date, the level of each, and when it was measured."""

    series: Series
    shas: Sequence[str]
    levels: Sequence[float]
    late: Sequence[bool]

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {sha: place for place, sha in enumerate(self.shas)}

    def find_place(self, prefix: str) -> int:
        """Place of the commit whose sha begins so."""
        return next(place for sha, place in self.places.items() if sha.startswith(prefix))

    @property
    def environment(self) -> str:
        values = dict(self.series.variant.values)
        return f"{self.series.machine.name} {values['environment_type']} py{values['python']}"

    @property
    def benchmark(self) -> str:
        return self.series.benchmark.name

    @property
    def key(self) -> str:
        """Benchmark, version and environment: the name of this history in the file of judgements."""
        return f"{self.benchmark}@{self.series.benchmark.version[:8]} {self.environment}"


@dataclass(frozen=True, slots=True)
class Call:
    """A change point at ``place`` of a history."""

    history: History
    place: int
    change: ChangePoint

    @property
    def log_size(self) -> float:
        return abs(math.log(self.change.after / self.change.before))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was seen in one picture; ``commit`` and ``size`` are empty for a history without a call."""

    group: str
    series: str
    commit: str
    size: str
    judged: str
    reason: str


# ------------------------------------------------------------------ measurements and calls


def load_histories(archive: Path = ARCHIVE) -> list[History]:
    """Every series of the archive that is long enough to have a verdict."""
    measured: dict[Series, list[tuple[datetime, str, float, bool]]] = defaultdict(list)
    for document in read_imported_runs(archive, ImportDefaults(PROJECT), warn=print):
        run = document.run
        for result in run.results:
            measured_summary = summarize_processes(result.processes)
            level = measured_summary.level if measured_summary else None
            if level is None and result.summary:
                level = result.summary.value
            written = run.commit.committed_at
            if level is not None and written is not None:
                is_late = run.started_at - written > LATE
                measured[result.series].append((written, run.commit.sha, level, is_late))
    histories = []
    for series, points in measured.items():
        points.sort()
        _, shas, levels, late = zip(*points, strict=True)
        if len(points) >= MIN_POINTS:
            histories.append(History(series, shas, levels, late))
    return sorted(histories, key=lambda history: history.key)


def find_calls(histories: Sequence[History]) -> list[Call]:
    """What the detector calls at the bar of 5 %."""
    changes = find_change_points_in_levels(
        {item.series: list(zip(item.shas, item.levels, strict=True)) for item in histories}
    )
    return [
        Call(item, item.places[change.commit], change)
        for item in histories
        for change in changes[item.series]
    ]


def draw_lots(histories: Sequence[History], calls: Sequence[Call]) -> list[Judgement]:
    """The pictures to look at, not judged yet: the largest calls; by lot others, and histories without one.

    Lots are hashes, so a call that comes or goes leaves the other lots as they are.
    """
    ordered = sorted(calls, key=lambda call: (-call.log_size, call.history.key, call.place))
    others = sorted(ordered[LOOKED_AT:], key=lambda call: hash_lot(call.history.key, call.change.commit))
    called = {call.history.key for call in calls}
    quiet = [history.key for history in histories if history.key not in called]
    rows = [
        Judgement(group, call.history.key, call.change.commit[:8], format_size(call), "", "")
        for group, shown in (("largest", ordered), ("random", others))
        for call in shown[:LOOKED_AT]
    ]
    return rows + [Judgement("quiet", key, "", "", "", "") for key in sorted(quiet, key=hash_lot)[:LOOKED_AT]]


def hash_lot(*names: str) -> bytes:
    return sha256(" ".join([str(SEED), *names]).encode()).digest()


def format_size(call: Call) -> str:
    return format_signed_percent(call.change.relative_change)


def find_judged_calls(
    judgements: Iterable[Judgement], histories: Iterable[History], calls: Iterable[Call]
) -> list[Call | None]:
    """For each judgement today's call within ``NEAR`` points of its commit; where there was none, any."""
    by_key = {history.key: history for history in histories}
    by_history = defaultdict(list)
    for call in calls:
        by_history[call.history.key].append(call)
    result = []
    for item in judgements:
        own = by_history[item.series]
        if item.commit:
            place = by_key[item.series].find_place(item.commit)
            own = [call for call in own if abs(call.place - place) <= NEAR]
        result.append(own[0] if own else None)
    return result


# ------------------------------------------------------------------ pictures


def find_companions(call: Call, calls: Iterable[Call]) -> tuple[int, str]:
    """How many other calls lie at the same commit in this environment, and what the same benchmark shows in
    another: a change of code moves the latter, a machine the former."""
    near = set(call.history.shas[max(0, call.place - NEAR) : call.place + NEAR + 1])
    here, elsewhere = 0, ""
    for other in calls:
        if other is call or other.change.commit not in near:
            continue
        if other.history.environment == call.history.environment:
            here += 1
        elif other.history.benchmark == call.history.benchmark:
            place = other.history.environment.removeprefix("ubuntu-latest conda ").partition(" ")[0]
            elsewhere = f" · {place} {format_signed_percent(other.change.relative_change)}"
    return here, elsewhere


def measure_own_move(call: Call, histories: Iterable[History]) -> str:
    """Size of a call without what the environment's other benchmarks share.

    From the log level of every commit is subtracted the median of the others', each relative to its own
    median around the call.
    """
    own, shas = call.history, call.history.shas
    first, at = max(0, call.place - 2 * SIDE_POINTS), call.place
    near = shas[first : at + 2 * SIDE_POINTS]
    others = []
    for other in histories:
        if (
            other.environment == own.environment
            and other is not own
            and all(sha in other.places for sha in near)
        ):
            logs = np.log([other.levels[other.places[sha]] for sha in near])
            others.append(logs - np.median(logs))
    if not others:
        return "not known"
    logs = np.log(own.levels[first : at + 2 * SIDE_POINTS]) - np.median(others, axis=0)
    after, before = logs[at - first :][:SIDE_POINTS], logs[: at - first][-SIDE_POINTS:]
    return format_signed_percent(math.expm1(float(np.median(after) - np.median(before))))


def draw_sheets(
    judgements: Sequence[Judgement], histories: Sequence[History], calls: Sequence[Call]
) -> dict[str, str]:
    """Every contact sheet by its name."""
    by_key = {history.key: history for history in histories}
    by_history = defaultdict(list)
    for call in calls:
        by_history[call.history.key].append((call.place, call.change))
    panels: dict[str, list[Panel]] = {group: [] for group in GROUPS}
    judged_calls = find_judged_calls(judgements, histories, calls)
    for item, judged_call in zip(judgements, judged_calls, strict=True):
        history, shown = by_key[item.series], panels[item.group]
        place = history.find_place(item.commit) if item.commit else None
        heading = f"{format_number(item.group, len(shown) + 1)} {format_series(item.series)}"
        note = f"{len(history.levels)} commits" if item.commit else f"{len(history.levels)} commits, no call"
        if judged_call is not None:
            here, elsewhere = find_companions(judged_call, calls)
            heading += elsewhere
            place, change = judged_call.place, judged_call.change
            own = measure_own_move(judged_call, histories)
            note = f"{item.commit} {format_call(change)} · own {own} · {here} called too"
        elif item.commit:
            note = f"{item.commit} {item.size}: not called any more"
        panel = Panel(heading, note, history.levels, history.late, by_history[item.series], looked_at=place)
        shown.append(panel)
    return {
        f"{group}-{start // PANELS_PER_SHEET + 1}": draw_sheet(
            shown[start : start + PANELS_PER_SHEET], f"Django: {GROUPS[group]}"
        )
        for group, shown in panels.items()
        for start in range(0, len(shown), PANELS_PER_SHEET)
    }


def format_number(group: str, number: int) -> str:
    """``L7``: how a picture and its row in the table are numbered."""
    return f"{group[0].upper()}{number}"


# ------------------------------------------------------------------ judgements and tables


def load_judgements(file: Path = JUDGEMENTS) -> list[Judgement]:
    with file.open(newline="") as lines:
        return [Judgement(**row) for row in csv.DictReader(lines)]


def format_figures(judgements: Sequence[Judgement]) -> str:
    """The page's table of counts, its sheets, and the table of every judgement."""
    counts = Counter((item.group, item.judged) for item in judgements)
    lines = ["| looked at | right | wrong | cannot tell |", "|---|---|---|---|"]
    lines += [
        f"| {title} | {' | '.join(str(counts[group, answer]) for answer in ANSWERS)} |"
        for group, title in GROUPS.items()
    ]
    for group, title in GROUPS.items():
        shown = [item for item in judgements if item.group == group]
        lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
        lines += [
            f"![{title}, sheet {sheet}](plots/django/{group}-{sheet}.svg)\n"
            for sheet in range(1, -(-len(shown) // PANELS_PER_SHEET) + 1)
        ]
        lines += ["| | series | commit | size | judged | why |", "|---|---|---|---|---|---|"]
        lines += [
            f"| {format_number(group, number)} | {format_series(item.series)} | {item.commit} | {item.size} "
            f"| {mark_answer(item.judged)} | {item.reason} |"
            for number, item in enumerate(shown, 1)
        ]
    return "\n".join(lines)


def format_series(key: str) -> str:
    """``time_urlize, ubuntu-latest py3.13``: the short name of a history."""
    name, _, rest = key.partition("@")
    place = re.sub(" (conda|virtualenv)", "", rest.partition(" ")[2])
    return f"{name.rpartition('.')[2]}, {place}"


def mark_answer(judged: str) -> str:
    return judged if judged == "right" else f"**{judged}**"


def main(arguments: argparse.Namespace) -> int:
    if not ARCHIVE.exists():
        print(f"not studied: {ARCHIVE} is not at hand")
        return 0
    histories = load_histories()
    calls = find_calls(histories)
    called = len({call.history.key for call in calls})
    commits = len({sha for history in histories for sha in history.shas})
    print(f"{commits:,} commits, {len(calls)} calls in {called} of {len(histories)} series")
    if arguments.draw_lots:
        write_judgements(draw_lots(histories, calls))
    judgements = load_judgements()
    if arguments.page:
        for name, svg in draw_sheets(judgements, histories, calls).items():
            (PLOTS / f"{name}.svg").write_text(svg)
        replace_figures(arguments.page, format_figures(judgements))
    judged_calls = find_judged_calls(judgements, histories, calls)
    for item, judged_call in zip(judgements, judged_calls, strict=True):
        if item.commit and judged_call is None:
            print(f"no longer called, judged {item.judged}: {item.series} {item.commit} {item.size}")
        elif judged_call is not None and not item.commit:
            print(f"called now, judged {item.judged}: {item.series} {judged_call.change.commit[:8]}")
    shares = measure_kept_shares(judgements, judged_calls)
    right, wrong = (100 * shares[answer] for answer in ("right", "wrong"))
    print(f"still called: {right:.0f} % of the right ones, {wrong:.0f} % of the wrong")
    return int(shares["right"] < MIN_RIGHT_KEPT or shares["wrong"] > MAX_WRONG_KEPT)


def measure_kept_shares(judgements: Sequence[Judgement], calls: Sequence[Call | None]) -> dict[str, float]:
    """Share of the calls of each answer that are still made."""
    kept: dict[str, list[bool]] = defaultdict(list)
    for item, call in zip(judgements, calls, strict=True):
        if item.commit:
            kept[item.judged].append(call is not None)
    return {answer: sum(made) / len(made) for answer, made in kept.items()}


def write_judgements(judgements: Iterable[Judgement], file: Path = JUDGEMENTS) -> None:
    columns = list(Judgement.__slots__)
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([getattr(item, column) for column in columns] for item in judgements)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw-lots", action="store_true", help="begin anew, with nothing judged")
    parser.add_argument("--page", type=Path, help="draw anew, and put the tables into this page")
    sys.exit(main(parser.parse_args()))
