"""The SVG charts."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import ChangePoint, Point, Status, VerdictKind
from perfci.report.charts.build_trend_scene import build_trend_scene
from perfci.report.charts.drawn_trend import MAX_DOTS
from perfci.report.charts.interval_bar import render_interval_bar
from perfci.report.charts.svg_charts import (
    render_sparkline,
    render_trend_chart,
)
from perfci.report.charts.svg_elements import SVG_STYLE
from perfci.report.color_palette import DARK, LIGHT
from perfci.report.series_trend import Trend, build_trend
from tests.support.report_builders import EXPECTED, a_failure, a_history, a_point, a_series, a_verdict


def a_trend() -> Trend:
    history = a_history()
    history[7] = a_failure(7)
    candidate = ChangePoint(a_series(), history[25].commit.sha, history[22].commit.sha, 0.0147, 0.0132)
    return build_trend(a_series(), history, [candidate], [a_verdict()])


def count(svg: str, shade: str) -> int:
    root = ElementTree.fromstring(svg)
    return sum(shade in element.get("class", "").split() for element in root.iter())


@pytest.mark.parametrize(
    ("name", "svg"),
    [
        ("trend.svg", render_trend_chart(a_trend(), standalone=True)),
        ("sparkline.svg", render_sparkline(a_trend())),
        ("interval.svg", render_interval_bar(a_verdict(), span=1.5)),
    ],
)
def test_each_chart_matches_its_expected_file(name: str, svg: str) -> None:
    assert svg + "\n" == (EXPECTED / name).read_text(encoding="utf-8")


def test_a_trend_has_a_dot_for_each_commit_and_a_cross_for_the_failed_one() -> None:
    svg = render_trend_chart(a_trend())

    assert count(svg, "pc-dot") == 29
    assert count(svg, "pc-failed") == 1
    assert count(svg, "pc-level") == 3


def test_a_confirmed_change_is_filled_and_a_candidate_hollow() -> None:
    svg = render_trend_chart(a_trend())

    assert count(svg, "pc-flag") == 2
    assert count(svg, "pc-hollow") == 1
    assert "+18.3 %" in svg


def test_the_chart_says_where_its_axis_starts() -> None:
    assert "y starts at 12.02 ms" in render_trend_chart(a_trend())
    assert "lower is better ↓" in render_trend_chart(a_trend())


def test_small_noise_is_drawn_small() -> None:
    trend = build_trend(a_series(), [a_point(k, 1.0 + 0.0001 * (k % 2)) for k in range(20)])

    heights = [
        float(y) for y in re.findall(r'class="pc-dot" cx="[^"]*" cy="([^"]*)"', render_trend_chart(trend))
    ]

    assert max(heights) - min(heights) < 2


def test_a_value_near_zero_is_drawn_from_zero() -> None:
    assert "y starts at 0" in render_trend_chart(
        build_trend(a_series(), [a_point(0, 0.001), a_point(1, 0.1)])
    )


def test_a_chart_has_a_title_and_a_description() -> None:
    root = ElementTree.fromstring(render_trend_chart(a_trend(), id_prefix="wide"))
    ids = {element.get("id") for element in root.iter()}

    assert root.get("role") == "img"
    assert set((root.get("aria-labelledby") or "").split()) <= ids
    assert " is " in "".join(root.itertext())


def test_no_name_breaks_out_of_a_picture() -> None:
    series = a_series("</title><script>alert(1)</script>", unit='"><svg onload=alert(1)>')

    svg = render_trend_chart(build_trend(series, [a_point(0, 1.0), a_failure(1, reason="</title><b>")]))

    tags = {element.tag.split("}")[1] for element in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "title", "desc", "defs", "clipPath", "g", "rect", "line", "circle", "path", "text"}


def test_only_a_standalone_chart_includes_its_style() -> None:
    assert "style" not in render_trend_chart(a_trend())
    assert "prefers-color-scheme:dark" in render_trend_chart(a_trend(), standalone=True)


def test_every_class_drawn_is_styled() -> None:
    drawn = (
        render_trend_chart(a_trend()) + render_sparkline(a_trend()) + render_interval_bar(a_verdict(), span=2)
    )
    used = {name for names in re.findall(r'class="([^"]*)"', drawn) for name in names.split()}

    assert used - set(re.findall(r"\.(pc-[a-z0-9-]+)", SVG_STYLE)) <= {
        "pc-trend",
        "pc-sparkline",
        "pc-interval",
    }


def test_a_long_history_is_downsampled_with_a_note() -> None:
    trend = build_trend(a_series(), a_history(2000, step_at=1200), [], [])

    assert count(render_trend_chart(trend), "pc-dot") <= MAX_DOTS
    caption = build_trend_scene(trend).caption
    assert re.fullmatch(r"(\d+) of 2,000 commits drawn as dots, [\d,]+ merged into them", caption)


def test_a_short_history_draws_every_commit() -> None:
    assert build_trend_scene(a_trend()).caption == "29 commits, one dot each; 1 failed commit below the axis"


@pytest.mark.parametrize("points", [[], [a_failure(0)], [Point(a_failure(0).commit, Status.SKIPPED)]])
def test_a_series_without_values_says_so(points: list[Point]) -> None:
    assert "no commit has a measured value" in render_trend_chart(build_trend(a_series(), points))
    assert "<path" not in render_sparkline(build_trend(a_series(), points))


@given(st.lists(st.floats(min_value=-1e9, max_value=1e9), min_size=1, max_size=30))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_any_values_give_a_picture_inside_its_frame(values: list[float]) -> None:
    trend = build_trend(a_series(), [a_point(k, value) for k, value in enumerate(values)])

    dots = re.findall(r'class="pc-dot" cx="([^"]*)" cy="([^"]*)"', render_trend_chart(trend))

    assert len(dots) == len(values)
    assert all(0 <= float(x) <= 960 and 0 <= float(y) <= 340 for x, y in dots)


def test_an_interval_beyond_the_axis_ends_in_an_arrow() -> None:
    inside, beyond = (render_interval_bar(a_verdict(interval=(1.1, hi)), span=1.3) for hi in (1.2, 1.9))

    assert inside.count("<path") == 0
    assert beyond.count("<path") == 1


def test_a_verdict_without_an_estimate_has_no_bar() -> None:
    assert render_interval_bar(a_verdict(VerdictKind.FAILED, None, None), span=2) == ""


def test_an_interval_bar_has_a_text_label() -> None:
    assert 'aria-label="regression, +18.3 %, from +15.9 % to +20.8 %"' in render_interval_bar(
        a_verdict(), span=2
    )


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(colour: str, other: str) -> float:
    brighter, darker = sorted((luminance(colour), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_text_colour_can_be_read_on_every_ground(theme: dict[str, str]) -> None:
    for ink in ("ink", "muted", "worse", "better", "same", "unsure"):
        for ground in ("paper", "surface"):
            assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
    for shade in ("worse", "better", "same", "unsure"):
        assert contrast(theme[shade], theme[f"{shade}-tint"]) >= 4.5, shade


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_shape_that_means_something_stands_out(theme: dict[str, str]) -> None:
    for shape in ("dot", "level", "control", "worse", "better"):
        assert contrast(theme[shape], theme["surface"]) >= 3, shape
