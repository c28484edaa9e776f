"""Turn SVG charts into PNG pictures in light colours, with a font of perfci's own: the same everywhere."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from perfci.report.color_palette import LIGHT

SCALE = 2.0
"""Pixels of a picture for each one of its chart: text stays sharp where a site shows it smaller."""

MAX_PIXELS = 8_000_000
"""The most pixels of a picture, which take four bytes each while it is drawn."""

FONT_NAME = "DejaVu Sans Condensed"
FONT_FILES = ("DejaVuSansCondensed.ttf", "DejaVuSansCondensed-Bold.ttf")

STYLE_ELEMENT = re.compile(r"<style>.*?</style>", re.DOTALL)
MEDIA_RULE = re.compile(r"@media[^{}]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
COLOUR_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')


def render_png(svg: str) -> bytes:
    """Draw a standalone SVG; a large one in fewer pixels."""
    # A compiled library: only who draws a picture waits for it.
    import resvg_py

    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=resolve_style(svg),
            zoom=choose_scale(svg),
            skip_system_fonts=True,
            font_files=list(font_paths()),
            font_family=FONT_NAME,
            sans_serif_family=FONT_NAME,
        )
    )


def choose_scale(svg: str) -> float:
    """Return the pixels of a picture for each one of its chart."""
    matched = SIZE.search(svg)
    if matched is None:
        raise ValueError("an SVG with a width and a height was expected")
    return float(min(SCALE, (MAX_PIXELS / (float(matched[1]) * float(matched[2]))) ** 0.5))


def resolve_style(svg: str) -> str:
    """Write colours where the style names variables of the light palette, which the library does not read."""
    return STYLE_ELEMENT.sub(lambda style: _resolve_css(style[0]), svg)


def _resolve_css(css: str) -> str:
    return COLOUR_VARIABLE.sub(lambda name: LIGHT.get(name[1], name[0]), MEDIA_RULE.sub("", css))


@cache
def font_paths() -> tuple[str, ...]:
    """The files of the font: DejaVu Sans Condensed with Latin, Greek, Cyrillic, arrows and symbols."""
    folder = files("perfci.report.charts") / "fonts"
    return tuple(str(folder / name) for name in FONT_FILES)
