"""The waterfall of a series: what a reader adds up is what stands there, and the picture says the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.model import ChangePoint, Metric, VerdictKind
from perfci.report.charts.scene_svg import render_scene_svg
from perfci.report.charts.waterfall import (
    MAX_STEPS,
    Waterfall,
    build_waterfall,
    build_waterfall_scene,
    level_at,
)
from perfci.report.series_trend import ChangeMark, MarkState, TrendLevel
from tests.support.report_builders import a_series

TIME = Metric("time", "seconds", "lower")


def a_mark(before: float, after: float, number: int = 1, state: MarkState = "candidate") -> ChangeMark:
    change = ChangePoint(a_series(), f"{number:040x}", "0" * 40, before, after)
    return ChangeMark(number, number - 1, change, VerdictKind.REGRESSION, state)


def numbers(waterfall: Waterfall) -> list[int]:
    """The numbers a reader adds up, in units of their last decimal."""
    texts = [
        waterfall.write(waterfall.start),
        *(waterfall.write_signed(step.size) for step in waterfall.steps),
        waterfall.write_signed(waterfall.remainder),
        waterfall.write(waterfall.now),
    ]
    return [int(re.sub(r"[^0-9-]", "", text.partition(" ")[0].replace("−", "-"))) for text in texts]


def test_says_from_where_to_where_and_by_what() -> None:
    waterfall = build_waterfall(
        TIME, 0.01205, 0.02605, [a_mark(0.01205, 0.01632, 1), a_mark(0.0164, 0.0261, 2, "confirmed")]
    )

    assert waterfall.sentence == (
        "12.05 ms to 26.05 ms (+116 %): 2 changes +13.97 ms, drift and small changes +0.03 ms"
    )
    assert [waterfall.write(step.sum_after) for step in waterfall.steps] == ["16.32 ms", "26.02 ms"]


def test_without_a_change_all_is_drift() -> None:
    assert build_waterfall(TIME, 1.0, 1.25, []).sentence == (
        "1.000 s to 1.250 s (+25.0 %): drift and small changes +0.250 s"
    )


@given(
    st.floats(1e-9, 1e3),
    st.floats(1e-9, 1e3),
    st.lists(st.tuples(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3)), max_size=20),
)
def test_shown_numbers_add_up_exactly(start: float, now: float, changes: list[tuple[float, float]]) -> None:
    waterfall = build_waterfall(
        TIME, start, now, [a_mark(*ends, number) for number, ends in enumerate(changes, start=1)]
    )

    *added, total = numbers(waterfall)
    assert sum(added) == total
    assert len(waterfall.steps) + waterfall.small == len(changes)
    assert len(waterfall.steps) <= MAX_STEPS


def test_the_smallest_changes_are_in_the_remainder() -> None:
    marks = [a_mark(1.0, 1.0 + number / 100, number) for number in range(1, MAX_STEPS + 4)]

    waterfall = build_waterfall(TIME, 1.0, 3.0, marks)

    assert [step.mark.index for step in waterfall.steps] == list(range(4, MAX_STEPS + 4))
    assert waterfall.remainder_label == "drift and small changes (3 changes)"


def test_a_level_that_drifts_is_read_where_the_chart_draws_it() -> None:
    levels = [TrendLevel(0, 10, 1.0, 2.0), TrendLevel(11, 20, 3.0, 3.0)]

    assert [level_at(levels, place) for place in (0, 5, 10, 15, 99)] == [1.0, 1.5, 2.0, 3.0, 3.0]
    assert level_at(levels[1:], 4) is None


@pytest.mark.parametrize("width", [860, 358])
def test_the_picture_has_a_bar_of_each_number(width: int) -> None:
    marks = [a_mark(1.0, 1.4, 1), a_mark(1.4, 1.1, 2, "confirmed")]
    scene = build_waterfall_scene(
        build_waterfall(TIME, 1.0, 1.1, marks), name="<b>", start_label="v1.0", width=width
    )

    svg = render_scene_svg(scene, standalone=True)

    assert svg.count('<rect class="pc-bar pc-worse pc-hollow" x="') == 1 + 1  # and in the legend
    assert svg.count("<title>2: −0.300 s</title>") == 1
    assert "<title>v1.0: 1.000 s</title>" in svg
    assert "<b>" not in svg
    assert all(bar.y0 >= scene.frame.y_low - 1e-9 and bar.y1 <= scene.frame.y_high for bar in scene.bars)


def test_levels_close_together_do_not_start_at_zero_and_say_so() -> None:
    scene = build_waterfall_scene(build_waterfall(TIME, 1.0, 1.01, []), name="x", start_label="v1")

    assert any(text.text.startswith("y starts at ") for text in scene.texts)
