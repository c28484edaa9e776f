"""The plotly figure of a trend in a static report, in the light palette.

Its axes are plotly's own: no server redraws labels when a reader zooms.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

from perfci.number_format import DisplayScale, format_day, format_signed_percent
from perfci.report.charts.drawn_trend import MAX_DOTS
from perfci.report.charts.plot_axes import choose_trend_display_scale, value_axis_range
from perfci.report.color_palette import LIGHT
from perfci.report.escaping import make_printable
from perfci.report.series_trend import ChangeMark, Trend, change_mark_sentence, downsample_trend
from perfci.report.trend_dots import Dot

TRANSPARENT = "rgba(0,0,0,0)"
MAX_TICKS = 3
"""As many labels of commits as a phone has room for."""


def build_trend_figure(trend: Trend) -> str:
    """Build the figure of a trend with a measured value, as JSON for plotly.js."""
    import plotly.graph_objects as go  # takes a quarter of a second, and only this verb draws with it

    drawn = downsample_trend(trend, MAX_DOTS)
    scale = choose_trend_display_scale(trend)
    figure = go.Figure(
        data=[
            go.Scatter(**_draw_levels(drawn, scale)),
            go.Scatter(**_draw_dots(drawn, scale)),
            go.Scatter(**_draw_changes(drawn, scale)),
        ],
        layout=go.Layout(template=go.layout.Template(), **_lay_out(drawn, scale)),
    )
    values: dict[str, Any] = json.loads(figure.to_json())
    return json.dumps({"data": values["data"], "layout": values["layout"]}, separators=(",", ":"))


def _draw_levels(trend: Trend, scale: DisplayScale) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for level in trend.levels:
        x += [level.first, level.last, None]
        y += [level.value / scale.factor, level.end / scale.factor, None]
    line = {"color": LIGHT["level"], "width": 2}
    return {"x": x, "y": y, "mode": "lines", "line": line, "hoverinfo": "skip"}


def _draw_dots(trend: Trend, scale: DisplayScale) -> dict[str, Any]:
    return {
        "x": [dot.index for dot in trend.measured_dots],
        "y": [dot.level / scale.factor for dot in trend.measured_dots if dot.level is not None],
        "mode": "markers",
        "marker": {"color": LIGHT["dot"], "size": 5},
        "hovertext": [_describe_dot(dot, scale) for dot in trend.measured_dots],
        "hoverinfo": "text",
    }


def _describe_dot(dot: Dot, scale: DisplayScale) -> str:
    assert dot.level is not None
    merged = f" (median of {dot.merged} commits)" if dot.merged > 1 else ""
    subject = f" {make_printable(dot.commit.subject, 72)}" if dot.commit.subject else ""
    day = f", {format_day(dot.commit.committed_at)}" if dot.commit.committed_at else ""
    text = f"{scale.format_with_unit(dot.level)}{merged} · {dot.commit.sha[:10]}{subject}{day}"
    return escape(text, quote=False)  # plotly.js reads some tags in texts


def _draw_changes(trend: Trend, scale: DisplayScale) -> dict[str, Any]:
    """Draw a triangle at the level that a change begins: hollow unless it is confirmed."""
    marks = [mark for mark in trend.marks if mark.state != "refuted" and mark.change.after > 0]
    colors = [LIGHT["worse"] if mark.change.log_cost_change > 0 else LIGHT["better"] for mark in marks]
    return {
        "x": [mark.index for mark in marks],
        "y": [mark.change.after / scale.factor for mark in marks],
        "mode": "markers+text",
        "text": [format_signed_percent(mark.ratio - 1) for mark in marks],
        "textposition": "top center",
        "textfont": {"color": colors},
        "marker": {
            "symbol": [_choose_symbol(mark) for mark in marks],
            "color": colors,
            "size": 10,
            "line": {"width": 1.5, "color": colors},
        },
        "hovertext": [
            escape(f"{mark.commit[:10]} {change_mark_sentence(mark, trend.series.metric)}", quote=False)
            for mark in marks
        ],
        "hoverinfo": "text",
        "cliponaxis": False,
    }


def _choose_symbol(mark: ChangeMark) -> str:
    hollow = "" if mark.state == "confirmed" else "-open"
    return f"triangle-{'up' if mark.ratio > 1 else 'down'}{hollow}"


def _lay_out(trend: Trend, scale: DisplayScale) -> dict[str, Any]:
    low, high = (value / scale.factor for value in value_axis_range(trend.dots))
    places = sorted({round(k * (len(trend.dots) - 1) / (MAX_TICKS - 1)) for k in range(MAX_TICKS)})
    ticks = [trend.dots[place] for place in places]
    axis = {"gridcolor": LIGHT["grid"], "linecolor": LIGHT["rule"], "zeroline": False}
    return {
        "font": {"color": LIGHT["muted"], "size": 11},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "showlegend": False,
        "hovermode": "closest",
        "margin": {"l": 8, "r": 24, "t": 24, "b": 40},
        "xaxis": {
            **axis,
            "showgrid": False,
            "showline": True,
            "tickangle": 0,
            "tickvals": [dot.index for dot in ticks],
            "ticktext": [_label_commit(dot) for dot in ticks],
        },
        "yaxis": {
            **axis,
            "range": [low, high],
            "automargin": True,
            "ticksuffix": escape(f" {make_printable(scale.symbol, 24)}", quote=False).rstrip(),
        },
    }


def _label_commit(dot: Dot) -> str:
    day = f"<br>{format_day(dot.commit.committed_at)}" if dot.commit.committed_at else ""
    return f"{escape(dot.commit.sha[:7])}{day}"
