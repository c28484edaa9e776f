"""Draw a scene as a plotly figure: JSON that a page hands to plotly.js as it is.

Colours are names of the palette (``$worse``), which the page resolves, so that its theme may change. Margins
are zero and the axes have domains, so that a place in the picture is the same as in the SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from perfci.report.charts.scene import Scene, SceneFrame, SceneText, SceneZone
from perfci.report.charts.scene_svg import FAILURE_OFFSET_PX, FLAG_STEM_Y, FLAG_Y, UNMEASURED_OFFSET_PX

Json = dict[str, Any]

SILENT: Json = {"type": "scatter", "hoverinfo": "skip", "cliponaxis": True}

LINE_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star")
"""Symbols of the lines of a graph, which colour alone would not tell apart."""

POSITION_DIGITS = 7
"""Significant digits of a position: an axis spans 6 % of its values or more."""

SVG_SYMBOL_SIZE = 2.0
"""Plotly's size of a marker is a diameter."""


def build_plotly_figure(scene: Scene) -> Json:
    """Build data and layout of a scene; ``names`` say which trace is which."""
    traces = [
        ("bands", _band_trace(scene)),
        ("unmeasured", _unmeasured_trace(scene)),
        ("risers", _segment_trace(scene, riser=True)),
        *_dot_traces(scene),
        *_level_traces(scene),
        ("failures", _failure_trace(scene)),
        ("flags", _flag_trace(scene)),
        ("ring", _ring_trace()),
    ]
    return {
        "names": [name for name, _ in traces],
        "data": [trace for _, trace in traces],
        "layout": _layout(scene),
    }


def _band_trace(scene: Scene) -> Json:
    x: list[float | None] = []
    y: list[float | None] = []
    for band in scene.bands:
        if x:
            x.append(None)
            y.append(None)
        x += [*band.x, *band.x[::-1], band.x[0]]
        y += map(_round_position, [*band.y_hi, *band.y_lo[::-1], band.y_hi[0]])
    line = {"width": 0, "color": "$band"}
    return {**SILENT, "x": x, "y": y, "mode": "lines", "fill": "toself", "fillcolor": "$band", "line": line}


def _round_position(y: float) -> float:
    """A position without the digits that no screen shows, which are most of what a figure weighs."""
    return float(f"{y:.{POSITION_DIGITS}g}")


def _unmeasured_trace(scene: Scene) -> Json:
    marker = {"symbol": "line-ns-open", "size": 4, "color": "$muted", "line": {"width": 1}}
    y = [_lane_value(scene.frame, UNMEASURED_OFFSET_PX + 2)] * len(scene.unmeasured)
    return _lane_trace({"x": list(scene.unmeasured), "y": y, "marker": marker, "hoverinfo": "skip"})


def _segment_trace(scene: Scene, *, riser: bool, line: int = 0) -> Json:
    chosen = [piece for piece in scene.segments if piece.riser == riser and (riser or piece.line == line)]
    style: Json = (
        {"color": "$level", "width": 1, "dash": "dot"} if riser else {"color": "$level", "width": 1.75}
    )
    if scene.lines and not riser:
        style["color"] = f"$line-{line + 1}"
    return {
        **SILENT,
        "x": [x for piece in chosen for x in (piece.x0, piece.x1, None)],
        "y": [y for piece in chosen for y in (piece.y0, piece.y1, None)],
        "mode": "lines",
        "line": style,
    }


def _level_traces(scene: Scene) -> list[tuple[str, Json]]:
    return [
        ("levels", _segment_trace(scene, riser=False, line=line)) for line in range(max(1, len(scene.lines)))
    ]


def _dot_traces(scene: Scene) -> list[tuple[str, Json]]:
    traces = []
    for line in range(max(1, len(scene.lines))):
        numbers = [number for number, dot in enumerate(scene.dots) if dot.line == line]
        dots = [scene.dots[number] for number in numbers]
        marker: Json = {"color": "$dot", "size": SVG_SYMBOL_SIZE * scene.dot_radius}
        if scene.lines:
            marker |= {"color": f"$line-{line + 1}", "symbol": LINE_SYMBOLS[line % len(LINE_SYMBOLS)]}
        trace = {
            "type": "scatter",
            "mode": "markers",
            "hoverinfo": "none",
            "x": [dot.x for dot in dots],
            "y": [_round_position(dot.y) for dot in dots],
            "customdata": numbers,
            "marker": marker,
        }
        traces.append(("dots", trace))
    return traces


def _failure_trace(scene: Scene) -> Json:
    colours = ["$muted" if failure.skipped else "$worse" for failure in scene.failures]
    return _lane_trace(
        {
            "x": [failure.x for failure in scene.failures],
            "y": [_lane_value(scene.frame, FAILURE_OFFSET_PX)] * len(scene.failures),
            "customdata": [len(scene.dots) + number for number in range(len(scene.failures))],
            "marker": {"symbol": "x-thin-open", "size": 7, "color": colours, "line": {"width": 1.5}},
            "hoverinfo": "none",
        }
    )


def _flag_trace(scene: Scene) -> Json:
    numbers = {dot.sha: number for number, dot in enumerate(scene.dots)}
    colours = [f"${flag.tone}" for flag in scene.flags]
    symbols = [
        f"triangle-{'up' if flag.up else 'down'}{'' if flag.state == 'confirmed' else '-open'}"
        for flag in scene.flags
    ]
    return _lane_trace(
        {
            "x": [flag.x for flag in scene.flags],
            "y": [_picture_value(scene.frame, FLAG_Y)] * len(scene.flags),
            "customdata": [numbers.get(flag.sha, -1) for flag in scene.flags],
            "yaxis": "y3",
            "marker": {
                "symbol": symbols,
                "size": 11,
                "color": colours,
                "line": {"width": 1.5, "color": colours},
            },
            "hoverinfo": "none",
        }
    )


