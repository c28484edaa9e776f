"""Signals beside change points: jumps and retests, bad sessions, creep, and positions of a step."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.model import ChangePoint, Interval, VerdictKind
from perfci.verdicts.history.change_points_and_jumps import Jump, find_newest_jumps, measure_change_point
from perfci.verdicts.history.release_creep import Creep, CreepHistory, Release, find_creeps
from perfci.verdicts.history.step_evidence import LevelPoint, place_step
from perfci.verdicts.incidents.incident_builder import build_bad_session_incidents, group_overlapping_ranges
from perfci.verdicts.incidents.machine_shifts import classify_session_jumps
from perfci.verdicts.incidents.step_causes import WeightedRange
from tests.support.builders import a_change_point, a_series, a_sha, a_verdict
from tests.support.level_histories import (
    LENGTH,
    change_points_of,
    history_context_of,
    simulate_points,
    stepped_level,
)

STEP = a_series("training.Step.time_step")
V1, V2 = Release("v1", a_sha(6)), Release("v2", a_sha(24))
LONG_PLACE = {a_sha(number): number - 1 for number in range(1, 101)}
PLACE = {a_sha(number): number - 1 for number in range(1, LENGTH + 1)}


# ------------------------------------------------------------------ retests


def test_a_jump_on_the_newest_point_requests_a_retest_of_the_commit_and_its_parent() -> None:
    (jump,) = find_newest_jumps({STEP: simulate_points(stepped_level((LENGTH, 1.3)))})
    retest = jump.as_retest

    assert (retest.base, retest.head) == (a_sha(LENGTH - 1), a_sha(LENGTH))
    assert retest.reason.startswith("+29.6 % on the newest point, ")


def test_a_jump_of_two_points_retests_the_first_of_them() -> None:
    (jump,) = find_newest_jumps({STEP: simulate_points(stepped_level((LENGTH - 1, 1.3)))})
    retest = jump.as_retest

    assert (retest.base, retest.head) == (a_sha(LENGTH - 2), a_sha(LENGTH - 1))


def test_a_jump_that_went_back_does_not_persist() -> None:
    points = {STEP: simulate_points(lambda number: 1.3 if number == LENGTH - 1 else 1.0)}

    (jump,) = find_newest_jumps(points)

    assert jump.persists is False


def test_noise_known_steps_and_settled_jumps_request_no_retest() -> None:
    noisy = {STEP: simulate_points(stepped_level((LENGTH, 1.3)), noise=0.2)}
    existing = {STEP: simulate_points(stepped_level((LENGTH - 4, 1.3)))}
    settled = [a_verdict(STEP, VerdictKind.UNCHANGED, base=a_sha(LENGTH - 1), head=a_sha(LENGTH))]

    assert find_newest_jumps(noisy) == []
    assert find_newest_jumps(existing, change_points_of(existing)) == []
    assert find_newest_jumps({STEP: simulate_points(stepped_level((LENGTH, 1.3)))}, verdicts=settled) == []


def test_a_short_history_has_no_jump() -> None:
    assert find_newest_jumps({STEP: simulate_points(stepped_level((7, 2.0)), length=7)}) == []


# ------------------------------------------------------------------ bad days


@pytest.mark.parametrize(
    ("worse", "better", "bad"), [(6, 6, True), (12, 0, False), (10, 2, False), (2, 1, False)]
)
def test_jumps_in_both_directions_make_a_bad_session(worse: int, better: int, bad: bool) -> None:
    assert classify_session_jumps([True] * worse + [False] * better) == ("bad_session" if bad else "")


def test_jumps_gone_in_the_next_run_are_one_incident() -> None:
    series = [a_series(f"training.Part.time_{k}") for k in range(5)]
    gone = {
        item: simulate_points(lambda number: 1.4 if number == LENGTH - 1 else 1.0, seed=k)
        for k, item in enumerate(series)
    }

    (day,), left = build_bad_session_incidents(find_newest_jumps(gone), history_context_of(gone))

    assert (day.cause, day.sessions, len(day.members)) == ("transient", (f"session-{LENGTH - 1}",), 5)
    assert left == []


def test_persistent_jumps_in_one_direction_are_left_for_retests() -> None:
    series = [a_series(f"training.Part.time_{k}") for k in range(5)]
    there = {item: simulate_points(stepped_level((LENGTH - 1, 1.4)), seed=k) for k, item in enumerate(series)}

    days, left = build_bad_session_incidents(find_newest_jumps(there), history_context_of(there))

    assert (days, len(left)) == ([], 5)
    assert all(isinstance(item, Jump) for item in left)


# ------------------------------------------------------------------ creep


def a_line(*, ramp: float = 1.0, jump: tuple[int, float] = (1, 1.0), **changes: object) -> CreepHistory:
    step = stepped_level(jump)
    points = simulate_points(lambda number: ramp**number * step(number), noise=0.002)
    around = {
        release: points[max(0, PLACE[release.sha] - 6) : PLACE[release.sha] + 7] for release in (V1, V2)
    }
    return CreepHistory(STEP, around, points[-17:], **changes)  # type: ignore[arg-type]


def test_finds_a_creep_of_half_a_percent_a_commit_and_the_pair_to_compare() -> None:
    (creep,) = find_creeps([a_line(ramp=1.005)], PLACE)

    assert (creep.release, creep.base, creep.head) == ("v2", V2.sha, a_sha(LENGTH))
    assert creep.drift_ratio == pytest.approx(1.005 ** (LENGTH - 2 - 24), rel=0.01)
    assert creep.interval is not None
    assert creep.interval.lo > 1.05


def test_a_level_that_wanders_by_itself_is_no_creep() -> None:
    lines = [wandering_line(seed) for seed in range(60)]
    without_memory = [replace(line, line=()) for line in lines]

    before, after = (
        sum(bool(find_creeps([line], LONG_PLACE)) for line in some) for some in (without_memory, lines)
    )

    assert before >= 6
    assert after <= 2


def test_a_steady_ramp_is_found_in_spite_of_the_memory_of_its_noise() -> None:
    lines = [wandering_line(seed, ramp=1.002, noise=0.01) for seed in range(20)]

    assert sum(bool(find_creeps([line], LONG_PLACE)) for line in lines) >= 18


def wandering_line(seed: int, *, ramp: float = 1.0, noise: float = 0.04) -> CreepHistory:
    """A hundred points of AR(1) noise with r = 0.9 on a ramp."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, noise, 100)
    for at in range(1, 100):
        logs[at] = 0.9 * logs[at - 1] + math.sqrt(1 - 0.9**2) * logs[at]
    points = [
        LevelPoint(a_sha(at + 1), float(level))
        for at, level in enumerate(np.exp(logs) * ramp ** np.arange(100))
    ]
    release = Release("v1", a_sha(3))
    return CreepHistory(STEP, {release: points[:6]}, points[-17:], line=points[2:])


