"""Every form of the pull request comment, whose expected text is in ``tests/expected``.

``python -m tests.support.comment_forms`` writes these files again: review the changes before committing them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from perfci.model import (
    EnvironmentChange,
    Interval,
    Machine,
    Series,
    Stage,
    TailVerdict,
    Verdict,
    VerdictKind,
)
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.not_measured_comment import NotMeasuredReason, render_not_measured_comment
from perfci.report.pulls.order_lines import OrderLine, render_order_lines, replace_order_lines
from perfci.report.pulls.outdated_comment import render_outdated_comment
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.verdicts.compare.pooled_verdict import PooledKind, PooledVerdict
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.goals.goal_clauses import parse_clause
from perfci.verdicts.goals.goal_verdict import ClauseVerdict, GoalOutcome, GoalVerdict
from tests.support.report_builders import a_commit, a_series, a_verdict

EXPECTED = Path(__file__).parents[1] / "expected"
PAGE = "https://perf.example.com/acme/tiny-lm/compare/0011001100...0012001200"
H200 = Machine(accelerator="NVIDIA H200", accelerators=1)
NO_ESTIMATE = {"ratio": None, "interval": None, "noise_floor": None, "mde": None, "pairs": 0}

ORDERS = (
    OrderLine(["ada"], "", None, "failed", "no benchmark is in the default suite"),
    OrderLine(["bob", "ada"], "^training", 20, "running", "3 of 20 pairs", PAGE),
    OrderLine(["eve"], "`|` @team fixes #1 \n> **Ordered** by `me`", 4, "queued"),
)


def on_machine(machine: Machine, series: Series) -> Series:
    return replace(series, machine=machine)


def training(metric: str = "step_time", unit: str = "seconds", batch: int = 8) -> Series:
    return on_machine(H200, a_series("model.Gpt.measure_training", unit, metric, batch=batch, dtype="'bf16'"))


def build_findings(verdicts: list[Verdict], **fields: object) -> Findings:
    return replace(
        Findings(
            verdicts,
            a_commit(17),
            a_commit(18),
            merge_base=True,
            measurement_order="in turns",
            report_url=PAGE,
        ),
        **fields,
    )  # type: ignore[arg-type]


def slower() -> Verdict:
    reason = (
        "+18.3 % over 10 pairs, interval +15.9 % to +20.8 %: "
        "beyond the threshold of 5.0 %, and half of it is excluded."
    )
    return a_verdict(series=training(), reason=reason)


def more_memory() -> Verdict:
    gib = 2.0**30
    return a_verdict(
        VerdictKind.REGRESSION,
        1.12,
        (1.12, 1.12),
        series=training("peak_allocated", "bytes"),
        noise_floor=0.0,
        mde=0.05,
        levels=(1.5 * gib, 1.68 * gib),
        reason="Counted exactly: 1,610,612,736 became 1,803,886,264 (+12.0 %).",
    )


def faster() -> Verdict:
    series = on_machine(H200, a_series("model.Gpt.measure_generation", metric="ttft", batch=1))
    return a_verdict(VerdictKind.IMPROVEMENT, 0.871, (0.852, 0.89), series=series, levels=(0.0310, 0.0270))


def with_tail(verdict: Verdict, kind: VerdictKind, ratio: float, interval: tuple[float, float]) -> Verdict:
    return replace(verdict, tail=TailVerdict(kind, ratio, Interval(*interval)))


def tails() -> list[Verdict]:
    moved, kept = VerdictKind.REGRESSION, VerdictKind.UNCHANGED
    first, second, third = same(3)
    return [
        with_tail(slower(), moved, 1.221, (1.17, 1.274)),
        with_tail(undecided(), VerdictKind.INCONCLUSIVE, 1.04, (0.95, 1.139)),
        with_tail(first, moved, 1.49, (1.43, 1.55)),
        with_tail(second, kept, 1.004, (0.97, 1.04)),
        third,
    ]


def same(count: int) -> list[Verdict]:
    all_series = [on_machine(H200, a_series(f"ops.time_{k:03}", batch=8)) for k in range(count)]
    return [
        a_verdict(VerdictKind.UNCHANGED, 1.003, (0.991, 1.014), series=series, levels=(0.002, 0.002006))
        for series in all_series
    ]


def undecided(batch: int = 64, pairs_to_decide: int | None = 14) -> Verdict:
    return a_verdict(
        VerdictKind.INCONCLUSIVE,
        1.031,
        (0.988, 1.075),
        series=training(batch=batch),
        levels=(0.101, 0.1041),
        mde=0.061,
        pairs=20,
        pairs_to_decide=pairs_to_decide,
        stage=Stage.SCREENING,
        reason=""
        if pairs_to_decide
        else "+3.1 % over 20 pairs: too close to the threshold for more pairs to decide.",
    )


def failed() -> Verdict:
    reason = "The base works and the head ended as oom (CUDA out of memory. Tried to allocate 2.00 GiB)."
    return a_verdict(
        VerdictKind.FAILED, series=training(batch=64), levels=(0.101, None), reason=reason, **NO_ESTIMATE
    )


def removed() -> Verdict:
    reason = "There is nothing to compare: the head was not measured."
    series = on_machine(H200, a_series("model.Gpt.measure_cold_start"))
    return a_verdict(VerdictKind.MISSING, series=series, levels=(2.31, None), reason=reason, **NO_ESTIMATE)


def new() -> Verdict:
    reason = "There is nothing to compare: the base was not measured."
    series = on_machine(H200, a_series("model.Gpt.measure_attention"))
    return a_verdict(VerdictKind.MISSING, series=series, levels=(None, 0.0042), reason=reason, **NO_ESTIMATE)


def not_comparable() -> Verdict:
    reason = "The samples carry no process boundaries, so they cannot be compared."
    return a_verdict(
        VerdictKind.NOT_COMPARABLE, series=training(), levels=(None, None), reason=reason, **NO_ESTIMATE
    )


def thousand() -> list[Verdict]:
    all_series = [on_machine(H200, a_series(f"ops.time_{k:04}", batch=8)) for k in range(999)]
    slowdowns = [
        a_verdict(ratio=1.06 + k / 5000, interval=(1.04, 1.3), series=series)
        for k, series in enumerate(all_series)
    ]
    return [*slowdowns, more_memory(), *same(200)]


def goal() -> GoalVerdict:
    clauses = (
        ClauseVerdict(
            parse_clause("step_time <= 0.9x"), GoalOutcome.BROKEN, training(), 1.183, Interval(1.159, 1.208)
        ),
        ClauseVerdict(
            parse_clause("peak_allocated <= 1.2x"),
            GoalOutcome.MET,
            training("peak_allocated", "bytes"),
            1.12,
            Interval(1.12, 1.12),
        ),
        ClauseVerdict(parse_clause("loss within 1%"), GoalOutcome.UNDECIDED, reason="it was not measured"),
    )
    return GoalVerdict("faster, not hungrier", GoalOutcome.BROKEN, clauses)


def drifted() -> Verdict:
    return a_verdict(VerdictKind.REGRESSION, 1.095, (1.08, 1.11), series=training(batch=16), head=30)


def unchanged_on_head() -> Verdict:
    return a_verdict(
        VerdictKind.UNCHANGED, 1.002, (0.99, 1.01), series=training(batch=16), levels=(0.0124, 0.01242)
    )


def pooled_regression() -> PooledVerdict:
    return PooledVerdict(PooledKind.WORSE, 20, 0.01, 1.015, Interval(1.012, 1.018), 0.002, 19)


ENVIRONMENT_CHANGES = (
    EnvironmentChange("driver", "550.54", "560.28"),
    EnvironmentChange("torch", "", "2.13.0"),
)
REGRESSIONS = build_findings(
    [slower(), more_memory(), faster(), undecided(), *same(3)],
    accept_command="/perfci accept 0012001200",
    profiled_cells=[slower().series.cell],
)
EXPECTED_CHANGES = [
    ExpectedChange("peak_allocated", 0.12, "the cache holds two layers"),
    ExpectedChange("step_time", 0.1, "more tokens in each"),
    ExpectedChange("ttft", 0.05, "the first token waits for all", is_authorized=False),
]
FORMS: dict[str, Callable[[], str]] = {
    "nothing-changed": lambda: render_pull_comment(build_findings(same(3))),
    "regressions": lambda: render_pull_comment(REGRESSIONS),
    "accepted": lambda: render_pull_comment(
        replace(REGRESSIONS, acceptance="ada: the new attention needs it until #12 lands")
    ),
    "expected-changes": lambda: render_pull_comment(replace(REGRESSIONS, expected_changes=EXPECTED_CHANGES)),
    "inconclusive": lambda: render_pull_comment(
        build_findings([undecided(), undecided(128, None)], spent_budget="20 min")
    ),
    "thousand-regressions": lambda: render_pull_comment(build_findings(thousand())),
    "failed-head": lambda: render_pull_comment(build_findings([failed(), *same(2)])),
    "missing-benchmark": lambda: render_pull_comment(build_findings([removed(), new(), *same(2)])),
    "not-comparable": lambda: render_pull_comment(
        build_findings([not_comparable()], measurement_order="recorded")
    ),
    "environment": lambda: render_pull_comment(
        build_findings([slower()], environment_changes=ENVIRONMENT_CHANGES)
    ),
    "pooled-shift": lambda: render_pull_comment(build_findings(same(2), pooled=pooled_regression())),
    "outdated": lambda: render_outdated_comment(
        render_pull_comment(build_findings([slower()])), a_commit(19)
    ),
    "ordered": lambda: replace_order_lines(
        render_pull_comment(build_findings([slower()])), render_order_lines(ORDERS)
    ),
    "three-way": lambda: render_pull_comment(
        build_findings(
            [slower(), unchanged_on_head()], main_drift=[drifted(), *same(1)], main_head=a_commit(30)
        )
    ),
    "goals-broken": lambda: render_pull_comment(build_findings([slower(), more_memory()], goals=[goal()])),
    "no-history": lambda: render_pull_comment(
        build_findings(
            [replace(verdict, noise_floor=None) for verdict in [slower(), *same(2)]], report_url=""
        )
    ),
    "tails": lambda: render_pull_comment(build_findings(tails())),
    "profiled": lambda: render_pull_comment(
        build_findings([slower()], profiled_cells=[slower().series.cell])
    ),
    "identical-inputs": lambda: render_pull_comment(
        build_findings([slower(), *same(2)], merge_base=False, report_url="", identical_inputs=True)
    ),
    "identical": lambda: render_not_measured_comment(NotMeasuredReason.IDENTICAL, a_commit(17), a_commit(18)),
    "cancelled": lambda: render_not_measured_comment(
        NotMeasuredReason.CANCELLED, a_commit(17), a_commit(18), page=PAGE
    ),
    "out-of-time": lambda: render_not_measured_comment(NotMeasuredReason.BUDGET, a_commit(17), a_commit(18)),
    "broken": lambda: render_not_measured_comment(
        NotMeasuredReason.BROKEN, a_commit(17), a_commit(18), detail="no space left on device"
    ),
    "empty": lambda: render_pull_comment(build_findings([])),
}


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for name, text in FORMS.items():
        (EXPECTED / f"{name}.md").write_text(text(), encoding="utf-8")