def _ring_trace() -> Json:
    """The ring around the commit that is read; the page moves it."""
    marker = {"symbol": "circle-open", "size": 13, "color": "$ink", "line": {"width": 2}}
    return {
        "type": "scatter",
        "mode": "markers",
        "hoverinfo": "skip",
        "cliponaxis": False,
        "x": [],
        "y": [],
        "marker": marker,
    }


def _lane_trace(trace: Json) -> Json:
    """A trace outside the plot, on an axis that counts pixels of the picture."""
    return {"type": "scatter", "mode": "markers", "yaxis": "y2", "cliponaxis": False, **trace}


def _lane_value(frame: SceneFrame, offset_px: float) -> float:
    return _picture_value(frame, frame.bottom + offset_px)


def _picture_value(frame: SceneFrame, y_px: float) -> float:
    return frame.height - y_px


def _layout(scene: Scene) -> Json:
    frame = scene.frame
    silent_axis = {
        "showgrid": False,
        "zeroline": False,
        "showticklabels": False,
        "ticks": "",
        "showline": False,
    }
    plot = [1 - frame.bottom / frame.height, 1 - frame.top / frame.height]
    return {
        "width": frame.width,
        "height": frame.height,
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "hoverdistance": 40,
        "xaxis": {
            **silent_axis,
            "domain": [frame.left / frame.width, frame.right / frame.width],
            "range": [frame.x_low, frame.x_high],
            "anchor": "y",
        },
        "yaxis": {**silent_axis, "domain": plot, "range": [frame.y_low, frame.y_high], "fixedrange": True},
        "yaxis2": {**silent_axis, **_lane_axis(frame, frame.bottom + 2, frame.bottom + 22)},
        "yaxis3": {**silent_axis, **_lane_axis(frame, FLAG_Y - 8, FLAG_Y + 8)},
        "shapes": _shapes(scene),
        "annotations": [_annotation(text, frame) for text in scene.texts],
    }


def _lane_axis(frame: SceneFrame, top_px: float, bottom_px: float) -> Json:
    """An axis that counts pixels of the picture in a lane of it."""
    span = [frame.height - bottom_px, frame.height - top_px]
    return {
        "domain": [max(0.0, end / frame.height) for end in span],
        "range": span,
        "fixedrange": True,
        "anchor": "x",
    }


def _shapes(scene: Scene) -> list[Json]:
    frame = scene.frame
    shapes = [_zone_shape(zone, frame) for zone in scene.zones]
    for mark in scene.marks:
        dash = "dash" if mark.kind == "break" else "dot"
        color = "$ink" if mark.kind == "note" else "$control"
        place = (mark.x, mark.x, frame.top - 6, frame.bottom)
        shapes.append(_line_shape(frame, place, color, 1.0, dash, "below"))
    for value in scene.grid:
        y = frame.y_at(value)
        shapes.append(
            _line_shape(frame, (frame.left, frame.right, y, y), "$grid", 1.0, "solid", "below", "paper")
        )
    axis = (frame.left, frame.right, frame.bottom, frame.bottom)
    shapes.append(_line_shape(frame, axis, "$rule", 1.0, "solid", "below", "paper"))
    for flag in scene.flags:
        end = frame.bottom if flag.stem_y is None else frame.y_at(flag.stem_y) - 8
        if flag.state != "refuted" and end > FLAG_STEM_Y + 4:
            place = (flag.x, flag.x, FLAG_STEM_Y, end)
            shapes.append(
                _line_shape(frame, place, f"${flag.tone}", 1.0, "solid", "above") | {"opacity": 0.55}
            )
    return shapes


def _zone_shape(zone: SceneZone, frame: SceneFrame) -> Json:
    colour, opacity = {
        "environment": ("$same-tint", 0.55),
        "blind": ("$same-tint", 1.0),
        "candidates": (f"${zone.tone}", 0.1),
    }[zone.kind]
    top = frame.top - 6 if zone.y1 is None else frame.y_at(zone.y1)
    bottom = frame.bottom if zone.y0 is None else frame.y_at(zone.y0)
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": zone.x0,
        "x1": zone.x1,
        "y0": 1 - bottom / frame.height,
        "y1": 1 - top / frame.height,
        "fillcolor": colour,
        "opacity": opacity,
        "line": {"width": 0},
        "layer": "below",
    }


def _line_shape(
    frame: SceneFrame,
    place: Sequence[float],
    colour: str,
    width: float,
    dash: str,
    layer: str,
    xref: str = "x",
) -> Json:
    """A line from pixels of the picture; its x are pixels as well where ``xref`` is ``paper``."""
    x0, x1, y0, y1 = place
    if xref == "paper":
        x0, x1 = x0 / frame.width, x1 / frame.width
    return {
        "type": "line",
        "xref": xref,
        "yref": "paper",
        "x0": x0,
        "x1": x1,
        "y0": 1 - y0 / frame.height,
        "y1": 1 - y1 / frame.height,
        "line": {"color": colour, "width": width, "dash": dash},
        "layer": layer,
    }


def _annotation(text: SceneText, frame: SceneFrame) -> Json:
    # plotly.js reads a little HTML in its labels.
    plain = escape(text.text, quote=False)
    return {
        "xref": "paper",
        "yref": "paper",
        "x": text.x / frame.width,
        "y": 1 - text.y / frame.height,
        "xanchor": {"start": "left", "middle": "center", "end": "right"}[text.anchor],
        "yanchor": "middle",
        "yshift": 4,
        "borderpad": 0,
        "showarrow": False,
        "text": plain,
        "font": {"size": 11, "color": f"${text.tone}", "weight": 600 if text.strong else 400},
    }
