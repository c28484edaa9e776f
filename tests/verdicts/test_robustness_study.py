"""Quick forms of the sweeps of ``tools/study_robustness.py``, and that broken rules fail them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from perfci.model import Process, Series, Status, Verdict
from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.step_size import LevelStep
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from tools import sweep_comparisons, sweep_histories
from tools.study_adaptive_pairs import Answer, Case
from tools.study_history import Logs, ReportedMove
from tools.sweep_comparisons import (
    CLOCKS,
    MEMBERS,
    STATE_MIXES,
    judge_comparisons,
    sweep_batches,
    sweep_failures,
    sweep_mode_mix,
    sweep_ticks,
)
from tools.sweep_histories import (
    LENGTH_NOISES,
    MEMORY_NOISES,
    sweep_busy_code,
    sweep_length,
    sweep_memory,
)
from tools.sweep_table import SweepTable

SweepFunction = Callable[[int], SweepTable]
QUICK_CASES: Mapping[SweepFunction, int] = {
    sweep_length: 20,
    sweep_memory: 3,
    sweep_busy_code: 20,
    sweep_mode_mix: 20,
    sweep_ticks: 50,
    sweep_failures: 4,
    sweep_batches: 80,
}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every sweep what tests/stats/test_change_points_elsewhere.py does not have."""
    lengths = ("t, 4 degrees of freedom", "one-sided (gamma)")
    memories = ("random walk and noise", "days", "weekends", "days and weekends")
    few: dict[Any, dict[str, Any]] = {
        sweep_histories: {
            "LENGTH_NOISES": {name: LENGTH_NOISES[name] for name in lengths},
            "LENGTH_STEPS": ((0.04, 0.08), (0.05, 0.10)),
            "MEMORY_NOISES": {name: MEMORY_NOISES[name] for name in memories},
            "MEMORY_POINTS": 150,
            "BUSY_SPREADS": (0.003,),
        },
        sweep_comparisons: {
            "STATE_MIXES": (STATE_MIXES[2], STATE_MIXES[8], STATE_MIXES[9]),
            "CLOCKS": (CLOCKS[0], CLOCKS[4], CLOCKS[7]),
            "BATCH_SIZES": (5, 40),
            "MEMBERS": MEMBERS[1:3],
        },
    }
    for module, constants in few.items():
        for name, value in constants.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("sweep", QUICK_CASES, ids=lambda sweep: sweep.__name__)
def test_a_sweep_over_odd_noise_keeps_its_limits(sweep: SweepFunction) -> None:
    assert sweep(QUICK_CASES[sweep]).broken == []


# ------------------------------------------------------------------ broken rules


def detect_nothing(lines: Sequence[Logs], bar: float) -> list[list[LevelStep]]:
    return [[] for _ in lines]


def forget_in_long_lines(lines: Sequence[Logs], bar: float) -> list[list[LevelStep]]:
    answers = detect_change_points_in_many(lines, bar)
    return [[] if len(line) > 250 else steps for line, steps in zip(lines, answers, strict=True)]


def report_every_hundred_points(lines: Sequence[Logs]) -> Iterator[ReportedMove]:
    for number, line in enumerate(lines):
        yield from (ReportedMove(number, at, at + 5) for at in range(50, len(line), 100))


def call_all_unchanged(cases: Sequence[Case]) -> list[Answer]:
    return [Answer("unchanged", 5) for _ in cases]


def claim_certainty(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [answer | {"ci": [answer["ratio"]] * 2} for answer in judge_comparisons(documents)]


def control_regressions_only(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        answer | {"verdict": "inconclusive"} if answer["verdict"] == "regression" else answer
        for answer in judge_comparisons(documents)
    ]


def overlook_failures(series: Series, base_sha: str, head_sha: str, *sides: list[Process]) -> Verdict:
    works = [[process for process in side if process.status is Status.OK] for side in sides]
    return confirmation_verdict(series, base_sha, head_sha, *works)


@pytest.mark.parametrize(
    ("sweep", "name", "rule", "sentence"),
    [
        (sweep_length, "detect_change_points_in_many", detect_nothing, "named at 40 points 0.0%"),
        (sweep_length, "detect_change_points_in_many", forget_in_long_lines, "vanished"),
        (sweep_memory, "replay_detection", report_every_hundred_points, "alarms per 1,000 points"),
        (sweep_busy_code, "detect_change_points_in_many", detect_nothing, "steps back 0.0%"),
        (sweep_mode_mix, "judge_adaptively", call_all_unchanged, "unchanged 100.0%"),
        (sweep_ticks, "judge_comparisons", claim_certainty, "coverage"),
        (sweep_failures, "confirmation_verdict", overlook_failures, "unchanged or a move"),
        (sweep_batches, "judge_comparisons", control_regressions_only, "asymmetric"),
    ],
)
def test_a_broken_rule_breaks_the_limit_of_its_sweep(
    monkeypatch: pytest.MonkeyPatch, sweep: SweepFunction, name: str, rule: Any, sentence: str
) -> None:
    monkeypatch.setattr(f"{sweep.__module__}.{name}", rule)

    table = sweep(max(QUICK_CASES[sweep] // 2, 3))

    assert any(sentence in broken for broken in table.broken), table.broken
