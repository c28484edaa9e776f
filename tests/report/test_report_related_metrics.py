"""One change that shows in many metrics is one line, one regression and one reason to fail, everywhere."""

from __future__ import annotations

from dataclasses import replace

from perfci.cli.compare.commits import commits_exit_code
from perfci.model import Interval, Series, Status, TailVerdict, Verdict, VerdictKind
from perfci.report.comparisons.comparison_rows import build_verdict_rows
from perfci.report.incidents.incident_text import count_distinct_changes
from perfci.report.pulls.check_result import CheckState, classify_findings, format_check_title
from perfci.report.pulls.comparison_findings import may_fail_check
from perfci.report.pulls.pull_comment import render_pull_comment, should_comment
from perfci.report.verdict_table import format_comparison
from tests.support.comment_forms import build_findings
from tests.support.report_builders import a_series, a_verdict


def a_metric(metric: str, group: str = "generation", unit: str = "seconds") -> Series:
    return a_series(f"gpt.MyModel.measure_{group}", unit, metric, batch=1)


def dropped_cache() -> list[Verdict]:
    """A KV cache is lost: everything in a request gets slower, and counts say why."""
    slower = [
        a_verdict(ratio=3.6 - k / 10, series=a_metric(m)) for k, m in enumerate(("tpot", "e2el", "itl"))
    ]
    counts = [a_verdict(ratio=9.0, interval=(9.0, 9.0), series=a_metric("flops", "stream_counts", "FLOP"))]
    return [*slower, *counts]


def test_the_comment_and_the_check_count_one_regression() -> None:
    findings = build_findings(dropped_cache())

    comment = render_pull_comment(findings)

    assert format_check_title(findings) == "1 regression"
    assert "**Time**: 1 worse" in comment
    assert "· tpot` with `e2el` +250 %, `itl` +240 %, `flops` +800 %" in comment


def test_the_terminal_has_one_row_and_what_explains_it() -> None:
    text = format_comparison(build_findings(dropped_cache()).verdict_groups)

    assert text.startswith("1 regression. gpt.MyModel.measure_generation(1) · tpot takes 3.6 times as long")
    assert "· tpot with e2el +250 %, itl +240 %, flops +800 %\n" in text


def test_what_explains_a_change_has_its_tail_beside_it() -> None:
    tpot, latency = dropped_cache()[:2]
    tail = TailVerdict(VerdictKind.REGRESSION, 4.5, Interval(4.2, 4.8))
    findings = build_findings([tpot, replace(latency, tail=tail)])

    assert "with `e2el` +250 % (p90 ▲ worse +350 %)\n" in render_pull_comment(findings)
    assert "with e2el +250 % (p90 ▲ worse +350 %)\n" in format_comparison(findings.verdict_groups)


def test_the_whole_speaks_where_only_a_part_moved() -> None:
    step = a_verdict(
        VerdictKind.UNCHANGED,
        ratio=1.002,
        interval=(0.99, 1.01),
        levels=(32e-3, 32.06e-3),
        series=a_metric("cpu_step_time", "training"),
    )
    phase = a_verdict(
        ratio=1.247,
        interval=(1.144, 1.359),
        levels=(9.7e-3, 12.1e-3),
        series=a_metric("cpu_forward_time", "training"),
    )
    sentence = (
        "moved without its whole: cpu_step_time unchanged +0.2 % [−1.0, +1.0], 10 pairs; "
        "a part cannot move by more than its whole, so one of the two is off"
    )

    findings = build_findings([phase, step])
    rows = build_verdict_rows([phase, step], {}, gates=lambda series: True)

    assert [row.advice for row in rows if row.series is phase.series] == [sentence]
    assert f"· cpu_forward_time {sentence}\n" in format_comparison(findings.verdict_groups)
    assert f"· cpu_forward_time` {sentence}\n" in render_pull_comment(findings)


def test_counts_that_moved_alone_fail_nothing_and_are_listed() -> None:
    (count,) = dropped_cache()[3:]
    findings = build_findings([count])

    assert classify_findings(findings) is CheckState.PASSED
    assert commits_exit_code(findings, [Status.OK], strict=True) == 0
    assert not should_comment(findings)
    assert "1 count moved that gate nothing" in render_pull_comment(findings)
    assert "moved and gate nothing: gpt.MyModel.measure_stream_counts(1) · flops +800 %" in (
        format_comparison(findings.verdict_groups)
    )


def test_a_change_that_gates_fails_the_comparison() -> None:
    findings = build_findings(dropped_cache())

    assert classify_findings(findings) is CheckState.WORSE
    assert sum(map(may_fail_check, findings.primary_verdicts)) == 1
    assert commits_exit_code(findings, [Status.OK], strict=False) == 1


def test_what_users_feel_is_named_before_a_larger_count() -> None:
    waits = a_verdict(
        ratio=40.0, interval=(40.0, 40.0), series=a_metric("host_syncs", "step_counts", "count")
    )
    step = a_verdict(ratio=1.1, interval=(1.09, 1.11), series=a_metric("step_time", "training"))

    text = format_comparison(build_findings([waits, step]).verdict_groups)

    assert text.startswith(
        "2 regressions. Worst: gpt.MyModel.measure_training(1) · step_time got 10.0 % slower"
    )


def test_an_incident_counts_related_series_once() -> None:
    changes = [verdict.as_change_point for verdict in dropped_cache()[:3]]

    assert count_distinct_changes(changes) == 1
