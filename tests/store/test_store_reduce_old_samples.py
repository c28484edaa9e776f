"""Old samples are reduced to their levels, and no history is judged differently."""

from __future__ import annotations

import random
from datetime import timedelta

from perfci.model import CPU_METRIC_PREFIX, ChangePoint, Clock, Process, Series
from perfci.store import Store, check_integrity, projects, verdicts_and_change_points
from perfci.store.maintenance.reduce_old_samples import REDUCED_FLAG, ReducedSamples, reduce_old_samples
from perfci.store.queries import measured_samples, series_search
from perfci.verdicts.process_levels import process_level
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_verdict
from tests.support.level_histories import find_change_points, judged_level
from tests.support.stored_runs import ingest_run

LATER = NOON + timedelta(days=400)

TIMED, COUNTED, WAITED = a_series("step"), a_series("step", "flops"), a_series("wait")
CPU = a_series("wait", CPU_METRIC_PREFIX + "time")


def fill(store: Store, *, kind: str = "history") -> None:
    """Thirty commits, the second half slower; one series of each way a clock is read."""
    dice = random.Random(3)
    with store.begin() as tx:
        for number in range(30):
            slower = 1.2 if number >= 15 else 1.0
            counts = [
                a_process(7.0, 7.0, index=0, clock=Clock.EXACT),
                a_process(7.0, 8.0, index=1, clock=Clock.EXACT),
            ]
            results = [
                a_result(TIMED, *processes(dice, slower, Clock.WALL)),
                a_result(COUNTED, *counts),
                a_result(WAITED, *processes(dice, slower, Clock.WALL)),
                a_result(CPU, *processes(dice, slower, Clock.CPU)),
            ]
            run = a_run(*results, commit=a_commit(number), session=f"session-{number}")
            ingest_run(tx, run, f"key {number}", "body", kind=kind)


def processes(dice: random.Random, level: float, clock: Clock) -> list[Process]:
    return [
        a_process(*(level * dice.gauss(1, 0.01) for _ in range(9)), index=i, clock=clock) for i in range(3)
    ]


def reduce_all_samples(store: Store, *, step: int = 50) -> list[ReducedSamples]:
    steps = [ReducedSamples(0)]
    while len(steps) == 1 or steps[-1].last_result_id:
        with store.begin() as tx:
            project = projects.find_project(tx, PROJECT)
            assert project is not None
            steps.append(
                reduce_old_samples(
                    tx,
                    project.id,
                    LATER,
                    compute_level=process_level,
                    at=LATER,
                    after=steps[-1].last_result_id,
                    limit=step,
                )
            )
    return steps[1:]


def judged(store: Store, series: Series) -> tuple[list[float | None], list[ChangePoint]]:
    with store.read() as tx:
        result = next(
            each_series
            for each_series in series_search.search_series(tx, PROJECT)
            if each_series.series == series
        )
        history = measured_samples.load_history(tx, result.id)
    return [judged_level(point) for point in history], find_change_points(series, history)


def samples(store: Store, series: Series, session: str = "session-0") -> list[int]:
    with store.read() as tx:
        return [
            len(session_process.process.samples)
            for session_process in measured_samples.load_session_processes(tx, session)
            if session_process.series == series
        ]


def test_a_history_is_judged_as_before_bit_for_bit(store: Store) -> None:
    fill(store)
    before = {series: judged(store, series) for series in (TIMED, COUNTED, WAITED, CPU)}

    steps = reduce_all_samples(store)

    assert {series: judged(store, series) for series in before} == before
    assert len(before[TIMED][1]) == 1
    assert sum(step.processes for step in steps) == 30 * (3 + 1)
    assert samples(store, TIMED) == [1, 1, 1]
    assert check_integrity(store.url) == []


def test_does_not_reduce_differing_counts_or_cpu_time_with_a_wall_twin(store: Store) -> None:
    fill(store)

    reduce_all_samples(store)

    assert samples(store, COUNTED) == [1, 2]
    assert samples(store, WAITED) == samples(store, CPU) == [9, 9, 9]


def test_does_not_reduce_the_evidence_of_a_verdict(store: Store) -> None:
    fill(store)
    with store.begin() as tx:
        evidence = tuple(
            session_process.id
            for session_process in measured_samples.load_session_processes(tx, "session-0")
            if session_process.series == TIMED
        )
        verdicts_and_change_points.add_verdicts(
            tx, PROJECT, "session-0", [a_verdict(TIMED, evidence=evidence[:2])], NOON
        )

    reduce_all_samples(store)

    assert samples(store, TIMED) == [9, 9, 1]


def test_does_not_reduce_comparisons_or_newer_samples(store: Store) -> None:
    fill(store, kind="compare")

    steps = reduce_all_samples(store)

    assert [step.processes for step in steps] == [0]


def test_records_that_samples_were_reduced_and_how_many_there_were(store: Store) -> None:
    fill(store)

    reduce_all_samples(store)
    again = reduce_all_samples(store)

    with store.read() as tx:
        flags = {
            session_process.process.flags
            for session_process in measured_samples.load_session_processes(tx, "session-0")
            if session_process.series == TIMED
        }
        spread = tx.connection().exec_driver_sql(
            "SELECT n FROM results WHERE thinned_at IS NOT NULL AND id = 1"
        )
        assert spread.scalar() == 27
    assert flags == {(REDUCED_FLAG,)}
    assert [step.processes for step in again] == [0]
