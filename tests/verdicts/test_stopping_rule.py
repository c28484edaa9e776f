"""How many pairs a comparison buys before it decides."""

import math

import numpy as np

from perfci.model import Process, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci.verdicts.comparison_rule import Rule
from tests.support.builders import a_process, a_series
from tests.support.sampled_proofs import sample_or_whole

TIME = a_series()


def play(effect: float, sd: float, seed: int, rule: Rule, *, values: int = 2) -> Verdict:
    """Buy pairs as told until it is decided; a process gives the same value several times."""
    rng = np.random.default_rng(seed)
    pairs, more = 0, rule.looks[0]
    base: list[Process] = []
    head: list[Process] = []
    while more:
        for side, shift in ((base, 0.0), (head, effect)):
            levels = np.exp(rng.normal(shift, sd, more)).tolist()
            side += [a_process(*[level] * values, pair=pairs + k) for k, level in enumerate(levels)]
        pairs += more
        look = interim_analysis(TIME, "base", "head", base, head, rule=rule)
        verdict, more = look.verdict, look.pairs_to_buy
    return verdict


def test_a_quiet_benchmark_is_decided_at_the_first_look() -> None:
    verdicts = [play(effect, 0.003, 1, Rule()) for effect in (0.0, math.log(1.1), -math.log(1.1))]

    assert [(verdict.kind, verdict.pairs) for verdict in verdicts] == [
        (VerdictKind.UNCHANGED, 5),
        (VerdictKind.REGRESSION, 5),
        (VerdictKind.IMPROVEMENT, 5),
    ]


def test_processes_of_one_value_take_twelve_pairs_to_be_unchanged() -> None:
    verdicts = [play(effect, 0.003, 1, Rule(), values=1) for effect in (0.0, math.log(1.1))]
    capped = play(0.0, 0.003, 1, Rule(max_pairs=8), values=1)

    assert [(verdict.kind, verdict.pairs) for verdict in verdicts] == [
        (VerdictKind.UNCHANGED, 12),
        (VerdictKind.REGRESSION, 5),
    ]
    assert (capped.kind, capped.pairs) == (VerdictKind.UNCHANGED, 8)


@sample_or_whole("comparisons", 20, 60)
def test_a_slow_mode_of_single_values_is_hardly_ever_missed(comparisons: int) -> None:
    """A third of the head's values 30 % slower: five pairs show none of them in 13 %."""
    rng = np.random.default_rng(3)
    unchanged = 0
    for _ in range(comparisons):
        base = np.exp(rng.normal(0, 0.006, 20)).tolist()
        head = np.exp(rng.normal(0, 0.006, 20) + np.log(1.3) * (rng.random(20) < 1 / 3)).tolist()
        pairs, more = 0, 5
        while more:
            pairs += more
            sides = [[a_process(side[k], pair=k) for k in range(pairs)] for side in (base, head)]
            look = interim_analysis(TIME, "base", "head", *sides)
            more = look.pairs_to_buy
        unchanged += look.verdict.kind is VerdictKind.UNCHANGED

    assert unchanged <= 0.05 * comparisons


def test_a_noisy_benchmark_takes_more_looks_and_ends_at_the_cap() -> None:
    verdicts = [play(0.0, 0.04, seed, Rule()) for seed in range(20)]

    assert 7 < np.mean([verdict.pairs for verdict in verdicts]) < 20
    assert max(verdict.pairs for verdict in verdicts) <= 20
    assert VerdictKind.REGRESSION not in {verdict.kind for verdict in verdicts}


@sample_or_whole("comparisons", 50, 150)
def test_repeated_interim_analyses_keep_the_error_of_one(comparisons: int) -> None:
    at_the_bar = [play(math.log(1.05), 0.02, seed, Rule()).kind for seed in range(comparisons)]

    unchanged = at_the_bar.count(VerdictKind.UNCHANGED)
    assert unchanged <= 0.054 * comparisons  # nominal 2.5 %; anew at every look 8 %


def test_stops_early_for_a_change_at_the_bar() -> None:
    base = [a_process(1.0, pair=k) for k in range(5)]
    head = [a_process(level, pair=k) for k, level in enumerate((1.044, 1.046, 1.048, 1.050, 1.052))]

    look = interim_analysis(TIME, "base", "head", base, head)
    verdict, more = look.verdict, look.pairs_to_buy

    assert (verdict.kind, more) == (VerdictKind.INCONCLUSIVE, 0)
    assert verdict.reason == (
        "+4.8 % over 5 pairs, interval +4.3 % to +5.3 %: "
        "neither beyond the threshold of 5.0 % nor inside it, "
        "too close to the threshold for more pairs to decide."
    )


def test_buys_no_pairs_that_would_hardly_decide() -> None:
    base = [a_process(1.0, pair=k) for k in range(16)]
    head = [a_process(1.036 + 0.06 * (-1) ** k, pair=k) for k in range(16)]

    look = interim_analysis(TIME, "base", "head", base, head)
    verdict, more = look.verdict, look.pairs_to_buy
    with_room = interim_analysis(TIME, "base", "head", base, head, rule=Rule(max_pairs=60)).pairs_to_buy

    assert (verdict.kind, more) == (VerdictKind.INCONCLUSIVE, 0)
    assert with_room > 0


def test_plans_looks_up_to_any_cap() -> None:
    assert Rule(max_pairs=7).planned_looks == [5, 6, 7]
    assert Rule(max_pairs=30).planned_looks[-6:] == [20, 22, 24, 26, 28, 30]
