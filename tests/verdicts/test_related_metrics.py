"""Metrics that show one change are one line: the one a user feels, and beside it what explains it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfci.bench.call_counts import COUNT_METRICS
from perfci.bench.metric_groups import (
    cold_start,
    generation_latency,
    generation_stages,
    training_numerics,
    training_step,
)
from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.report.verdict_groups import VerdictGroup, group_verdicts
from perfci.verdicts.judging_policy import Policy, PolicyOverride
from perfci.verdicts.related_metrics import (
    EXPLAINING_COUNTS,
    RELATED_METRICS,
    is_felt_by_users,
)
from tests.support.builders import a_series, a_verdict

GATES = Policy().is_gating


def a_metric(name: str, unit: str = "seconds", group: str = "generation") -> Series:
    return a_series(f"gpt.MyModel.measure_{group}", name, unit=unit)


def a_change(name: str, ratio: float, unit: str = "seconds", group: str = "generation") -> Verdict:
    return a_verdict(a_metric(name, unit, group), ratio=ratio)


def describe(groups: list[VerdictGroup]) -> list[tuple[str, list[str]]]:
    return [
        (group.primary.series.metric.name, [verdict.series.metric.name for verdict in group.secondary])
        for group in groups
        if group.gates
    ]


def test_one_slower_prefill_is_one_line_and_not_six() -> None:
    slower = [a_change(name, 1.5) for name in ("ttfb", "cpu_ttft", "rtf", "goodput", "sla_attainment")]

    groups = group_verdicts([*slower, a_change("cpu_e2el", 1.1)], GATES)

    assert describe(groups) == [("cpu_ttft", ["cpu_e2el", "ttfb", "rtf", "goodput", "sla_attainment"])]


def test_a_dropped_cache_is_said_by_the_time_per_token() -> None:
    names = {"cpu_e2el": 3.1, "cpu_tpot": 3.6, "itl": 3.6, "itl_per_token": 3.6, "tpot_growth": 5.0}
    lost = [a_change(name, ratio) for name, ratio in names.items()]
    counts = [a_change("flops", 9.0, "FLOP", "stream_counts"), a_change("decode", 3.5, group="stages")]

    groups = group_verdicts([*lost, *counts], GATES)

    assert describe(groups) == [
        ("cpu_tpot", ["cpu_e2el", "itl_per_token", "itl", "tpot_growth", "decode", "flops"])
    ]


def test_a_step_and_its_phases_are_one_line_and_memory_another() -> None:
    slower = [a_change(name, 1.2, group="training") for name in ("backward_time", "cpu_step_time")]
    larger = [a_change("peak_allocated_bytes", 1.3, "bytes", "training")]
    counted = [a_change("peak_tensor_bytes", 1.3, "bytes", "step_counts")]

    groups = group_verdicts([*slower, *larger, *counted], GATES)

    assert describe(groups) == [
        ("cpu_step_time", ["backward_time"]),
        ("peak_allocated_bytes", ["peak_tensor_bytes"]),
    ]


def test_a_phase_speaks_where_the_step_did_not_move() -> None:
    assert describe(group_verdicts([a_change("forward_time", 1.2)], GATES)) == [("forward_time", [])]


def test_a_phase_that_moved_alone_stands_beside_its_step() -> None:
    phase = a_change("cpu_optimizer_time", 0.85, group="training")
    steps = [
        replace(a_change(name, 1.0, group="training"), kind=VerdictKind.UNCHANGED)
        for name in ("step_time", "cpu_step_time")
    ]
    other_commit = replace(steps[1], head="elsewhere")

    (group, *_) = (g for g in group_verdicts([phase, *steps], GATES) if g.primary == phase)
    (alone, *_) = (g for g in group_verdicts([phase, other_commit], GATES) if g.primary == phase)

    assert (group.whole, alone.whole) == (steps[1], None)


def test_a_confirmed_change_comes_before_a_larger_candidate() -> None:
    candidate = replace(a_change("e2el", 2.0), stage=Stage.SCREENING)

    groups = group_verdicts([candidate, a_change("tpot", 1.2)], GATES)

    assert describe(groups) == [("tpot", ["e2el"])]


def test_other_cells_models_and_directions_are_lines_of_their_own() -> None:
    slower = a_change("ttft", 1.2)
    larger = replace(slower, series=replace(slower.series, parameters=(("batch", "8"),)))
    faster = replace(a_change("tpot", 0.8), kind=VerdictKind.IMPROVEMENT)
    unknown = [a_change("my_latency", 1.2), a_change("my_latency", 1.2)]

    assert len(group_verdicts([slower, larger, faster, *unknown], GATES)) == 5


def test_a_count_that_moved_alone_gates_nothing_unless_a_policy_says_so() -> None:
    counted = a_change("operators", 1.01, "count", "step_counts")
    gating = Policy(overrides=(PolicyOverride("operators", gate=True),))

    (alone,) = group_verdicts([counted], GATES)
    (gated,) = group_verdicts([counted], gating.is_gating)

    assert (alone.primary, alone.gates) == (counted, False)
    assert gated.gates


@pytest.mark.parametrize("name", ["graph_breaks", "recompiles", "host_syncs", "my_own_count"])
def test_graph_breaks_recompiles_waits_and_counts_of_others_gate(name: str) -> None:
    (group,) = group_verdicts([a_change(name, math.inf, "count", "step_counts")], GATES)

    assert group.gates


def test_a_policy_may_stop_anything_from_gating() -> None:
    assert not Policy(overrides=(PolicyOverride("ttft", gate=False),)).is_gating(a_metric("ttft"))


def test_users_feel_time_and_memory_and_no_counts() -> None:
    felt = [a_metric("cpu_step_time"), a_metric("peak_allocated_bytes", "bytes"), a_metric("my_latency")]
    quiet = [a_metric("host_syncs", "count"), a_metric("flops", "FLOP"), a_metric("itl")]

    assert all(map(is_felt_by_users, felt))
    assert not any(map(is_felt_by_users, quiet))


def test_every_related_metric_is_one_that_a_model_benchmark_declares() -> None:
    groups = (cold_start, generation_latency, generation_stages, training_step, training_numerics)
    declared = {metric.name for group in groups for metric in group.METRICS}
    declared |= {metric.name for metric in COUNT_METRICS}
    named = [name for related in RELATED_METRICS for name in (*related.primary, *related.secondary)]

    assert len(named) == len(set(named))
    assert set(named) | EXPLAINING_COUNTS <= declared
