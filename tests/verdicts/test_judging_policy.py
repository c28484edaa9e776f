"""The rule of each series, and the verdicts it gives."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import Clock, MetricClass, Point, Process, Series, Status, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict, interim_analysis, screening_verdict
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule
from perfci.verdicts.history.change_points_and_jumps import find_change_points_in_levels
from perfci.verdicts.judging_policy import (
    ALLOCATOR_BLOCK_BYTES,
    ALLOCATOR_SEGMENT_BYTES,
    Policy,
    PolicyOverride,
)
from tests.support.builders import a_commit, a_process, a_series, a_sha
from tests.support.level_histories import find_change_points

properties = settings(derandomize=True, deadline=None, max_examples=60)
PEAK = a_series(metric="peak_allocated_bytes", unit="bytes")
RESERVED = a_series(metric="peak_reserved_bytes", unit="bytes")
OPERATORS = a_series(metric="operators", unit="count")
LOSS = a_series(metric="loss_at_step_k", unit="loss")
COMPILE = a_series(metric="compile_time")
TPOT = a_series("generation.Gpt.measure_generation", "tpot", unit="seconds/token")
MIB = 2**20


def exact(*values: float) -> list[Process]:
    return [a_process(value, clock=Clock.EXACT, pair=k) for k, value in enumerate(values)]


def varying(
    level: float, by: tuple[float, ...] = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001)
) -> list[Process]:
    return [a_process(level * (1 + share), pair=k) for k, share in enumerate(by)]


def counted(series: Series, *values: float) -> list[Point]:
    return [Point(a_commit(k), Status.OK, tuple(exact(value))) for k, value in enumerate(values)]


@pytest.mark.parametrize(
    ("metric", "unit", "kind", "bar"),
    [
        ("time", "seconds", MetricClass.TIME, 0.05),
        ("step_time", "seconds", MetricClass.TIME, 0.05),
        ("tpot", "seconds/token", MetricClass.TIME, 0.05),
        ("itl_p50", "seconds", MetricClass.TIME, 0.05),
        ("ttft_p90", "seconds", MetricClass.TAIL, 0.10),
        ("e2el_p99", "seconds", MetricClass.TAIL, 0.10),
        ("compile_time", "seconds", MetricClass.COMPILE, 0.15),
        ("cpu_compile_cold", "seconds", MetricClass.COMPILE, 0.15),
        ("cold_start_time", "seconds", MetricClass.COMPILE, 0.15),
        ("loader_startup", "seconds", MetricClass.COMPILE, 0.15),
        ("peak_allocated_bytes", "bytes", MetricClass.MEMORY, 0.05),
        ("kv_cache_bytes", "bytes", MetricClass.MEMORY, 0.05),
        ("operators", "count", MetricClass.COUNT, 0.05),
        ("flops", "FLOP", MetricClass.COUNT, 0.05),
        ("tokens_per_s", "tokens/s", MetricClass.THROUGHPUT, 0.05),
        ("bandwidth", "bytes/s", MetricClass.THROUGHPUT, 0.05),
        ("sla_attainment", "ratio", MetricClass.SLA, 0.05),
        ("goodput", "requests/s", MetricClass.SLA, 0.05),
        ("loss_at_step_k", "loss", MetricClass.NUMERICS, 0.05),
        ("loss_time", "seconds", MetricClass.TIME, 0.05),
        ("loss_bytes", "bytes", MetricClass.MEMORY, 0.05),
        ("max_relative_error", "ratio", MetricClass.NUMERICS, 0.05),
        ("data_stall", "ratio", MetricClass.OTHER, 0.05),
    ],
)
def test_name_and_unit_determine_the_class_and_its_bar(
    metric: str, unit: str, kind: MetricClass, bar: float
) -> None:
    series = a_series(metric=metric, unit=unit)

    assert Policy().metric_class_of(series) is kind
    assert Policy().rule_for(series).bar == bar


def test_a_plain_time_has_the_default_rule() -> None:
    rule = Rule(bar=0.08, strict=True, max_pairs=40)

    assert Policy().rule_for(a_series()) == Rule()
    assert Policy(rule).rule_for(a_series()) == rule


def test_a_name_with_a_line_break_has_a_class_too() -> None:
    assert Policy().metric_class_of(a_series(metric="a\nb", unit="c\nd")) is MetricClass.OTHER


def test_the_bar_of_time_is_raised_for_start_times_and_lowered_for_memory_only() -> None:
    loose, fine = Policy(Rule(bar=0.2)), Policy(Rule(bar=0.02))

    assert [policy.rule_for(COMPILE).bar for policy in (loose, fine)] == [0.2, 0.15]
    assert [policy.rule_for(PEAK).bar for policy in (loose, fine)] == [0.05, 0.02]


def test_one_more_operator_is_a_regression_with_its_reason() -> None:
    verdict = confirmation_verdict(
        OPERATORS, "base", "head", exact(812), exact(813), rule=Policy().rule_for(OPERATORS)
    )

    assert verdict.kind is VerdictKind.REGRESSION
    assert (
        verdict.reason == "Counted exactly: 812 became 813 (+0.1 %), and for counts no change is too small."
    )


def test_a_loss_that_differs_in_its_last_bit_is_printed_with_all_its_digits() -> None:
    worse = math.nextafter(2.5, 3)

    verdict = confirmation_verdict(
        LOSS, "base", "head", exact(2.5), exact(worse), rule=Policy().rule_for(LOSS)
    )

    assert verdict.kind is VerdictKind.REGRESSION
    assert "2.5 became 2.5000000000000004" in verdict.reason


def test_a_count_that_varies_has_the_bar_of_time() -> None:
    rule = Policy().rule_for(OPERATORS)

    assert (
        confirmation_verdict(OPERATORS, "base", "head", varying(100), varying(101), rule=rule).kind
        is VerdictKind.UNCHANGED
    )
    assert (
        confirmation_verdict(OPERATORS, "base", "head", varying(100), varying(110), rule=rule).kind
        is VerdictKind.REGRESSION
    )


def test_twelve_percent_more_compile_time_is_below_its_bar_and_the_reason_says_so() -> None:
    rule = Policy().rule_for(COMPILE)

    verdict = confirmation_verdict(COMPILE, "base", "head", varying(1.0), varying(1.12), rule=rule)

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.reason.endswith("inside the threshold of 15.0 % for compile and start time either way.")
    assert (
        confirmation_verdict(COMPILE, "base", "head", varying(1.0), varying(1.12)).kind
        is VerdictKind.REGRESSION
    )


@pytest.mark.parametrize("make", [exact, lambda value: [a_process(value, pair=k) for k in range(8)]])
@pytest.mark.parametrize(
    ("series", "step"), [(PEAK, ALLOCATOR_BLOCK_BYTES), (RESERVED, ALLOCATOR_SEGMENT_BYTES)]
)
def test_the_allocator_s_own_step_is_no_change(
    series: Series, step: int, make: Callable[[float], list[Process]]
) -> None:
    rule = Policy().rule_for(series)
    base = make(4.0 * step)

    at, beyond = (
        confirmation_verdict(series, "b", "h", base, make(4.0 * step + more), rule=rule)
        for more in (step, 1.1 * step)
    )

    assert at.kind is not VerdictKind.REGRESSION
    assert "its floor of" in at.reason
    assert beyond.kind is VerdictKind.REGRESSION


def test_a_floor_applies_from_zero_too() -> None:
    rule = Policy().rule_for(PEAK)

    kinds = [
        confirmation_verdict(PEAK, "b", "h", exact(0), exact(after), rule=rule).kind
        for after in (ALLOCATOR_BLOCK_BYTES, 2 * ALLOCATOR_BLOCK_BYTES)
    ]

    assert kinds == [VerdictKind.UNCHANGED, VerdictKind.REGRESSION]


def test_the_first_matching_table_applies_and_what_it_leaves_out_stays() -> None:
    policy = Policy(
        Rule(),
        (
            PolicyOverride("generation.*tpot", bar=0.1),
            PolicyOverride("generation", bar=0.3),
            PolicyOverride("peak"),
        ),
    )

    assert policy.rule_for(TPOT).bar == 0.1
    assert policy.rule_for(a_series("generation.Gpt", "e2el")).bar == 0.3
    assert policy.rule_for(PEAK) == Policy().rule_for(PEAK)


def test_a_table_can_change_the_class_the_floor_and_whether_to_judge() -> None:
    policy = Policy(
        Rule(),
        (
            PolicyOverride("tpot", metric_class=MetricClass.COMPILE),
            PolicyOverride("reserved", floor_bytes=32 * MIB),
            PolicyOverride("operators", judge=False),
        ),
    )

    assert policy.rule_for(TPOT).bar == 0.15
    assert policy.rule_for(RESERVED).floor == 32 * MIB
    assert [policy.is_judged(series) for series in (OPERATORS, TPOT)] == [False, True]


def test_a_floor_in_bytes_is_for_bytes_only() -> None:
    policy = Policy(Rule(), (PolicyOverride(".", floor_bytes=4096.0, floor=0.001),))

    assert (policy.rule_for(PEAK).floor, policy.rule_for(a_series()).floor) == (4096.0, 0.001)


def test_a_bar_of_zero_counts_any_exact_change_and_leaves_noise_its_bar() -> None:
    rule = Policy(Rule(), (PolicyOverride("peak", bar=0.0, floor=0.0),)).rule_for(PEAK)

    assert (
        confirmation_verdict(PEAK, "b", "h", exact(1e6), exact(1e6 + 1), rule=rule).kind
        is VerdictKind.REGRESSION
    )
    assert (
        confirmation_verdict(PEAK, "b", "h", varying(1e6), varying(1e6), rule=rule).kind
        is VerdictKind.UNCHANGED
    )


def test_a_bar_given_for_counts_lets_small_changes_pass() -> None:
    rule = Policy(Rule(), (PolicyOverride("operators", bar=0.02),)).rule_for(OPERATORS)

    verdict = confirmation_verdict(OPERATORS, "b", "h", exact(100), exact(101), rule=rule)

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.reason.endswith("below the threshold of 2.0 % for the policy 'operators'.")


def test_every_change_of_a_count_is_in_its_history() -> None:
    points = counted(OPERATORS, 100, 100, 101, 101, 0, 3)

    change_points = find_change_points(OPERATORS, points, rule=Policy().rule_for(OPERATORS))

    assert [(move.commit, move.last_good) for move in change_points] == [
        (a_sha(k), a_sha(k - 1)) for k in (2, 4, 5)
    ]
    assert [move.relative_change for move in change_points] == pytest.approx([0.01, -1.0, 1.0])


def test_a_floor_holds_for_histories_too() -> None:
    levels = [(a_sha(k), 1000.0 + 500.0 * (k >= 10)) for k in range(20)]

    assert find_change_points_in_levels({PEAK: levels}, rules=Policy().rule_for) == {PEAK: []}
    assert len(find_change_points_in_levels({PEAK: levels})[PEAK]) == 1


def test_histories_with_different_bars_are_judged_beside_each_other_as_alone() -> None:
    levels = [(a_sha(k), 1.0 + 0.1 * (k >= 10)) for k in range(20)]
    together = {COMPILE: levels, a_series(): levels, TPOT: levels}

    histories = find_change_points_in_levels(together, rules=Policy().rule_for)

    assert list(histories) == list(together)
    assert [len(histories[series]) for series in together] == [0, 1, 1]


@properties
@given(
    ratio=st.floats(0.6, 1.6),
    lower=st.floats(0.0, 0.5),
    more=st.floats(0.0, 0.4),
    floors=st.tuples(st.floats(0, 50), st.floats(0, 50)),
    clock=st.sampled_from([Clock.EXACT, Clock.WALL]),
)
def test_a_higher_bar_or_floor_never_flags_more(
    ratio: float, lower: float, more: float, floors: tuple[float, float], clock: Clock
) -> None:
    base = [
        a_process(100.0 * (1 + 0.001 * k), clock=clock, pair=k)
        for k in range(1 if clock is Clock.EXACT else 8)
    ]
    head = [a_process(process.samples[0] * ratio, clock=clock, pair=process.pair) for process in base]
    low, high = Rule(bar=lower, floor=min(floors)), Rule(bar=lower + more, floor=max(floors))

    for judge in (screening_verdict, confirmation_verdict):
        flagged = [judge(PEAK, "b", "h", base, head, rule=rule).kind in MOVE_KINDS for rule in (low, high)]
        assert flagged[0] or not flagged[1]


@properties
@given(
    name=st.from_regex(r"[a-z_0-9]{1,20}", fullmatch=True),
    unit=st.sampled_from(["seconds", "bytes", "count", "x"]),
)
def test_every_metric_has_a_class_and_a_sane_rule(name: str, unit: str) -> None:
    rule = Policy().rule_for(a_series(metric=name, unit=unit))

    assert 0 < rule.bar <= 0.15
    assert rule.floor >= 0


@properties
@given(effect=st.floats(0.7, 1.4))
def test_a_plain_time_is_decided_as_without_a_policy(effect: float) -> None:
    base, head = varying(1.0), varying(effect)

    with_policy = interim_analysis(a_series(), "b", "h", base, head, rule=Policy().rule_for(a_series()))

    assert with_policy == interim_analysis(a_series(), "b", "h", base, head)
