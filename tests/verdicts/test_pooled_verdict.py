"""The pooled verdict over all benchmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.model import Series
from perfci.stats.location_shift import Shift
from perfci.verdicts.compare.pooled_verdict import PooledKind, PooledVerdict, pooled_verdict_of_series
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import a_series
from tests.support.sampled_proofs import sample_or_whole


def a_suite(effects: Sequence[float], *, seed: int, pairs: int = 5, sd: float = 0.01) -> str:
    """What `perfci judge` says of benchmarks that became so much slower, with this noise from process to
    process.
    """
    rng = np.random.default_rng(seed)
    cases = []
    for k, effect in enumerate(effects):
        base, head = np.exp(rng.normal(0, sd, (2, pairs, 1)))
        cases.append({"id": k, "group": "pr", "base": base.tolist(), "head": (effect * head).tolist()})
    (group,) = judge_cases_json({"op": "compare", "cases": cases})["groups"]
    return str(group["pooled"])


@sample_or_whole("number", 50, 200)
def test_finds_a_shift_of_one_and_a_half_percent_everywhere(number: int) -> None:
    suites = [a_suite([1.015] * 20, seed=seed) for seed in range(number)]

    assert suites.count("worse_everywhere") >= 0.9 * number


@sample_or_whole("number", 50, 200)
def test_finds_no_shift_in_noise(number: int) -> None:
    suites = [a_suite([1.0] * 20, seed=seed) for seed in range(number)]

    assert suites.count("no_shift") >= 0.9 * number
    assert suites.count("worse_everywhere") + suites.count("better_everywhere") <= 0.05 * number


@sample_or_whole("number", 50, 200)
def test_one_slow_benchmark_is_not_everywhere(number: int) -> None:
    suites = [a_suite([1.3] + [1.0] * 19, seed=seed) for seed in range(number)]

    assert suites.count("worse_everywhere") + suites.count("better_everywhere") == 0


@sample_or_whole("number", 25, 100)
def test_half_of_the_benchmarks_is_not_everywhere(number: int) -> None:
    suites = [a_suite([1.05, 0.99] * 10, seed=seed) for seed in range(number)]

    assert "worse_everywhere" not in suites


def shifts(*centres: float, unit: str = "seconds", metric: str = "time") -> list[tuple[Series, Shift]]:
    return [
        (a_series(f"suite.time_{k}", metric, unit=unit), Shift(centre, 0.004, 8, 5))
        for k, centre in enumerate(centres)
    ]


def pool_times(result: list[tuple[Series, Shift]]) -> PooledVerdict:
    return pooled_verdict_of_series(result, Policy())


@pytest.mark.parametrize(
    ("centres", "kind", "reason"),
    [
        (
            (0.02, 0.019, 0.021, 0.02, 0.02),
            PooledKind.WORSE,
            "+2.0 % in cost over 5 benchmarks, interval +1.5 % to +2.5 %, 5 of them this way: "
            "beyond the threshold of 1.0 % for all together.",
        ),
        (
            (-0.02, -0.019, -0.021, -0.02, -0.02),
            PooledKind.BETTER,
            "−2.0 % in cost over 5 benchmarks, interval −2.5 % to −1.5 %, 5 of them this way: "
            "beyond the threshold of 1.0 % for all together.",
        ),
        (
            (0.001, -0.002, 0.003, 0.0, -0.001),
            PooledKind.NO_SHIFT,
            "+0.02 % in cost over 5 benchmarks, interval −0.5 % to +0.5 %: inside 1.0 % either way.",
        ),
        (
            (0.008, 0.009, 0.008, 0.009, 0.007),
            PooledKind.INCONCLUSIVE,
            "+0.8 % in cost over 5 benchmarks, interval +0.3 % to +1.3 %, 5 of them this way: "
            "neither all one way beyond 1.0 % nor all inside it.",
        ),
        (
            (0.02, 0.02, 0.02, 0.02),
            PooledKind.TOO_FEW,
            "Nothing to pool: 4 of at least 5 benchmarks have a time with an interval.",
        ),
    ],
)
def test_states_the_benchmarks_and_interval_it_rests_on(
    centres: tuple[float, ...], kind: PooledKind, reason: str
) -> None:
    result = pool_times(shifts(*centres))

    assert (result.kind, result.reason) == (kind, reason)


def test_counts_a_benchmark_once_however_many_metrics_and_points_it_has() -> None:
    grid = [
        (a_series("suite.time_one", metric, parameters={"n": str(n)}), Shift(0.02, 0.004, 8, 5))
        for n in range(10)
        for metric in ("step_time", "forward_time")
    ]

    assert pool_times(grid).benchmarks == 1
    assert pool_times([*grid, *shifts(0.0, 0.0, 0.0, 0.0)]).kind is not PooledKind.WORSE


def test_pools_throughput_with_time_and_leaves_memory_out() -> None:
    memory, rates = shifts(*[0.02] * 6, unit="bytes", metric="peak"), shifts(*[0.02] * 6, unit="tokens/s")

    assert pool_times(memory).kind is PooledKind.TOO_FEW
    assert pool_times(rates).kind is PooledKind.WORSE


def test_leaves_out_a_single_pair_without_an_error() -> None:
    lonely = [(a_series(f"suite.time_{k}"), Shift(0.02, math.inf, 0.0, 1)) for k in range(9)]

    assert pool_times(lonely).kind is PooledKind.TOO_FEW


def test_leaves_out_cases_without_a_group() -> None:
    case = {"id": 1, "base": [[1.0]] * 5, "head": [[1.0]] * 5}

    assert "groups" not in judge_cases_json({"op": "compare", "cases": [case]})
    assert [
        group["group"]
        for group in judge_cases_json({"op": "compare", "cases": [dict(case, group=7)]})["groups"]
    ] == [7]
