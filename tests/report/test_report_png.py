"""PNG pictures of charts: sizes, colours and text, on a machine without any font."""

from __future__ import annotations

import re

import pytest

from perfci.report.charts.png import MAX_PIXELS, render_png, resolve_style
from perfci.report.charts.svg_elements import SVG_STYLE
from perfci.report.color_palette import standalone_svg_palette_css
from tests.support.png_sizes import read_png_size


def a_picture(body: str, width: int = 60, height: int = 30) -> str:
    style = f"<style>{standalone_svg_palette_css()}{SVG_STYLE}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}">{style}{body}</svg>'
    )


def a_text(text: str, css_class: str = "") -> str:
    return a_picture(f'<text class="pc-text {css_class}" x="5" y="20">{text}</text>')


def test_a_picture_has_two_pixels_for_each_of_the_chart() -> None:
    assert read_png_size(render_png(a_picture("", 300, 100))) == (600, 200)


def test_a_large_picture_is_drawn_in_fewer_pixels() -> None:
    width, height = read_png_size(render_png(a_picture("", 4000, 4000)))

    assert width * height <= MAX_PIXELS * 1.01
    assert width == height


@pytest.mark.parametrize("character", [*"aZ0éßłΩжµ·−–…≈×±%↑↓▲△✕"])
def test_draws_the_characters_of_charts_from_its_own_font(character: str) -> None:
    nothing, missing = render_png(a_text(" ")), render_png(a_text("\U000f0000"))

    assert render_png(a_text(character)) not in (nothing, missing)


def test_strong_text_is_bold() -> None:
    assert render_png(a_text("slower", "pc-strong")) != render_png(a_text("slower"))


@pytest.mark.parametrize("number", range(1, 9))
def test_the_series_of_a_graph_have_their_colours(number: int) -> None:
    dots = [
        render_png(a_picture(f'<circle class="pc-dot{name}" cx="20" cy="15" r="9"/>'))
        for name in ("", f" pc-line-{number}")
    ]

    assert dots[0] != dots[1]


def test_no_variable_is_left_in_the_style_and_text_stays() -> None:
    text = "@media x{a{}} var(--ink)"

    svg = resolve_style(a_text(text))

    assert text in svg
    assert re.findall(r"var\([^)]*\)|@media", svg.replace(text, "")) == []
