"""Properties that hold of every comparison, whatever the numbers."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.model import Process, VerdictKind
from perfci.stats.location_shift import NoisePrior, shrink_standard_error
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict, interim_analysis
from perfci.verdicts.comparison_rule import Rule
from tests.support.builders import a_process, a_series

properties = settings(derandomize=True, deadline=None, max_examples=60)
TIME = a_series()
THROUGHPUT = a_series(metric="tokens_per_s", unit="tokens/s", direction="higher")
MEMORY = a_series(metric="peak", unit="bytes")
MIRRORED = {VerdictKind.REGRESSION: VerdictKind.IMPROVEMENT, VerdictKind.IMPROVEMENT: VerdictKind.REGRESSION}

EFFECTS = (0.8, 0.95, 1.0, 1.02, 1.05, 1.08, 1.3)

Levels = list[float]
Pairs = tuple[Levels, Levels]


@st.composite
def pairs(draw: st.DrawFn, fewest: int = 2, most: int = 12, effects: tuple[float, ...] = EFFECTS) -> Pairs:
    """Levels of both sides: one of several noises, now and then a mode or an outlier, and a change of the
    head.
    """
    number = draw(st.integers(fewest, most))
    sd = draw(st.sampled_from([0.0, 0.002, 0.01, 0.04]))
    effect = draw(st.sampled_from(effects))
    deviation = st.floats(-2.5, 2.5).map(lambda x: round(x, 3))
    state = st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.08, 0.5])
    side = st.lists(st.tuples(deviation, state), min_size=number, max_size=number)
    base, head = ([math.exp(sd * noise + more) for noise, more in draw(side)] for _ in range(2))
    return base, [effect * level for level in head]


def answer(base: Levels, head: Levels, **more: Any) -> dict[str, Any]:
    case = {"id": 1, "base": [[level] for level in base], "head": [[level] for level in head], **more}
    (result,) = judge_cases_json({"op": "compare", "min_effect": 0.05, "cases": [case]})["results"]
    return dict(result)


def side(levels: Levels, spread: float = 0.001) -> list[Process]:
    """Processes of three samples around each level; their reciprocals have the reciprocal median."""
    return [a_process(x * (1 - spread), x, x * (1 + spread), pair=k) for k, x in enumerate(levels)]


@properties
@given(pairs(), st.sampled_from([1e-9, 0.125, 3.0, 2.0**20, 1e12]))
def test_another_scale_or_unit_changes_nothing(sides: Pairs, factor: float) -> None:
    base, head = sides
    before, after = answer(base, head), answer([factor * x for x in base], [factor * x for x in head])

    assert (after["verdict"], after["regression"], after["confident"]) == (
        before["verdict"],
        before["regression"],
        before["confident"],
    )
    assert after["ratio"] == pytest.approx(before["ratio"], rel=1e-6)


@properties
@given(pairs(most=8))
def test_bytes_and_mebibytes_are_judged_alike(sides: Pairs) -> None:
    base, head = ([2.0**30 * x for x in levels] for levels in sides)
    mebibytes = replace(MEMORY, metric=replace(MEMORY.metric, unit="MiB"))

    whole = confirmation_verdict(MEMORY, "a", "b", side(base), side(head))
    small = confirmation_verdict(
        mebibytes, "a", "b", side([x / 2**20 for x in base]), side([x / 2**20 for x in head])
    )

    assert whole.kind is small.kind
    assert whole.ratio == pytest.approx(small.ratio, rel=1e-9)


@properties
@given(pairs())
def test_time_running_backwards_changes_nothing(sides: Pairs) -> None:
    base, head = sides

    before, after = answer(base, head), answer(base[::-1], head[::-1])

    assert after["verdict"] == before["verdict"]
    assert after["ratio"] == pytest.approx(before["ratio"], rel=1e-9)


@properties
@given(pairs(most=8))
def test_throughput_is_judged_as_the_time_it_is_the_inverse_of(sides: Pairs) -> None:
    base, head = sides

    time = confirmation_verdict(TIME, "a", "b", side(base), side(head))
    throughput = confirmation_verdict(
        THROUGHPUT, "a", "b", side([1 / x for x in base]), side([1 / x for x in head])
    )

    assert throughput.kind is time.kind
    assert throughput.ratio == pytest.approx(1 / (time.ratio or math.nan), rel=1e-4)


@properties
@given(pairs(most=8))
def test_swapping_base_and_head_mirrors_the_verdict(sides: Pairs) -> None:
    base, head = sides

    forth, back = (
        confirmation_verdict(TIME, "a", "b", side(item), side(other))
        for item, other in ((base, head), (head, base))
    )

    assert back.kind is MIRRORED.get(forth.kind, forth.kind)
    assert back.ratio == pytest.approx(1 / (forth.ratio or math.nan), rel=1e-9)
    if forth.interval and back.interval:
        assert back.interval.lo == pytest.approx(1 / forth.interval.hi, rel=1e-6)


@properties
@given(pairs(effects=(1.08, 1.3)), st.sampled_from([1.01, 1.1, 2.0]))
def test_a_head_that_is_slower_still_stays_a_regression(sides: Pairs, more: float) -> None:
    base, head = sides

    before, after = answer(base, head), answer(base, [more * level for level in head])

    assert after["confident"] or not before["confident"]


@properties
@given(pairs(fewest=3, effects=(0.97, 1.0, 1.02)))
def test_one_more_agreeing_pair_makes_no_regression(sides: Pairs) -> None:
    base, head = sides
    before = answer(base, head)

    middle = sorted(base)[len(base) // 2]
    after = answer([*base, middle], [*head, middle * before["ratio"]])

    assert (before["verdict"], after["verdict"]) != ("unchanged", "regression")


@properties
@given(st.floats(1e-6, 1e6), st.integers(2, 20), st.sampled_from([0.9, 1.0, 1.04, 1.05, 1.06, 1.5]))
def test_constants_are_judged_by_the_bar_alone(level: float, number: int, effect: float) -> None:
    result = answer([level] * number, [effect * level] * number)

    expected = "regression" if effect >= 1.05 else "improvement" if effect < 0.95 else "unchanged"
    assert result["verdict"] == expected
    assert result["ratio"] == pytest.approx(effect, rel=1e-9)


@properties
@given(pairs(fewest=2, most=6), st.integers(2, 6))
def test_ties_do_not_narrow_the_interval_to_nothing(sides: Pairs, times: int) -> None:
    level = sides[0][0]
    result = answer([level] * times, [level] * times)

    assert result["ci"][0] < 1.0 < result["ci"][1]
    assert result["verdict"] == "unchanged"


def test_zero_on_both_sides_is_unchanged_and_on_one_side_no_ratio() -> None:
    nothing, something = [a_process(0.0, pair=0)], [a_process(1.0, pair=0)]

    assert confirmation_verdict(TIME, "a", "b", nothing, nothing).kind is VerdictKind.UNCHANGED
    assert confirmation_verdict(TIME, "a", "b", something, nothing).kind is VerdictKind.NOT_COMPARABLE
    assert confirmation_verdict(TIME, "a", "b", nothing, something).kind is VerdictKind.NOT_COMPARABLE


@properties
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_a_single_pair_decides_nothing(before: float, after: float) -> None:
    result = answer([before], [after])

    assert (result["verdict"], result["ci"], result["confident"]) == ("inconclusive", None, False)
    assert confirmation_verdict(TIME, "a", "b", side([before], 0.0), side([after], 0.0)).interval is None


@properties
@given(pairs(), st.sampled_from(["base", "head", "aa"]), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_refuses_values_that_are_no_numbers_in_one_sentence(sides: Pairs, where: str, wrong: float) -> None:
    base, head = ([[x] for x in levels] for levels in sides)
    case: dict[str, Any] = {"id": 7, "base": base, "head": head, "aa": [0.01]}
    case[where][0] = wrong if where == "aa" else [wrong]

    (result,) = judge_cases_json({"op": "compare", "cases": [case]})["results"]

    place = "aa[0]" if where == "aa" else f"{where}[0][0]"
    assert result == {"id": 7, "error": f"{place}: Input should be a finite number (found {wrong})."}


def test_a_process_refuses_values_that_are_not_finite() -> None:
    with pytest.raises(ValueError, match="samples must be finite numbers"):
        a_process(1.0, math.nan)


@properties
@given(pairs(fewest=5), st.sampled_from(["compare", "decide"]))
def test_the_same_input_gives_the_same_verdict(sides: Pairs, op: str) -> None:
    base, head = ([[x] for x in levels] for levels in sides)
    document = {"op": op, "cases": [{"id": 1, "base": base, "head": head}]}

    assert json.dumps(judge_cases_json(document)) == json.dumps(judge_cases_json(document))


@properties
@given(pairs(fewest=10, most=20), st.floats(-6, 0.5), st.integers(1, 20))
def test_a_wrong_noise_prior_flips_no_clear_verdict(sides: Pairs, power: float, worth: int) -> None:
    bare = PairedLogCosts.from_processes(TIME, side(sides[0]), side(sides[1])).estimate_shift()
    limits = DecisionLimits.from_rule(Rule())
    clear = limits.classify(bare)
    assume(limits.classify(replace(bare, error=2.5 * bare.error)) is clear is not VerdictKind.INCONCLUSIVE)

    moderated = shrink_standard_error(bare, NoisePrior(10**power, worth))

    assert limits.classify(moderated) is clear


@settings(properties, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    pairs(fewest=10, effects=(0.98, 1.0, 1.02)),
    st.lists(st.sampled_from([1e-6, -1e-6, 2e-6]), min_size=3, max_size=30),
)
def test_a_quiet_aa_history_turns_no_noise_into_a_regression(sides: Pairs, aa: list[float]) -> None:
    alone = answer(*sides)
    assume(alone["verdict"] == "unchanged")

    assert answer(*sides, aa=aa)["verdict"] == "unchanged"


@properties
@given(pairs(fewest=5, most=20))
def test_interim_analyses_never_exceed_the_cap_and_decide_there(sides: Pairs) -> None:
    look = interim_analysis(TIME, "a", "b", side(sides[0]), side(sides[1]), rule=Rule(max_pairs=20))
    verdict, more = look.verdict, look.pairs_to_buy

    assert len(sides[0]) + more <= 20
    if more:
        assert verdict.kind is VerdictKind.INCONCLUSIVE


@properties
@given(pairs(fewest=5, most=12))
def test_an_interim_analysis_depends_on_the_pairs_and_the_rule_only(sides: Pairs) -> None:
    first, again = (interim_analysis(TIME, "a", "b", side(sides[0]), side(sides[1])) for _ in range(2))

    assert first == again
