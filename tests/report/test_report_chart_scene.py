"""The scene of a trend: what is drawn, where labels go, and that both drawings of it are the same."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import ChangePoint
from perfci.report.charts.build_graph_scene import build_graph_scene
from perfci.report.charts.build_trend_scene import build_trend_scene
from perfci.report.charts.drawn_trend import MAX_DOTS, ChartContext, ChartView
from perfci.report.charts.label_placement import boxes_overlap, label_box
from perfci.report.charts.plotly_figure import build_plotly_figure
from perfci.report.charts.scene import Scene, YKind
from perfci.report.charts.scene_svg import render_scene_svg
from perfci.report.series_trend import Trend, build_trend
from tests.support.report_builders import a_failure, a_history, a_point, a_series, a_verdict

SVG = "{http://www.w3.org/2000/svg}"


def a_trend() -> Trend:
    history = a_history()
    history[7] = a_failure(7)
    candidate = ChangePoint(a_series(), history[25].commit.sha, history[22].commit.sha, 0.0147, 0.0132)
    return build_trend(a_series(), history, [candidate], [a_verdict()])


def a_context() -> ChartContext:
    trend = a_trend()
    return ChartContext(
        smallest_step=0.04,
        environment_changes={trend.dots[15].commit.sha: "torch 2.9 → 2.10"},
        incident_numbers={trend.marks[0].commit: 19},
        place="H100 · py3.13",
    )


@pytest.mark.parametrize("y_kind", ["auto", "zero", "log", "ratio"])
@pytest.mark.parametrize("width", [960, 358])
def test_both_drawings_have_the_same_dots_labels_and_ranges(y_kind: YKind, width: int) -> None:
    scene = build_trend_scene(a_trend(), ChartView(width, 320, y_kind=y_kind), a_context())
    figure, svg = build_plotly_figure(scene), ElementTree.fromstring(render_scene_svg(scene))
    layout = figure["layout"]

    assert dots_of_figure(figure, scene) == dots_of_svg(svg)
    assert [unescape(label["text"]) for label in layout["annotations"]] == [
        element.text for element in svg.iter(f"{SVG}text")
    ]
    assert layout["xaxis"]["range"] == [scene.frame.x_low, scene.frame.x_high]
    assert layout["yaxis"]["range"] == [scene.frame.y_low, scene.frame.y_high]
    assert [layout["width"], layout["height"]] == [float(n) for n in (svg.get("viewBox") or "").split()[2:]]


def dots_of_svg(svg: ElementTree.Element) -> list[tuple[float, float]]:
    circles = (element for element in svg.iter(f"{SVG}circle") if "pc-dot" in element.get("class", ""))
    return [(float(circle.get("cx", "")), float(circle.get("cy", ""))) for circle in circles]


def dots_of_figure(figure: dict, scene: Scene) -> list[tuple[float, float]]:  # type: ignore[type-arg]
    """The dots of the figure in pixels of the picture, as plotly.js maps them: by domain and range."""
    layout, trace = figure["layout"], figure["data"][figure["names"].index("dots")]

    def pixel(value: float, axis: str, size: int) -> float:
        (start, end), (low, high) = layout[axis]["domain"], layout[axis]["range"]
        return size * (start + (end - start) * (value - low) / (high - low))

    width, height = scene.frame.width, scene.frame.height
    return [
        (round(pixel(x, "xaxis", width), 1), round(height - pixel(y, "yaxis", height), 1))
        for x, y in zip(trace["x"], trace["y"], strict=True)
    ]


def test_a_scene_says_in_labels_what_it_shows() -> None:
    scene = build_trend_scene(a_trend(), context=a_context())

    texts = [text.text for text in scene.texts]
    assert {"ms · lower is better ↓", "y starts at 12.02 ms", "+18.3 % #19", "torch 2.9 → 2.10"} <= set(texts)
    assert scene.caption == "29 commits, one dot each; 1 failed commit below the axis"
    assert [zone.kind for zone in scene.zones].count("blind") == 3
    assert [flag.state for flag in scene.flags] == ["confirmed", "candidate"]


def test_a_change_that_noise_could_hide_has_no_colour() -> None:
    tones = [
        build_trend_scene(a_trend(), context=ChartContext(smallest_step=step)).flags[1].tone
        for step in (0.04, 0.2)
    ]

    assert tones == ["better", "same"]


def test_unmeasured_commits_keep_their_place_on_the_axis() -> None:
    trend = a_trend()
    measured = [dot.commit for dot in trend.dots]
    between = [replace(measured[0], sha=f"{k + 1:039x}f") for k in range(5)]
    branch = (*measured[:10], *between, *measured[10:])

    scene = build_trend_scene(trend, context=ChartContext(commits=branch))

    ninth, tenth = scene.dots[8], scene.dots[9]
    assert (ninth.sha, tenth.sha) == (measured[9].sha, measured[10].sha)
    assert tenth.x - ninth.x == 6
    assert len(scene.unmeasured) == 5
    assert scene.caption.endswith("; 5 commits not measured, ticks below the axis")


def test_a_date_axis_places_commits_by_their_day() -> None:
    trend = a_trend()
    moments = [dot.commit.committed_at for dot in trend.dots]

    scene = build_trend_scene(trend, ChartView(x_kind="date"))

    assert moments[0]
    assert moments[1]
    assert scene.dots[1].x - scene.dots[0].x == pytest.approx((moments[1] - moments[0]) / timedelta(days=1))
    assert scene.x_kind == "date"


def test_a_range_refits_the_axis_and_says_what_is_left_out() -> None:
    trend = a_trend()
    first, last = trend.dots[0].commit.sha, trend.dots[9].commit.sha

    scene = build_trend_scene(trend, ChartView(first_sha=first[:10], last_sha=last[:10]))

    whole = build_trend_scene(trend)
    assert [scene.dots[0].sha, scene.dots[-1].sha] == [first, last]
    assert scene.frame.y_high < whole.frame.y_high
    assert scene.caption == (
        "9 commits, one dot each; 1 failed commit below the axis; 20 more outside this range"
    )


def test_a_zoom_separates_merged_commits() -> None:
    trend = build_trend(a_series(), a_history(2000, step_at=1200))
    whole = build_trend_scene(trend)

    merged = next(dot for dot in whole.dots if dot.merged > 1)
    near = build_trend_scene(trend, ChartView(first_sha=merged.first_sha, last_sha=merged.last_sha))

    drawn = len(whole.dots)
    assert drawn <= MAX_DOTS
    assert whole.caption == f"{drawn} of 2,000 commits drawn as dots, {2000 - drawn:,} merged into them"
    assert [dot.merged for dot in near.dots] == [1] * merged.merged


def test_many_failures_are_few_marks_in_one_lane() -> None:
    points = [a_point(k, 1.0) for k in range(200)] + [a_failure(k) for k in range(200, 760)]

    scene = build_trend_scene(build_trend(a_series(), points))

    assert sum(failure.count for failure in scene.failures) == 560
    assert len(scene.failures) <= 300
    assert max(piece.x1 for piece in scene.segments) < 200
    assert len(ElementTree.fromstring(render_scene_svg(scene)).findall(".//*")) < 1200


def test_a_logarithm_of_zero_is_not_drawn() -> None:
    trend = build_trend(a_series(), [a_point(0, 0.0), a_point(1, 0.1)])

    assert build_trend_scene(trend, ChartView(y_kind="log")).y_kind == "auto"


def test_a_ratio_axis_is_against_the_first_level() -> None:
    scene = build_trend_scene(a_trend(), ChartView(y_kind="ratio"))

    texts = [text.text for text in scene.texts]
    assert "against 12.40 ms · lower is better ↓" in texts
    assert "+10.0 %" in texts


def test_a_standalone_picture_names_series_place_and_marks() -> None:
    scene = build_trend_scene(a_trend(), context=a_context())

    svg = "".join(ElementTree.fromstring(render_scene_svg(scene, standalone=True)).itertext())

    assert "train.time_step · cpu_time" in svg
    assert "H100 · py3.13" in svg
    assert "middle 50 % of runs" in svg


@given(
    st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=1, max_size=60),
    st.lists(st.integers(1, 59), max_size=12, unique=True),
    st.sampled_from([320, 700, 1280]),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_no_two_labels_of_levels_and_flags_overlap(values: list[float], steps: list[int], width: int) -> None:
    points = [a_point(k, value) for k, value in enumerate(values)]
    changes = [
        ChangePoint(a_series(), points[k].commit.sha, points[k - 1].commit.sha, values[k - 1], values[k])
        for k in steps
        if k < len(values) and values[k] != values[k - 1]
    ]

    scene = build_trend_scene(build_trend(a_series(), points, changes), ChartView(width))

    boxes = [label_box(text) for text in scene.texts if text.strong]
    assert all(not boxes_overlap(box, other) for k, box in enumerate(boxes) for other in boxes[k + 1 :])
    assert all(math.isfinite(text.x + text.y) for text in scene.texts)


def test_near_changes_of_the_environment_are_one_mark() -> None:
    trend = build_trend(a_series(), a_history(400, step_at=300))
    changes = {trend.dots[k].commit.sha: f"kernel {k}" for k in (100, 101, 250)}

    scene = build_trend_scene(trend, context=ChartContext(environment_changes=changes))

    assert [mark.text for mark in scene.marks] == ["kernel 100 (+1 more)", "kernel 250"]


@pytest.mark.parametrize("kind", ["svg", "figure"])
def test_a_break_is_a_mark_without_a_riser(kind: str) -> None:
    before = build_trend(a_series(), a_history(20, step_at=20))
    after = build_trend(a_series(), a_history(40, step_at=40, factor=3.0)[20:])
    move = [replace(dot, index=dot.index + 20) for dot in after.dots]
    levels = [*before.levels, *(replace(level, first=20, last=39) for level in after.levels)]
    trend = Trend(a_series(), (*before.dots, *move), tuple(levels), ())
    seam = after.dots[0].commit.sha
    context = ChartContext(
        breaks={seam: "until here asv"},
        environment_changes={before.dots[19].commit.sha: "kernel 7"},
        smallest_step=0.02,
    )

    scene = build_trend_scene(trend, context=context)

    assert [(mark.kind, mark.text) for mark in scene.marks][-1] == ("break", "until here asv")
    assert "until here asv" in [text.text for text in scene.texts]
    assert [segment.riser for segment in scene.segments] == [False, False]
    assert [len(band.x) for band in scene.bands] == [20, 20]
    assert [zone.x0 for zone in scene.zones if zone.kind == "blind"] == [19.5]
    if kind == "svg":
        assert render_scene_svg(scene).count("pc-mark-break") == 1
    else:
        shapes = build_plotly_figure(scene)["layout"]["shapes"]
        assert [shape["x0"] for shape in shapes if shape["line"].get("dash") == "dash"] == [19.5]


def test_several_series_share_one_axis_of_commits() -> None:
    left = build_trend(a_series(), a_history())
    right = build_trend(a_series("other.time"), a_history(factor=1.0)[5:])

    scene = build_graph_scene([left, right], ["py3.12", "py3.13"], normalized=True)

    assert scene is not None
    assert {dot.line for dot in scene.dots} == {0, 1}
    firsts = [next(dot for dot in scene.dots if dot.line == line) for line in (0, 1)]
    assert [dot.y for dot in firsts] == pytest.approx([1.0, 1.0], abs=0.02)
    assert [dot.sha for dot in firsts] == [left.dots[0].commit.sha, right.dots[0].commit.sha]
    svg = render_scene_svg(scene)
    assert len(re.findall("pc-dot pc-line-2", svg)) == 25


def test_a_graph_without_values_is_none() -> None:
    empty = build_trend(a_series(), [a_failure(0)])

    assert build_graph_scene([empty], ["a"]) is None


def test_a_failed_commit_is_a_cross_in_both() -> None:
    scene = build_trend_scene(a_trend())
    figure = build_plotly_figure(scene)

    trace = figure["data"][figure["names"].index("failures")]
    assert trace["x"] == [failure.x for failure in scene.failures] == [7.0]
    assert trace["yaxis"] == "y2"
