"""Rows of comparisons: what separate runs say, their order, and what groups come to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfci.history.noise_between_runs import estimate_noise_between_runs
from perfci.model import (
    Benchmark,
    ChangePoint,
    Interval,
    Machine,
    Metric,
    Series,
    Stage,
    Status,
    Verdict,
    VerdictKind,
)
from perfci.report.comparisons.comparison_rows import (
    NOT_MEASURED,
    ComparisonRow,
    Outcome,
    SideLevel,
    choose_axis_span,
)
from perfci.report.comparisons.group_summaries import group_rows, summarize_rows
from perfci.report.comparisons.row_table import RowTable, SeparateLevels, read_separate_levels


def a_series(name: str = "suite.Step.time_step", direction: str = "lower") -> Series:
    metric = Metric("time", "seconds", direction)  # type: ignore[arg-type]
    return Series(Benchmark(name, "1"), (), metric, Machine(name="box"))


def a_separate_row(
    ratio: float, noise: float | None, *, name: str = "a.time", direction: str = "lower"
) -> ComparisonRow:
    series = a_series(name, direction)
    return ComparisonRow(series, series, SideLevel(1.0), SideLevel(ratio), noise=noise)


def a_verdict_row(ratio: float, half_width: float, *, name: str = "a.time") -> ComparisonRow:
    kind = VerdictKind.REGRESSION if ratio > 1 else VerdictKind.IMPROVEMENT
    interval = Interval(ratio * math.exp(-half_width), ratio * math.exp(half_width))
    series = a_series(name)
    verdict = Verdict(kind, Stage.CONFIRMATION, series, "b", "h", ratio, interval, 1.0, ratio)
    return ComparisonRow(series, series, SideLevel(1.0), SideLevel(ratio), verdict)


@st.composite
def separate_rows(draw: st.DrawFn) -> ComparisonRow:
    """A row of separate runs: with a level, failed, skipped or not measured at each side."""
    series = a_series(draw(st.sampled_from(["a.x", "a.y"])), draw(st.sampled_from(["lower", "higher"])))
    levels = st.builds(SideLevel, st.sampled_from([0.0, 1.0, 1.1, 1.5, -1.0]))
    absent = st.sampled_from(
        [NOT_MEASURED, SideLevel(None, Status.SKIPPED), SideLevel(None, Status.FAILED, "boom")]
    )
    change = ChangePoint(series, "h", "b", 1.0, draw(st.sampled_from([0.5, 1.0, 2.0])))
    return ComparisonRow(
        series,
        series,
        draw(levels | absent),
        draw(levels | absent),
        change=draw(st.sampled_from([None, None, change])),
        noise=draw(st.sampled_from([None, 0.0, 0.01, 0.2])),
        is_context=draw(st.booleans()),
    )


@pytest.mark.parametrize(
    ("ratio", "noise", "direction", "outcome"),
    [
        (1.10, 0.01, "lower", Outcome.LIKELY_WORSE),
        (1.10, 0.01, "higher", Outcome.LIKELY_BETTER),
        (0.90, 0.01, "lower", Outcome.LIKELY_BETTER),
        (1.04, 0.01, "lower", Outcome.WITHIN_NOISE),
        (1.10, None, "lower", Outcome.UNKNOWN),
        (1.00, None, "lower", Outcome.WITHIN_NOISE),
        (1.001, 0.0, "lower", Outcome.LIKELY_WORSE),
    ],
)
def test_separate_runs_are_read_against_their_noise(
    ratio: float, noise: float | None, direction: str, outcome: Outcome
) -> None:
    row = a_separate_row(ratio, noise, direction=direction)

    assert row.outcome is outcome
    assert row.word == outcome.value


def test_a_side_without_a_value_is_missing_and_says_why() -> None:
    series = a_series()
    failed = ComparisonRow(series, series, SideLevel(1.0), SideLevel(None, Status.OOM, "CUDA out of memory"))
    gone = ComparisonRow(series, series, SideLevel(1.0), NOT_MEASURED)

    assert (failed.outcome, failed.head.text, failed.advice) == (Outcome.MISSING, "oom", "CUDA out of memory")
    assert (gone.head.text, gone.needs_attention, gone.is_unavailable) == ("not measured", True, False)


def test_the_farthest_outside_its_noise_comes_first() -> None:
    quiet = a_separate_row(1.05, 0.001, name="quiet")
    loud = a_separate_row(1.50, 0.1, name="loud")
    decided = a_verdict_row(1.06, 0.01, name="decided")

    table = RowTable.from_rows([loud, quiet, decided]).sort("severity")

    order = [row.series.benchmark.name for row in table]
    assert order == ["decided", "quiet", "loud"]


def test_the_mean_of_a_group_has_an_interval_from_its_verdicts() -> None:
    rows = [a_verdict_row(1.1, 0.02, name="a.x"), a_verdict_row(1 / 1.1, 0.02, name="a.y")]

    summary = summarize_rows(RowTable.from_rows(rows))

    assert summary.mean_ratio == pytest.approx(1.0)
    assert summary.interval is not None
    assert math.log(summary.interval.hi) == pytest.approx(0.02 / math.sqrt(2), rel=1e-6)


def test_the_mean_of_separate_runs_has_no_interval_and_leaves_out_what_has_no_ratio() -> None:
    series = a_series("a.z")
    missing = ComparisonRow(series, series, SideLevel(1.0), NOT_MEASURED)

    summary = summarize_rows(RowTable.from_rows([a_separate_row(1.2, 0.01), missing]))

    assert summary.mean_ratio == pytest.approx(1.2)
    assert (summary.interval, summary.common, summary.excluded) == (None, 1, 1)


def test_throughput_counts_as_cost_in_a_mean() -> None:
    rows = [a_separate_row(2.0, 0.01), a_separate_row(2.0, 0.01, direction="higher")]

    assert summarize_rows(RowTable.from_rows(rows)).mean_ratio == pytest.approx(1.0)


def test_groups_by_suite() -> None:
    rows = [a_separate_row(1.0, 0.1, name=name) for name in ("a.X.time_a", "b.Y.time_b", "a.X.time_c")]

    groups = group_rows(RowTable.from_rows(rows), "suite")

    assert [(group.name, len(group.rows)) for group in groups] == [("a.X", 2), ("b.Y", 1)]


@given(st.lists(separate_rows(), min_size=1, max_size=20))
def test_columns_of_separate_runs_say_what_their_rows_say(rows: list[ComparisonRow]) -> None:
    table = RowTable.from_rows(rows)
    levels = SeparateLevels(
        labels=table.columns["label"],
        places=table.columns["place"],
        cost_signs=np.array([row.series.metric.cost_sign for row in rows], float),
        base=as_column(row.base.level for row in rows),
        head=as_column(row.head.level for row in rows),
        noise=as_column(row.noise for row in rows),
        change_ratios=as_column(1 + row.change.relative_change if row.change else None for row in rows),
        is_context=np.array([row.is_context for row in rows]),
        is_unavailable=np.array([row.is_unavailable for row in rows]),
    )

    columns = read_separate_levels(levels)

    for name in table.columns.dtype.names or ():
        np.testing.assert_allclose(columns[name], table.columns[name], rtol=1e-12, err_msg=name)


def as_column(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], float)


def test_one_row_far_out_does_not_flatten_the_axis() -> None:
    rows = [a_separate_row(1.2, 0.01, name=f"a{k}") for k in range(9)] + [a_separate_row(100.0, 0.01)]

    assert choose_axis_span(rows) == pytest.approx(1.2 * 1.02)


@given(
    st.lists(st.floats(1e-9, 1e9), min_size=4, max_size=30),
    st.floats(1e-6, 1e6),
)
def test_the_noise_between_runs_does_not_depend_on_the_unit(levels: list[float], factor: float) -> None:
    noise = estimate_noise_between_runs(levels)

    assert noise == pytest.approx(estimate_noise_between_runs([level * factor for level in levels]), abs=1e-9)
    assert noise == pytest.approx(estimate_noise_between_runs(levels[::-1]), abs=1e-9)


def test_a_step_is_no_noise() -> None:
    quiet = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0]

    assert estimate_noise_between_runs([*quiet, *(2 * level for level in quiet)]) == pytest.approx(
        estimate_noise_between_runs(quiet + quiet), rel=0.15
    )
    assert estimate_noise_between_runs([1.0, 1.0, 1.0]) is None
    assert estimate_noise_between_runs([1.0, 0.0, 1.0, 1.0]) is None


def test_an_unjudged_change_is_open_and_a_confirmed_one_is_not() -> None:
    row = a_verdict_row(1.1, 0.01)
    assert row.verdict is not None
    screened = replace(row, verdict=replace(row.verdict, stage=Stage.SCREENING))

    assert (row.is_open, screened.is_open, a_separate_row(1.1, 0.01).is_open) == (False, True, True)
