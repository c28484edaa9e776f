"""Whether goals are reached, and the trade-offs."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfci.model import Clock, Interval, Role, Series, Status, VerdictKind
from perfci.verdicts.goals.goal_clauses import Goal, parse_clause, unit_conversion_factor
from perfci.verdicts.goals.goal_verdict import ComparedSeries, GoalOutcome, GoalVerdict, judge_goal
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import a_failed_process, a_pair, a_process, a_series, a_verdict

STEP = a_series("model.Gpt.measure_training", "step_time")
PEAK = a_series("model.Gpt.measure_training", "peak_allocated", unit="bytes")
LOSS = a_series("model.Gpt.measure_numerics", "loss_at_step_k", unit="loss")


def judge(clause: str, *compared: ComparedSeries, rejected: str = "") -> GoalVerdict:
    goal = judge_goal(
        Goal("fast", (parse_clause(clause),)), compared, Policy().metric_class_of, rejection_reason=rejected
    )
    assert goal is not None
    return goal


def decided(
    series: Series, ratio: float, lo: float, hi: float, kind: VerdictKind = VerdictKind.IMPROVEMENT
) -> ComparedSeries:
    verdict = a_verdict(series, kind, ratio=ratio, interval=Interval(lo, hi))
    return ComparedSeries(series, (), (), verdict)


def levels(series: Series, *values: float, clock: Clock = Clock.WALL) -> ComparedSeries:
    return ComparedSeries(series, (), [a_process(value, role=Role.HEAD, clock=clock) for value in values])


def test_a_clause_is_met_broken_or_undecided_by_its_whole_interval() -> None:
    outcomes = [
        judge("step_time <= 0.67x", decided(STEP, 0.65, lo, hi)).outcome
        for lo, hi in ((0.63, 0.67), (0.64, 0.68), (0.68, 0.70))
    ]

    assert outcomes == [GoalOutcome.MET, GoalOutcome.UNDECIDED, GoalOutcome.BROKEN]


def test_within_has_two_sides() -> None:
    outcomes = [
        judge("step_time within 5%", decided(STEP, 1.0, lo, hi)).outcome
        for lo, hi in ((0.96, 1.04), (0.9, 1.1), (0.9, 0.94), (1.06, 1.1), (0.9, 1.0))
    ]

    assert outcomes == [
        GoalOutcome.MET,
        GoalOutcome.UNDECIDED,
        GoalOutcome.BROKEN,
        GoalOutcome.BROKEN,
        GoalOutcome.UNDECIDED,
    ]


def test_an_exact_value_at_the_limit_meets_it_unless_the_clause_is_strict() -> None:
    same = decided(PEAK, 1.0, 1.0, 1.0, VerdictKind.UNCHANGED)

    assert judge("peak_allocated <= 1.0x", same).outcome is GoalOutcome.MET
    assert judge("peak_allocated < 1.0x", same).outcome is GoalOutcome.BROKEN


def test_a_change_from_zero_exceeds_any_factor() -> None:
    verdict = a_verdict(PEAK, ratio=None, interval=None, base_level=0.0, head_level=8.0, reason="0 became 8")

    clauses = judge("peak_allocated <= 5x", ComparedSeries(PEAK, (), (), verdict)).clauses[0]

    assert (clauses.outcome, clauses.estimate, clauses.reason) == (GoalOutcome.BROKEN, None, "0 became 8")


def test_a_level_is_judged_by_the_spread_of_its_processes_in_the_unit_of_the_clause() -> None:
    clauses = judge("step_time <= 2 ms", levels(STEP, 0.00180, 0.00181, 0.00179, 0.00182, 0.00180)).clauses[0]

    assert clauses.outcome is GoalOutcome.MET
    assert clauses.estimate == pytest.approx(1.804, abs=1e-3)
    assert clauses.interval == Interval(pytest.approx(1.790, abs=2e-3), pytest.approx(1.818, abs=2e-3))


def test_a_limit_may_be_in_any_unit_of_the_same_measure() -> None:
    units = {
        "seconds": "ms",
        "seconds/token": "ms/token",
        "bytes": "MiB",
        "ratio": "%",
        "tokens/s": "tokens/s",
    }

    factors = [
        unit_conversion_factor(parse_clause(f"metric <= 1 {written}"), unit)
        for unit, written in units.items()
    ]

    assert factors == [1e-3, 1e-3, 2**20, 0.01, 1.0]
    assert (
        unit_conversion_factor(parse_clause("mfu >= 0.4"), "ratio")
        == unit_conversion_factor(parse_clause("operators <= 900"), "count")
        == 1.0
    )


def test_a_single_process_decides_a_level_only_if_exact() -> None:
    alone = levels(PEAK, 1000.0)
    exact = levels(PEAK, 1000.0, 1000.0, clock=Clock.EXACT)

    assert judge("peak_allocated <= 1 KiB", alone).clauses[0].interval == Interval(1000 / 1024, 1000 / 1024)
    assert judge("peak_allocated <= 1 KiB", exact).outcome is GoalOutcome.MET


def test_states_how_many_more_pairs_would_decide() -> None:
    clauses = judge("step_time <= 0.67x", decided(STEP, 0.66, 0.64, 0.68)).clauses[0]

    assert (clauses.outcome, clauses.reason) == (GoalOutcome.UNDECIDED, "about 29 more pairs would decide")
    close = judge("step_time <= 0.67x", decided(STEP, 0.67, 0.64, 0.701)).clauses[0]
    assert close.reason == "too close to the limit for more pairs to settle"


def test_an_informational_series_is_compared_as_measured() -> None:
    rows = [process for k in range(6) for process in a_pair(k, 1.0 + k / 1000, 0.5 + k / 1000)]
    informational = ComparedSeries(
        STEP, [p for p in rows if p.role is Role.BASE], [p for p in rows if p.role is Role.HEAD]
    )

    verdict = judge("step_time <= 0.67x", informational)

    assert verdict.outcome is GoalOutcome.MET


def test_a_metric_with_two_clocks_is_judged_by_the_one_that_has_a_verdict() -> None:
    cpu = a_series("model.Gpt.measure_training", "cpu_step_time")

    verdict = judge("step_time <= 0.67x", levels(STEP, 1.0), decided(cpu, 0.6, 0.59, 0.61))

    assert [clause.series for clause in verdict.clauses] == [cpu]
    assert verdict.outcome is GoalOutcome.MET
    level = judge("step_time <= 0.67 s", levels(STEP, 1.0, 1.0), decided(cpu, 0.6, 0.59, 0.61))
    assert [clause.series for clause in level.clauses] == [STEP]


def test_one_broken_clause_breaks_the_goal_and_an_undecided_one_keeps_it_undecided() -> None:
    speed, memory, start = (
        parse_clause(text) for text in ("step_time <= 0.67x", "peak_allocated <= 1x", "ttft <= 1 s")
    )
    faster, larger = decided(STEP, 0.6, 0.59, 0.61), decided(PEAK, 1.2, 1.2, 1.2, VerdictKind.REGRESSION)

    broken, undecided = (
        judge_goal(Goal("fast", clauses), measured, Policy().metric_class_of)
        for clauses, measured in (((speed, memory, start), [faster, larger]), ((speed, start), [faster]))
    )

    assert [item and item.outcome for item in (broken, undecided)] == [
        GoalOutcome.BROKEN,
        GoalOutcome.UNDECIDED,
    ]
    assert [item.reason for item in (undecided.clauses if undecided else ())] == ["", "it was not measured"]


def test_a_failed_head_breaks_its_clauses_and_a_skipped_one_leaves_them_undecided() -> None:
    failed = ComparedSeries(
        STEP, (), (), a_verdict(STEP, VerdictKind.FAILED, ratio=None, interval=None, reason="it crashed")
    )
    skipped = ComparedSeries(STEP, (), [a_failed_process(Status.SKIPPED, reason="no GPU here")])

    assert judge("step_time <= 1x", failed).outcome is GoalOutcome.BROKEN
    clauses = judge("step_time <= 1 s", skipped).clauses[0]
    assert (clauses.outcome, clauses.reason) == (GoalOutcome.UNDECIDED, "the head was skipped (no GPU here)")


def test_numerics_beyond_their_bound_reject_whatever_the_speed() -> None:
    apart = decided(LOSS, 1.02, 1.02, 1.02, VerdictKind.REGRESSION)

    assert judge("loss within 1%", apart).outcome is GoalOutcome.REJECTED
    assert (
        judge("step_time <= 1x", decided(STEP, 0.5, 0.5, 0.5), rejected="loss is off").reason == "loss is off"
    )


def test_a_head_whose_parity_check_fails_is_rejected() -> None:
    refused = ComparedSeries(
        STEP, (), [a_failed_process(reason="ParityFailed: rejected: parity failed: loss is off")]
    )

    verdict = judge("step_time <= 1x", refused)

    assert (verdict.outcome, verdict.reason) == (GoalOutcome.REJECTED, "loss is off")


def test_speed_gained_for_memory_is_a_tradeoff() -> None:
    larger = decided(PEAK, 1.2, 1.2, 1.2, VerdictKind.REGRESSION)
    other = decided(
        a_series("audio.Vae.measure", "peak", unit="bytes"), 1.2, 1.2, 1.2, VerdictKind.REGRESSION
    )

    verdict = judge("step_time <= 0.67x", decided(STEP, 0.6, 0.59, 0.61), larger, other)

    assert verdict.outcome is GoalOutcome.MET
    assert [(trade.gain.series, trade.cost.series) for trade in verdict.trades] == [(STEP, PEAK)]


def test_judges_only_the_cells_it_matches() -> None:
    goal = Goal("audio", (parse_clause("step_time <= 1x"),), match="audio")

    assert judge_goal(goal, [decided(STEP, 0.6, 0.59, 0.61)], Policy().metric_class_of) is None


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 100))
def test_opposite_clauses_are_never_both_met_or_both_broken(
    limit: float, clause: float, other: float
) -> None:
    assume(min(abs(clause - limit), abs(other - limit)) > 1e-5)  # closer than that arithmetic may decide
    measured = decided(STEP, clause, min(clause, other), max(clause, other))

    below, above = (judge(f"step_time {sign} {limit:.6f}x", measured).outcome for sign in ("<=", ">"))

    assert {below, above} in ({GoalOutcome.MET, GoalOutcome.BROKEN}, {GoalOutcome.UNDECIDED})


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=8), st.floats(1e-3, 1e3))
def test_the_unit_of_a_clause_does_not_change_its_outcome(values: list[float], limit: float) -> None:
    seconds = judge(f"step_time <= {limit:.6f} s", levels(STEP, *values)).outcome
    milliseconds = judge(f"step_time <= {1000 * float(f'{limit:.6f}'):.3f} ms", levels(STEP, *values)).outcome

    assert seconds is milliseconds
