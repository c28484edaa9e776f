"""Clauses of goals: syntax, metrics and units."""

from __future__ import annotations

import pytest

from perfci.model import PerfciError
from perfci.verdicts.goals.goal_clauses import Goal, parse_clause, resolve_metric_name, validate_goal_metrics


def test_reads_ratios_deviations_and_levels() -> None:
    clauses = [
        parse_clause(text)
        for text in ("step_time <= 0.67x", "loss within 1 %", "e2el_p90<=2s", "tokens_per_s > 5e3")
    ]

    assert [(c.metric, c.comparison, c.number, c.unit) for c in clauses] == [
        ("step_time", "<=", 0.67, "x"),
        ("loss", "within", 1.0, "%"),
        ("e2el_p90", "<=", 2.0, "s"),
        ("tokens_per_s", ">", 5000.0, ""),
    ]


WRONG = {
    "step_time": "the goal 'step_time' cannot be read; a metric, a comparison and a limit were "
    "expected, such as 'step_time <= 0.67x', 'loss within 1%' or 'e2el_p90 <= 2 s'",
    "step_time == 1x": "the goal 'step_time == 1x' cannot be read; a metric, a comparison and a limit "
    "were expected, such as 'step_time <= 0.67x', 'loss within 1%' or 'e2el_p90 <= 2 s'",
    "loss within 1": "the goal 'loss within 1' cannot be read; after 'within' a percentage was "
    "expected, such as 1%",
}


@pytest.mark.parametrize(("text", "sentence"), WRONG.items())
def test_refuses_a_clause_it_cannot_read(text: str, sentence: str) -> None:
    with pytest.raises(PerfciError) as error:
        parse_clause(text)

    assert str(error.value) == sentence


UNKNOWN = {
    "stp_time <= 1x": "the goal 'stp_time <= 1x': no benchmark it matches has a metric 'stp_time'; "
    "did you mean 'step_time'?",
    "zzz <= 1x": "the goal 'zzz <= 1x': no benchmark it matches has a metric 'zzz'; "
    "there are loss_at_step_k, peak_allocated, peak_reserved, step_time",
    "peak <= 1x": "the goal 'peak <= 1x': 'peak' could be peak_allocated or peak_reserved; say which",
    "step_time <= 2 GiB": "the goal 'step_time <= 2 GiB': a unit of step_time was expected "
    "(s, ms, us, µs, ns, min, seconds, x), found 'GiB'",
    "step_time <= 2": "the goal 'step_time <= 2': a unit of step_time was expected "
    "(s, ms, us, µs, ns, min, seconds, x), found none",
}


@pytest.mark.parametrize(("text", "sentence"), UNKNOWN.items())
def test_refuses_a_metric_or_a_unit_that_does_not_exist(text: str, sentence: str) -> None:
    units = {
        "step_time": "seconds",
        "peak_allocated": "bytes",
        "peak_reserved": "bytes",
        "loss_at_step_k": "loss",
    }

    with pytest.raises(PerfciError) as error:
        validate_goal_metrics(Goal("fast", (parse_clause(text),)), units)

    assert str(error.value) == sentence


def test_resolves_an_unambiguous_beginning_of_a_metric_name() -> None:
    assert resolve_metric_name("loss", ["loss_at_step_k", "step_time"]) == "loss_at_step_k"
    assert resolve_metric_name("step", ["step_time", "step_count"]) is None
