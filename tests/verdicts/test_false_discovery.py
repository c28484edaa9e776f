"""False-discovery control holds back what chance would show among many comparisons."""

import numpy as np

from perfci.model import Clock, Interval, Process, Stage, Verdict, VerdictKind
from perfci.stats.multiple_comparisons import DEFAULT_FDR
from perfci.verdicts.compare.false_discovery import control_false_discoveries
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from tests.support.builders import a_process, a_series, a_verdict

TIME = a_series()


def side(
    level: float, pairs: int = 8, *, sd: float = 0.01, seed: int = 0, clock: Clock = Clock.WALL
) -> list[Process]:
    """One process of five samples per pair, lognormal between processes."""
    rng = np.random.default_rng([seed, pairs, int(1000 * level)])
    levels = level * np.exp(rng.normal(0, sd, pairs))
    return [
        a_process(*(float(v * f) for f in (0.99, 1.0, 1.01)), pair=k, clock=clock)
        for k, v in enumerate(levels)
    ]


def test_a_lower_rate_requires_stronger_evidence() -> None:
    base, head = side(1.0, 6, sd=0.02), side(1.08, 6, sd=0.02, seed=2)

    alone = confirmation_verdict(TIME, "base", "head", base, head)
    (among,) = control_false_discoveries([alone], DEFAULT_FDR / 1000)

    assert alone.kind is VerdictKind.REGRESSION
    assert among.kind is VerdictKind.INCONCLUSIVE
    assert among.reason.endswith(
        "Not counted, by false-discovery control: among this many comparisons a difference of this "
        "size is expected by chance; about 6 more pairs would decide."
    )
    assert among.pairs_to_decide == 6


def test_a_group_is_held_to_its_false_discovery_rate() -> None:
    clear = confirmation_verdict(TIME, "base", "head", side(1.0), side(1.2))
    weak = confirmation_verdict(TIME, "base", "head", side(1.0, 6, sd=0.02), side(1.08, 6, sd=0.02, seed=2))
    nothing = [
        confirmation_verdict(TIME, "base", "head", side(1.0, seed=k), side(1.0, seed=k + 100))
        for k in range(40)
    ]

    held = control_false_discoveries([clear, weak, *nothing])

    assert [verdict.kind for verdict in held[:2]] == [VerdictKind.REGRESSION, VerdictKind.INCONCLUSIVE]
    assert held[2:] == nothing


def confirmed(p_value: float, noise_floor: float = 0.01) -> Verdict:
    return a_verdict(
        stage=Stage.CONFIRMATION, p_value=p_value, noise_floor=noise_floor, interval=Interval(1.1, 1.3)
    )


def test_exact_changes_do_not_loosen_the_false_discovery_control() -> None:
    counts, doubtful = [confirmed(0.0, noise_floor=0.0)] * 50, confirmed(0.009)
    others = [a_verdict(kind=VerdictKind.UNCHANGED, p_value=0.5)] * 3

    alone, among = (
        control_false_discoveries([doubtful, *others], 0.01),
        control_false_discoveries([doubtful, *others, *counts], 0.01),
    )

    assert alone[0].kind is VerdictKind.INCONCLUSIVE
    assert among[0] == alone[0]
    assert [item.kind for item in among[4:]] == [VerdictKind.REGRESSION] * 50
