"""Draw badges: the newest state of a series or a project in a picture of one line."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from html import escape

from perfci.model import Status
from perfci.number_format import format_count, format_quantity, format_signed_percent
from perfci.report.charts.plot_axes import CHARACTER_WIDTH_PX
from perfci.report.charts.svg_elements import format_px
from perfci.report.color_palette import LIGHT
from perfci.report.escaping import make_printable
from perfci.report.notable_changes import absolute_log_ratio, find_open_regressions
from perfci.report.series_trend import Trend
from perfci.report.verdict_text import Tone, short_series_name, status_label

MAX_LABEL_LENGTH = 48
HEIGHT_PX, PADDING_PX = 20, 6

LABEL_COLOUR, TEXT_COLOUR = LIGHT["level"], "#ffffff"
TONE_COLOURS: dict[Tone, str] = {
    "worse": LIGHT["worse"],
    "better": LIGHT["better"],
    "same": LIGHT["same"],
    "unsure": LIGHT["unsure"],
    "void": LIGHT["same"],
}
"""One palette for light and dark pages: a badge has its own background, on which its text is white."""


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge is about, its state, and the tone of that."""

    label: str
    message: str
    tone: Tone


def build_series_badge(trend: Trend) -> Badge:
    """State the newest value of a series, and its largest regression that is still open."""
    label = make_printable(short_series_name(trend.series), MAX_LABEL_LENGTH)
    metric = trend.series.metric
    if trend.newest_measured_level is None:
        return Badge(label, "not measured", "void")
    if trend.dots[-1].level is None:
        status = trend.dots[-1].status
        return Badge(label, status_label(status), "void" if status is Status.SKIPPED else "worse")
    if not trend.levels:
        level = format_quantity(trend.newest_measured_level, metric.unit, metric.name)
        return Badge(label, level, "void")
    level = format_quantity(trend.levels[-1].value, metric.unit, metric.name)
    if regressions := find_open_regressions(trend):
        largest = max(regressions, key=absolute_log_ratio)
        return Badge(label, f"{level} · regression {format_signed_percent(largest.ratio - 1)}", "worse")
    if any(mark.state == "candidate" for mark in trend.marks):
        return Badge(label, f"{level} · candidate change", "unsure")
    return Badge(label, f"{level} · no regression", "same")


def build_project_badge(project: str, *, open_incidents: int, series: int) -> Badge:
    """State how many incidents of a project are open."""
    label = make_printable(project, MAX_LABEL_LENGTH)
    if open_incidents:
        return Badge(label, format_count(open_incidents, "open incident"), "worse")
    return Badge(label, "no open incident", "same") if series else Badge(label, "not measured", "void")


def render_badge(badge: Badge) -> str:
    """Draw the label on a dark ground, and beside it the message on that of its tone."""
    middle = _text_width(badge.label) + 2 * PADDING_PX
    width = middle + _text_width(badge.message) + 2 * PADDING_PX
    name = escape(f"{badge.label}: {badge.message}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{format_px(width)}" height="{HEIGHT_PX}"'
        f' viewBox="0 0 {format_px(width)} {HEIGHT_PX}" role="img" aria-label="{name}"><title>{name}</title>'
        f'<clipPath id="outline"><rect width="{format_px(width)}" height="{HEIGHT_PX}" rx="3"/></clipPath>'
        f'<g clip-path="url(#outline)">'
        f'<rect width="{format_px(middle)}" height="{HEIGHT_PX}" fill="{LABEL_COLOUR}"/>'
        f'<rect x="{format_px(middle)}" width="{format_px(width - middle)}" height="{HEIGHT_PX}"'
        f' fill="{TONE_COLOURS[badge.tone]}"/></g>'
        f"{_draw_text(PADDING_PX, badge.label)}{_draw_text(middle + PADDING_PX, badge.message)}</svg>"
    )


def _draw_text(x: float, text: str) -> str:
    """Write text at exactly its estimated width, whatever font the reader has."""
    return (
        f'<text x="{format_px(x)}" y="14" textLength="{format_px(_text_width(text))}"'
        f' lengthAdjust="spacingAndGlyphs" fill="{TEXT_COLOUR}" font-size="11"'
        f' font-family="Verdana,DejaVu Sans,Geneva,sans-serif">{escape(text)}</text>'
    )


def _text_width(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return (len(text) + wide) * CHARACTER_WIDTH_PX
