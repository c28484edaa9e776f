"""Draw the chart of a series for pages elsewhere: with its name, its machine and a legend in the picture."""

from __future__ import annotations

from html import escape

from perfci.report.charts.plot_axes import CHARACTER_WIDTH_PX
from perfci.report.charts.svg_charts import render_trend_chart
from perfci.report.charts.svg_elements import (
    SVG_STYLE,
    svg_background,
    svg_circle,
    svg_line,
    svg_rect,
    svg_text,
)
from perfci.report.color_palette import standalone_svg_palette_css
from perfci.report.escaping import make_printable
from perfci.report.page_summaries import trend_summary
from perfci.report.series_trend import Trend
from perfci.report.verdict_text import short_series_name

WIDTH_PX, CHART_HEIGHT_PX = 960, 340
HEADER_HEIGHT_PX, LEGEND_HEIGHT_PX = 44, 28
HEIGHT_PX = HEADER_HEIGHT_PX + CHART_HEIGHT_PX + LEGEND_HEIGHT_PX
MARGIN_PX = 12
SYMBOL_WIDTH_PX, LEGEND_GAP_PX = 18, 18


def render_embedded_chart(trend: Trend) -> str:
    """Draw the trend chart below the name and place of its series, and above what its symbols mean."""
    chart = render_trend_chart(trend, width=WIDTH_PX, height=CHART_HEIGHT_PX)
    size = f'width="{WIDTH_PX}" height="{HEIGHT_PX}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" {size} role="img"'
        f' aria-labelledby="embed-title"><style>{standalone_svg_palette_css()}{SVG_STYLE}</style>'
        f'<title id="embed-title">{escape(str(trend_summary(trend)))}</title>'
        f"{svg_background(WIDTH_PX, HEIGHT_PX)}{_draw_header(trend)}"
        f'<svg y="{HEADER_HEIGHT_PX}" width="{WIDTH_PX}" height="{CHART_HEIGHT_PX}">{chart}</svg>'
        f"{_draw_legend(trend)}</svg>"
    )


def _draw_header(trend: Trend) -> str:
    series = trend.series
    place = " · ".join(filter(None, (series.machine.label, series.variant.label)))
    room = int((WIDTH_PX - 2 * MARGIN_PX) / CHARACTER_WIDTH_PX)
    name = svg_text(MARGIN_PX, 18, make_printable(short_series_name(series), room), "pc-strong")
    return name + svg_text(MARGIN_PX, 35, make_printable(place, room))


def _draw_legend(trend: Trend) -> str:
    """Draw each symbol with its meaning, from left to right."""
    y = HEADER_HEIGHT_PX + CHART_HEIGHT_PX + 12
    x, parts = float(MARGIN_PX), []
    for symbol, meaning in _list_symbols(trend, y):
        parts.append(f'<g transform="translate({x:.0f})">{symbol}</g>')
        parts.append(svg_text(x + SYMBOL_WIDTH_PX + 5, y + 4, meaning))
        x += SYMBOL_WIDTH_PX + 5 + len(meaning) * CHARACTER_WIDTH_PX + LEGEND_GAP_PX
    return "".join(parts)


def _list_symbols(trend: Trend, y: int) -> list[tuple[str, str]]:
    symbols = [
        (svg_circle(9, y, 3.2, "pc-dot"), "commit"),
        (svg_rect(0, y - 5, SYMBOL_WIDTH_PX, y + 5, "pc-band"), "middle 50 % of its processes (IQR)"),
    ]
    if trend.levels:
        triangle = f"M9 {y - 5}l5 9H4z"
        symbols += [
            (svg_line(0, y, SYMBOL_WIDTH_PX, y, "pc-level"), "level"),
            (f'<path class="pc-flag pc-worse" d="{triangle}"/>', "confirmed change"),
            (f'<path class="pc-flag pc-worse pc-hollow" d="{triangle}"/>', "candidate"),
        ]
    cross = f"M5.5 {y - 3.5}l7 7m0-7l-7 7"
    return [*symbols, (f'<path class="pc-failed" d="{cross}"/>', "failed")]