def test_subtracts_known_steps_from_a_creep() -> None:
    step = a_change_point(STEP, commit=a_sha(15), last_good=a_sha(14), before=1.0, after=1.2)

    assert find_creeps([a_line(jump=(15, 1.2), steps=[step])], PLACE) == []


def test_noise_and_improvements_are_no_creep() -> None:
    assert find_creeps([a_line(), a_line(ramp=0.995)], PLACE) == []


def test_fresh_pairs_of_release_and_head_outrank_the_points() -> None:
    verdict = a_verdict(
        STEP,
        VerdictKind.UNCHANGED,
        base=V2.sha,
        head=a_sha(LENGTH),
        ratio=1.002,
        interval=Interval(0.99, 1.01),
    )

    creeps = find_creeps([a_line(ramp=1.005, verdicts=[verdict])], PLACE)

    assert [(creep.release, creep.paired) for creep in creeps] == [("v1", False)]
    assert all(isinstance(creep, Creep) for creep in creeps)


# ------------------------------------------------------------------ grouping and places


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), st.floats(0.1, 30)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_grouping_does_not_depend_on_the_order_of_the_ranges(
    drawn: list[tuple[int, int, float]], chance: random.Random
) -> None:
    ranges_by_commit = [WeightedRange(first, first + length, weight) for first, length, weight in drawn]
    order = chance.sample(range(len(ranges_by_commit)), len(ranges_by_commit))

    ranges, again = (
        group_overlapping_ranges(ranges_by_commit),
        group_overlapping_ranges([ranges_by_commit[k] for k in order]),
    )

    assert sorted(k for group in ranges for k in group) == list(range(len(ranges_by_commit)))
    assert sorted(ranges) == sorted(sorted(order[k] for k in group) for group in again)
    assert all(
        max(ranges_by_commit[k].first for k in group) < min(ranges_by_commit[k].last for k in group)
        for group in ranges
    )


def measured_step(points: list[LevelPoint]) -> ChangePoint:
    return measure_change_point(STEP, [(point.sha, point.level) for point in points], 19)


def test_a_small_step_in_noise_may_have_come_some_points_earlier_or_later() -> None:
    clear, faint = (simulate_points(stepped_level((20, 1.1)), noise=noise) for noise in (0.01, 0.07))

    places = [place_step(points, step := measured_step(points), [step]) for points in (clear, faint)]

    assert [place and (place.level, len(place.likely_starts) > 1) for place in places] == [
        (range(19, LENGTH), False),
        (range(19, LENGTH), True),
    ]
    assert (measured_step(clear).p_value or 1) < (measured_step(faint).p_value or 1) < 0.05


@given(st.floats(1e-6, 1e6), st.integers(1, 50))
def test_the_evidence_for_a_step_does_not_depend_on_the_unit(unit: float, seed: int) -> None:
    plain, scaled = (
        measured_step(simulate_points(stepped_level((20, 1.1), start=start), seed=seed))
        for start in (1.0, unit)
    )

    assert scaled.sigmas == pytest.approx(plain.sigmas, rel=1e-6)
    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-4)


def test_the_p_value_of_a_step_is_that_of_its_interval() -> None:
    (change,) = change_points_of({STEP: simulate_points(stepped_level((20, 1.1)), noise=0.02)})
    barely = measured_step(simulate_points(stepped_level((20, 1.02)), noise=0.03, seed=4))

    for step in (change, barely):
        assert step.interval is not None
        assert step.p_value is not None
        assert (step.p_value < 0.05) == (not step.interval.lo <= 1 <= step.interval.hi)
