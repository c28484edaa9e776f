"""Goals as text, as a whole."""

from __future__ import annotations

from perfci.model import Interval, VerdictKind
from perfci.report.goal_text import format_goals, render_goals_markdown
from perfci.verdicts.goals.goal_clauses import parse_clause
from perfci.verdicts.goals.goal_verdict import ClauseVerdict, GoalOutcome, GoalVerdict
from perfci.verdicts.goals.tradeoffs import Tradeoff
from tests.support.report_builders import EXPECTED, a_series, a_verdict

TIME = a_series("model.Gpt.measure_training", metric="cpu_step_time", attn="'flash'")
PEAK = a_series("model.Gpt.measure_training", "bytes", "peak_allocated", attn="'flash'")
TAIL = a_series("model.Gpt.measure_generation", metric="e2el_p90", attn="'flash'")
LOSS = a_series("model.Gpt.measure_numerics", "loss", "loss_at_step_k", attn="'flash'")


def broken() -> GoalVerdict:
    clauses = (
        ClauseVerdict(
            parse_clause("step_time <= 0.67x"), GoalOutcome.MET, TIME, 0.641, Interval(0.632, 0.65)
        ),
        ClauseVerdict(
            parse_clause("peak_allocated <= 1.0x"), GoalOutcome.BROKEN, PEAK, 1.125, Interval(1.125, 1.125)
        ),
        ClauseVerdict(parse_clause("loss within 1%"), GoalOutcome.MET, LOSS, 0.9985, Interval(0.997, 1.0)),
        ClauseVerdict(
            parse_clause("e2el_p90 <= 2 s"),
            GoalOutcome.UNDECIDED,
            TAIL,
            1.96,
            Interval(1.88, 2.04),
            "about 9 more pairs would decide",
        ),
        ClauseVerdict(parse_clause("ttft <= 300 ms"), GoalOutcome.UNDECIDED, reason="it was not measured"),
    )
    gain = a_verdict(VerdictKind.IMPROVEMENT, 0.641, (0.632, 0.65), series=TIME)
    cost = a_verdict(VerdictKind.REGRESSION, 1.125, (1.125, 1.125), series=PEAK)
    return GoalVerdict(
        "fast enough", GoalOutcome.BROKEN, clauses, (Tradeoff(gain, cost),), subject="attn=flash"
    )


def rejected() -> GoalVerdict:
    reason = "loss_at_step_k is 2.31 against 2.2 of the baseline (5 %, allowed 0.5 % for bf16)"
    return GoalVerdict("fast enough", GoalOutcome.REJECTED, (), subject="attn=wrong", reason=reason)


def test_lists_every_clause_with_its_interval() -> None:
    assert format_goals([broken()]) == (EXPECTED / "goals.txt").read_text()


def test_a_goal_of_a_rejected_variant_needs_no_clauses() -> None:
    assert format_goals([rejected()]) == (
        "✕ goal fast enough, attn=wrong: rejected: "
        "loss_at_step_k is 2.31 against 2.2 of the baseline (5 %, allowed 0.5 % for bf16)\n"
    )
    assert format_goals([]) == ""


def test_writes_goals_as_a_list_for_a_comment() -> None:
    assert render_goals_markdown([broken(), rejected()]) == (
        "- ✕ goal `fast enough`, `attn=flash`: **broken**, with a trade-off\n"
        "  - ✓ `step_time <= 0.67x` `model.Gpt.measure_training('flash')`: "
        "`0.641x`, `[0.632, 0.650]`, `evaluated on cpu_step_time`\n"
        "  - ✕ `peak_allocated <= 1.0x` `model.Gpt.measure_training('flash')`: `1.125x`, `exact`\n"
        "  - ✓ `loss within 1%` `model.Gpt.measure_numerics('flash')`: "
        "`−0.1 %`, `[−0.3 %, 0.0 %]`, `evaluated on loss_at_step_k`\n"
        "  - ? `e2el_p90 <= 2 s` `model.Gpt.measure_generation('flash')`: "
        "`1.960 s`, `[1.880, 2.040 s]`, `about 9 more pairs would decide`\n"
        "  - ? `ttft <= 300 ms`: `it was not measured`\n"
        "  - ⇄ `trade-off at model.Gpt('flash'): cpu_step_time got 35.9 % faster, "
        "but peak_allocated needs 12.5 % more memory`\n"
        "- ✕ goal `fast enough`, `attn=wrong`: **rejected**\n"
        "  - `loss_at_step_k is 2.31 against 2.2 of the baseline (5 %, allowed 0.5 % for bf16)`\n"
    )
