"""Histories are judged by what is kept with their results, to the answer that all their samples give."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from unittest.mock import patch

import pytest

from perfci.history.series_histories import SeriesHistories
from perfci.model import (
    CPU_METRIC_PREFIX,
    ChangePoint,
    Clock,
    Process,
    ProcessBoundaries,
    Result,
    Run,
    Series,
    Status,
)
from perfci.store import Store
from perfci.store.queries import judging_inputs, measured_samples, series_search
from perfci.store.queries.judging_inputs import save_result_summaries
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.verdicts.history.change_points_and_jumps import SegmentationCache, find_change_points_in_levels
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import (
    PROJECT,
    a_commit,
    a_failed_process,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
)
from tests.support.level_histories import find_change_points_of_many, judged_level
from tests.support.stored_runs import ingest_run

COMMITS = 24

WALL, FLOPS, IMPORTED = a_series("step"), a_series("step", "flops", unit="count"), a_series("imported")
CPU = a_series("step", CPU_METRIC_PREFIX + "time")
WAIT_WALL, WAIT_CPU = a_series("wait"), a_series("wait", CPU_METRIC_PREFIX + "time")
WITNESS, ABSENT = a_series("step", "tokens"), a_series("step", "power")
CLOCKS = {CPU: Clock.CPU, WAIT_CPU: Clock.CPU, FLOPS: Clock.EXACT, WITNESS: Clock.INFORMATIONAL}
SHARES = {CPU: 0.9, WAIT_CPU: 0.05}


def runs(seed: int) -> Iterator[Run]:
    """One or two runs of each commit, in no order, with all that may go wrong in one."""
    dice = random.Random(seed)
    at, factor = dice.randrange(6, COMMITS - 4), dice.choice([1.2, 0.8, 1.0])
    visits = [number for number in range(1, COMMITS + 1) for _ in range(dice.choice([1, 1, 1, 2]))]
    for visit, number in enumerate(dice.sample(visits, len(visits))):
        level = (factor if number >= at else 1.0) * dice.gauss(1, 0.005)
        moods = [dice.choice(["ok"] * 8 + ["throttled", "failed"]) for _ in range(dice.choice([1, 3]))]
        measured = [
            _result(dice, item, level, moods)
            for item in (WALL, CPU, WAIT_WALL, WAIT_CPU, FLOPS, WITNESS, ABSENT)
        ]
        left = a_summary(level)
        foreign = a_result(
            IMPORTED, processes=(), summary=left, boundaries=ProcessBoundaries.UNKNOWN, status=Status.OK
        )
        yield a_run(*measured, foreign, commit=a_commit(number), session=f"session-{visit}")


def _result(dice: random.Random, series: Series, level: float, moods: list[str]) -> Result:
    if series == ABSENT:
        absent = [
            a_failed_process(Status.SKIPPED, index=index, clock=Clock.VALUE) for index in range(len(moods))
        ]
        return a_result(series, *absent, status=Status.SKIPPED)
    processes = [_process(dice, series, level, mood, index) for index, mood in enumerate(moods)]
    status = Status.OK if any(process.status is Status.OK for process in processes) else Status.FAILED
    return a_result(series, *processes, status=status)


def _process(dice: random.Random, series: Series, level: float, mood: str, index: int) -> Process:
    clock = CLOCKS.get(series, Clock.WALL)
    if mood == "failed":
        return a_failed_process(index=index, clock=clock)
    exact = [100.0 + (level > 1.1)] * 2
    samples = (
        exact
        if clock is Clock.EXACT
        else [SHARES.get(series, 1.0) * level * dice.gauss(1, 0.01) for _ in "abcd"]
    )
    return a_process(*samples, index=index, clock=clock, flags=() if mood == "ok" else (mood,))


def ingest_runs(store: Store, seed: int) -> list[int]:
    with store.begin() as tx:
        for number, run in enumerate(runs(seed)):
            ingest_run(tx, run, f"key {number}", "body", kind="history")
    with store.read() as tx:
        return [record.id for record in series_search.search_series(tx, PROJECT)]


def change_points_from_samples(store: Store, ids: list[int]) -> dict[Series, list[ChangePoint]]:
    with store.read() as tx:
        series, points = load_series_by_ids(tx, ids), measured_samples.load_histories_by_series_id(tx, ids)
    lines = {series[row_id]: owner for row_id, owner in points.items()}
    processes = {
        item: [process for point in line for process in point.processes] for item, line in lines.items()
    }
    judged = select_judged_series(processes)
    left = {
        verdict: [(p.commit.sha, v) for p in lines[verdict] if (v := judged_level(p))]
        for verdict in judged
        if not processes[verdict]
    }
    measured = {verdict: lines[verdict] for verdict in judged if processes[verdict]}
    rules = Policy().rule_for
    result = find_change_points_of_many(measured, rules=rules) | find_change_points_in_levels(
        left, rules=rules
    )
    return {line: list(result.get(line, [])) for line in lines}


def change_points_from_levels(
    store: Store, ids: list[int], memory: SegmentationCache | None = None
) -> Mapping[Series, list[ChangePoint]]:
    """As a look does, which keeps what it had to work out."""
    with store.read() as tx:
        result = SeriesHistories.load(tx, ids)
    with store.begin() as tx:
        if result.summaries:
            save_result_summaries(tx, result.summaries)
    return result.find_change_points(Policy(), memory)


@pytest.mark.parametrize("seed", range(8))
def test_change_points_from_stored_levels_equal_those_from_samples(store: Store, seed: int) -> None:
    ids = ingest_runs(store, seed)

    first, again = change_points_from_levels(store, ids), change_points_from_levels(store, ids)

    assert first == again == change_points_from_samples(store, ids)


@pytest.mark.parametrize("seed", range(3))
def test_incremental_change_points_equal_those_from_samples(store: Store, seed: int) -> None:
    memory, fields = SegmentationCache(), {}
    for number, run in enumerate(runs(seed)):
        with store.begin() as tx:
            ingest_run(tx, run, f"key {number}", "body", kind="history")
        with store.read() as tx:
            ids = [record.id for record in series_search.search_series(tx, PROJECT)]
        fields = change_points_from_levels(store, ids, memory)

    assert fields == change_points_from_samples(store, ids)


def ingest_results(store: Store, *results: Result, commit: int = 1, session: str = "one") -> list[int]:
    with store.begin() as tx:
        run = a_run(*results, commit=a_commit(commit), session=session)
        ingest_run(tx, run, session, "body", kind="history")
    with store.read() as tx:
        return [record.id for record in series_search.search_series(tx, PROJECT)]


def test_a_result_summary_is_computed_once(store: Store) -> None:
    ids = ingest_results(store, a_result(WALL, a_process(1.0, 3.0), a_process(4.0, index=1)))
    change_points_from_levels(store, ids)

    with (
        store.read() as tx,
        patch.object(judging_inputs, "build_process", side_effect=AssertionError("a sample was read")),
    ):
        result = SeriesHistories.load(tx, ids)

    assert (result.levels_by_series, result.summaries) == ({WALL: [(a_sha(1), 3.0)]}, {})


def test_runs_of_one_commit_are_judged_by_all_their_processes(store: Store) -> None:
    ingest_results(store, a_result(WALL, a_process(1.0), a_process(2.0, index=1)), session="one")
    ids = ingest_results(store, a_result(WALL, a_process(9.0)), session="two")
    change_points_from_levels(store, ids)

    with store.read() as tx:
        result = SeriesHistories.load(tx, ids)

    assert result.levels_by_series == {WALL: [(a_sha(1), 2.0)]}
