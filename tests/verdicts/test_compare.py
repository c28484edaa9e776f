"""From the processes of two commits to one verdict."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import Boundaries, Clock, Interval, Process, Stage, Status, Verdict, VerdictKind
from perfci.verdicts.compare import Rule, control, convict, look, screen
from tests.builders import a_failed_process, a_process, a_series

properties = settings(derandomize=True, deadline=None, max_examples=40)
TIME = a_series()
THROUGHPUT = a_series(metric="tokens_per_s", unit="tokens/s", direction="higher")


def side(level: float, pairs: int = 8, *, sd: float = 0.01, seed: int = 0, clock: Clock = Clock.WALL) -> list[Process]:
    """One process of five samples per pair, lognormal between processes."""
    rng = np.random.default_rng([seed, pairs, int(1000 * level)])
    levels = level * np.exp(rng.normal(0, sd, pairs))
    return [a_process(*(float(v * f) for f in (0.99, 1.0, 1.01)), pair=k, clock=clock) for k, v in enumerate(levels)]


def exact(*values: float) -> list[Process]:
    return [a_process(value, clock=Clock.EXACT, pair=k) for k, value in enumerate(values)]


def judge(base: Sequence[Process], head: Sequence[Process], **rule: object) -> VerdictKind:
    return convict(TIME, "base", "head", base, head, rule=Rule(**rule)).kind  # type: ignore[arg-type]


def test_a_slowdown_of_eight_percent_is_a_regression() -> None:
    verdict = convict(TIME, "base", "head", side(1.0), side(1.08))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.ratio == pytest.approx(1.08, abs=0.015)
    assert verdict.interval is not None
    assert 1.025 < verdict.interval.lo < 1.08 < verdict.interval.hi
    assert (verdict.stage, verdict.base, verdict.head, verdict.pairs) == (Stage.CONVICTION, "base", "head", 8)


def test_the_reason_is_one_plain_sentence() -> None:
    base = [a_process(1.0, pair=k) for k in range(8)]
    head = [a_process(1.1, pair=k) for k in range(8)]

    assert convict(TIME, "base", "head", base, head).reason == (
        "+10.0% over 8 pairs, interval +9.9% to +10.1%: beyond the bar of 5.0%, and half of it is excluded."
    )


def test_nothing_changed_is_unchanged_and_says_what_it_could_have_seen() -> None:
    verdict = convict(TIME, "base", "head", side(1.0), side(1.0, seed=1))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.mde is not None
    assert verdict.noise_floor is not None
    assert 0.05 < verdict.mde < 0.08
    assert 0 < verdict.noise_floor < 0.03


def test_noise_that_hides_the_bar_is_inconclusive_with_the_pairs_that_would_decide() -> None:
    verdict = convict(TIME, "base", "head", side(1.0, 5, sd=0.05, seed=2), side(1.0, 5, sd=0.05, seed=3))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.pairs_to_decide is not None
    assert verdict.pairs_to_decide > 0


def test_screening_is_more_sensitive_than_conviction() -> None:
    base, head = side(1.0, 6, sd=0.03), side(1.07, 6, sd=0.03, seed=5)

    assert screen(TIME, "base", "head", base, head).kind is VerdictKind.REGRESSION
    assert convict(TIME, "base", "head", base, head).kind is VerdictKind.INCONCLUSIVE


def test_strict_asks_for_the_whole_interval_beyond_the_bar() -> None:
    base = [a_process(1.0, pair=k) for k in range(9)]
    head = [a_process(1.04 + 0.005 * k, pair=k) for k in range(9)]

    assert judge(base, head) is VerdictKind.REGRESSION
    assert judge(base, head, strict=True) is VerdictKind.INCONCLUSIVE


def test_a_throughput_that_falls_is_a_regression() -> None:
    verdict = convict(THROUGHPUT, "base", "head", side(100.0), side(90.0))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.ratio == pytest.approx(0.9, abs=0.01)
    assert verdict.interval is not None
    assert verdict.interval.lo < 0.9 < verdict.interval.hi


def test_a_series_that_wanders_among_equals_raises_its_own_bar() -> None:
    base, head = side(1.0), side(1.08)

    wandering = convict(TIME, "base", "head", base, head, aa=[0.1, -0.12, 0.09])

    assert wandering.kind is VerdictKind.INCONCLUSIVE
    assert wandering.noise_floor == pytest.approx(0.226, abs=0.01)
    assert convict(TIME, "base", "head", base, head, aa=[0.001, -0.002]).kind is VerdictKind.REGRESSION


def test_a_raised_bar_does_not_prove_more_changes_away() -> None:
    assert convict(TIME, "a", "b", side(1.0), side(1.0, seed=1), aa=[0.1, -0.1]).kind is VerdictKind.UNCHANGED
    assert convict(TIME, "a", "b", side(1.0), side(1.2), aa=[0.2, -0.2]).kind is VerdictKind.INCONCLUSIVE


def test_a_known_spread_decides_sooner() -> None:
    base, head = side(1.0, 3, sd=0.03, seed=8), side(1.1, 3, sd=0.03, seed=9)

    alone = convict(TIME, "base", "head", base, head)
    informed = convict(TIME, "base", "head", base, head, prior_sd=0.02)

    assert alone.interval is not None
    assert informed.interval is not None
    assert informed.interval.hi - informed.interval.lo < alone.interval.hi - alone.interval.lo


def test_many_comparisons_ask_for_stronger_evidence() -> None:
    base, head = side(1.0, 6, sd=0.02), side(1.08, 6, sd=0.02, seed=2)

    alone, among = (convict(TIME, "base", "head", base, head, comparisons=n) for n in (1, 1000))

    assert alone.kind is VerdictKind.REGRESSION
    assert among.kind is VerdictKind.INCONCLUSIVE
    assert among.reason.endswith(
        "Held back: among so many comparisons this much is to be expected by chance; about 6 more pairs would decide."
    )
    assert among.pairs_to_decide == 6


def test_a_group_is_held_to_its_false_discovery_rate() -> None:
    clear = convict(TIME, "base", "head", side(1.0), side(1.2))
    weak = convict(TIME, "base", "head", side(1.0, 6, sd=0.02), side(1.08, 6, sd=0.02, seed=2))
    nothing = [convict(TIME, "base", "head", side(1.0, seed=k), side(1.0, seed=k + 100)) for k in range(40)]

    held = control([clear, weak, *nothing])

    assert [verdict.kind for verdict in held[:2]] == [VerdictKind.REGRESSION, VerdictKind.INCONCLUSIVE]
    assert held[2:] == nothing


def test_exact_counts_are_compared_exactly() -> None:
    equal = screen(TIME, "base", "head", exact(600, 600), exact(600))
    more = screen(TIME, "base", "head", exact(600), exact(660))
    little_more = screen(TIME, "base", "head", exact(600), exact(601))
    fewer = screen(TIME, "base", "head", exact(600), exact(300))

    assert (equal.kind, equal.interval, equal.noise_floor) == (VerdictKind.UNCHANGED, Interval(1.0, 1.0), 0.0)
    assert (more.kind, more.ratio) == (VerdictKind.REGRESSION, pytest.approx(1.1))
    assert (little_more.kind, little_more.reason) == (
        VerdictKind.UNCHANGED,
        "Counted exactly: 600 became 601 (+0.2%), below the bar of 5%.",
    )
    assert fewer.kind is VerdictKind.IMPROVEMENT


def test_exact_counts_too_say_what_was_left_out() -> None:
    throttled = a_process(5.0, clock=Clock.EXACT, pair=2, flags=("throttled: hot",))

    verdict = screen(TIME, "base", "head", exact(5, 5, 5), [*exact(5, 5), throttled])

    assert verdict.reason == "Exactly 5 on both sides. Not judged: 1 of 6 processes, flagged throttled: hot."


def test_a_count_that_appears_or_vanishes_has_no_ratio() -> None:
    appears = screen(TIME, "base", "head", exact(0), exact(3))
    vanishes = screen(TIME, "base", "head", exact(3), exact(0))
    never = screen(TIME, "base", "head", exact(0), exact(0))

    assert (appears.kind, appears.ratio) == (VerdictKind.REGRESSION, None)
    assert appears.reason == "Counted exactly: 0 became 3, which no ratio expresses."
    assert (vanishes.kind, vanishes.ratio) == (VerdictKind.IMPROVEMENT, 0.0)
    assert never.kind is VerdictKind.UNCHANGED


def test_counts_that_vary_between_processes_are_no_exact_counts() -> None:
    verdict = screen(TIME, "base", "head", exact(600, 610, 605, 602, 598), exact(603, 599, 608, 601, 607))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.pairs == 5
    assert verdict.interval != Interval(1.0, 1.0)


def test_levels_of_zero_have_no_ratio_and_are_not_comparable() -> None:
    zeros = [a_process(0.0, pair=k) for k in range(5)]

    assert judge(zeros, side(1.0, 5)) is VerdictKind.NOT_COMPARABLE
    assert judge(zeros, zeros) is VerdictKind.UNCHANGED


def test_a_head_that_crashes_where_the_base_works_has_failed() -> None:
    verdict = convict(TIME, "base", "head", side(1.0), [a_failed_process(Status.OOM, reason="CUDA out of memory")] * 8)

    assert verdict.kind is VerdictKind.FAILED
    assert verdict.reason == "The base works and the head ended as oom (CUDA out of memory)."


@pytest.mark.parametrize(
    ("base", "head", "reason"),
    [
        ([], side(1.0), "the base was not measured"),
        (side(1.0), [], "the head was not measured"),
        ([a_failed_process()], side(1.0), "the base ended as failed (ValueError: no such layer)"),
        (side(1.0), [a_failed_process(Status.SKIPPED, reason="no GPU")], "the head was skipped (no GPU)"),
        ([a_process(pair=1)], [a_process(pair=2)], "no pair has both its processes"),
    ],
)
def test_nothing_on_one_side_is_missing(base: list[Process], head: list[Process], reason: str) -> None:
    verdict = screen(TIME, "base", "head", base, head)

    assert verdict.kind is VerdictKind.MISSING
    assert verdict.reason == f"There is nothing to compare: {reason}."


@pytest.mark.parametrize(
    ("base", "head", "left_out"),
    [
        (side(1.0, 2), [a_process(pair=0, flags=("throttled: 1 of 8 blocks",))], "1 of 3 processes, flagged throttled"),
        (
            [a_process(pair=0, flags=("shared_gpu",)), a_process(pair=1)],
            [a_process(pair=0), a_process(pair=1, flags=("throttled: hot",))],
            "2 of 4 processes, flagged shared_gpu; throttled: hot",
        ),
    ],
)
def test_what_only_flagged_processes_could_tell_is_inconclusive(
    base: list[Process], head: list[Process], left_out: str
) -> None:
    verdict = screen(TIME, "base", "head", base, head)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.reason.startswith(f"There is nothing to judge: {left_out}")


def test_a_head_that_fails_has_failed_however_hot_the_base_ran() -> None:
    verdict = screen(TIME, "base", "head", [a_process(flags=("throttled",))], [a_failed_process()])

    assert verdict.kind is VerdictKind.FAILED


def test_samples_that_forgot_their_process_are_not_comparable() -> None:
    verdict = screen(TIME, "base", "head", side(1.0), side(1.2), boundaries=Boundaries.POOLED)

    assert verdict.kind is VerdictKind.NOT_COMPARABLE


def test_pairs_belong_together_by_number_and_flagged_processes_do_not_count() -> None:
    base, head = side(1.0, 8), side(1.0, 8, seed=1)
    head[2] = a_process(9.0, pair=2, flags=("throttled",))

    verdict = convict(TIME, "base", "head", base, list(reversed(head)))

    assert (verdict.kind, verdict.pairs) == (VerdictKind.UNCHANGED, 7)
    assert verdict.reason.endswith("Not judged: 1 of 16 processes, flagged throttled.")


def test_one_pair_says_how_much_and_nothing_more() -> None:
    verdict = screen(TIME, "base", "head", side(1.0, 1), side(1.5, 1))

    assert (verdict.kind, verdict.interval, verdict.mde) == (VerdictKind.INCONCLUSIVE, None, None)
    assert verdict.ratio == pytest.approx(1.5, abs=0.05)


def play(effect: float, sd: float, seed: int, rule: Rule) -> Verdict:
    """Buy pairs as told until it is decided."""
    rng = np.random.default_rng(seed)
    pairs, more = 0, rule.looks[0]
    base: list[Process] = []
    head: list[Process] = []
    while more:
        base += [a_process(float(np.exp(rng.normal(0, sd))), pair=pairs + k) for k in range(more)]
        head += [a_process(float(np.exp(rng.normal(effect, sd))), pair=pairs + k) for k in range(more)]
        pairs += more
        seen = look(TIME, "base", "head", base, head, rule=rule)
        verdict, more = seen.verdict, seen.more
    return verdict


def test_deciding_a_quiet_benchmark_takes_the_first_look() -> None:
    verdicts = [play(effect, 0.003, 1, Rule()) for effect in (0.0, math.log(1.1), -math.log(1.1))]

    assert [(verdict.kind, verdict.pairs) for verdict in verdicts] == [
        (VerdictKind.UNCHANGED, 5),
        (VerdictKind.REGRESSION, 5),
        (VerdictKind.IMPROVEMENT, 5),
    ]


def test_deciding_a_noisy_benchmark_takes_more_and_ends_at_the_cap() -> None:
    verdicts = [play(0.0, 0.04, seed, Rule()) for seed in range(20)]

    assert 7 < np.mean([verdict.pairs for verdict in verdicts]) < 20
    assert max(verdict.pairs for verdict in verdicts) <= 20
    assert VerdictKind.REGRESSION not in {verdict.kind for verdict in verdicts}


def test_looking_often_keeps_the_error_of_one_look() -> None:
    at_the_bar = [play(math.log(1.05), 0.02, seed, Rule()).kind for seed in range(150)]

    assert at_the_bar.count(VerdictKind.UNCHANGED) <= 8  # nominal 2.5 %; anew at every look 8 %


def test_a_change_that_sits_at_the_bar_is_told_early_instead_of_pursued() -> None:
    base = [a_process(1.0, pair=k) for k in range(5)]
    head = [a_process(level, pair=k) for k, level in enumerate((1.044, 1.046, 1.048, 1.050, 1.052))]

    seen = look(TIME, "base", "head", base, head)
    verdict, more = seen.verdict, seen.more

    assert (verdict.kind, more) == (VerdictKind.INCONCLUSIVE, 0)
    assert verdict.reason == (
        "+4.8% over 5 pairs, interval +4.4% to +5.2%: "
        "neither beyond the bar of 5.0% nor inside it, too close to the bar for more pairs to settle."
    )


def test_pairs_that_would_hardly_decide_are_not_bought() -> None:
    base = [a_process(1.0, pair=k) for k in range(16)]
    head = [a_process(1.036 + 0.06 * (-1) ** k, pair=k) for k in range(16)]

    seen = look(TIME, "base", "head", base, head)
    verdict, more = seen.verdict, seen.more
    with_room = look(TIME, "base", "head", base, head, rule=Rule(max_pairs=60)).more

    assert (verdict.kind, more) == (VerdictKind.INCONCLUSIVE, 0)
    assert with_room > 0


def test_looks_are_planned_up_to_whatever_cap() -> None:
    assert Rule(max_pairs=7).planned_looks == [5, 6, 7]
    assert Rule(max_pairs=30).planned_looks[-6:] == [20, 22, 24, 26, 28, 30]


def test_asking_again_answers_the_same() -> None:
    base, head = side(1.0, 8, sd=0.03), side(1.04, 8, sd=0.03)

    assert look(TIME, "base", "head", base, head) == look(TIME, "base", "head", base, head)


def test_what_is_exact_or_refused_needs_no_more_pairs() -> None:
    assert look(TIME, "base", "head", exact(5), exact(6)).more == 0
    assert look(TIME, "base", "head", side(1.0), []).more == 0


@properties
@given(st.floats(0.8, 1.25), st.floats(1e-5, 1e5), st.integers(0, 1000))
def test_the_unit_does_not_matter(effect: float, unit: float, seed: int) -> None:
    base, head = side(1.0, 6, seed=seed), side(effect, 6, seed=seed + 1)
    scaled = [[a_process(*(unit * s for s in p.samples), pair=p.pair) for p in one] for one in (base, head)]

    assert judge(base, head) is judge(scaled[0], scaled[1])


@properties
@given(st.floats(0.8, 1.25), st.integers(0, 1000))
def test_swapping_the_commits_swaps_better_and_worse(effect: float, seed: int) -> None:
    base, head = side(1.0, 6, seed=seed), side(effect, 6, seed=seed + 1)
    opposite = {VerdictKind.REGRESSION: VerdictKind.IMPROVEMENT, VerdictKind.IMPROVEMENT: VerdictKind.REGRESSION}

    forth, back = judge(base, head), judge(head, base)

    assert back is opposite.get(forth, forth)


@properties
@given(st.floats(0.8, 1.25), st.integers(0, 1000))
def test_a_rate_is_judged_as_the_time_it_takes(effect: float, seed: int) -> None:
    base, head = side(1.0, 6, seed=seed), side(effect, 6, seed=seed + 1)
    rates = [[a_process(*(1 / s for s in p.samples), pair=p.pair) for p in one] for one in (base, head)]

    times, rate = judge(base, head), convict(THROUGHPUT, "base", "head", rates[0], rates[1]).kind

    assert times is rate


def test_judges_a_process_whose_flag_only_tells_how_it_was_started() -> None:
    base = [a_process(1.0 + n / 1000, pair=n, flags=("spawned: 2 threads are running",)) for n in range(6)]
    head = [a_process(1.0 + n / 1000, pair=n, flags=("spawned: 2 threads are running",)) for n in range(6)]

    assert screen(a_series(), "a" * 40, "b" * 40, base, head).pairs == 6
