"""Routes of the graph: up to eight series in one chart, with its figure, SVG and JSON."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request

from perfci.net.url_segments import encode_segment
from perfci.report.charts.build_graph_scene import build_graph_scene
from perfci.report.charts.png import render_png
from perfci.report.charts.scene_svg import render_scenes_below_each_other
from perfci.report.serializers import serialize_trend
from perfci_web.graphs.view_model import MAX_KEYS, load_graph
from perfci_web.series.chart_view import (
    build_view_controls,
    narrow,
    parse_chart_view,
    serialize_scene,
    view_query,
)
from perfci_web.series.view_model import POINT_COLUMNS
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, build_series_cells

blueprint = Blueprint("graphs", __name__)

GRAPH_PATH = "/<project:project>/graph"


@blueprint.get(GRAPH_PATH)
def graph_page(project: str) -> str:
    """Several series over the same commits."""
    graph = load_graph(project, request.args)
    view = parse_chart_view(request.args)
    panels = [
        (build_graph_scene(*panel.scene_inputs, view, normalized=graph.normalized), panel)
        for panel in graph.panels
    ]
    scene, narrow_scene = None, None
    if len(panels) == 1:
        scene = panels[0][0]
        narrow_scene = build_graph_scene(
            *panels[0][1].scene_inputs, narrow(view), normalized=graph.normalized
        )
    return render_template(
        "graphs/graph.html",
        project=project,
        graph=graph,
        panels=panels,
        scene=scene,
        narrow_scene=narrow_scene,
        controls=build_view_controls(graph.longest_trend, view, request.args, graph.address, graph.y_labels)
        if graph.longest_trend
        else None,
        links=graph.links,
        state=view_query(request.args),
    )


@blueprint.get(f"{GRAPH_PATH}/figure")
def graph_figure(project: str) -> Response:
    """The chart as plotly.js draws it; the first panel where units differ."""
    graph = load_graph(project, request.args)
    view = parse_chart_view(request.args)
    if not graph.panels:
        return jsonify({"points": []})
    panel = graph.panels[0]
    scene = build_graph_scene(*panel.scene_inputs, view, normalized=graph.normalized)
    if scene is None:
        return jsonify({"points": []})
    return jsonify(serialize_scene(scene, panel.trends))


@blueprint.get(f"{GRAPH_PATH}.svg")
def graph_svg(project: str) -> Response:
    """The chart as a picture that stands alone."""
    return Response(_draw_picture(project), content_type="image/svg+xml; charset=utf-8")


@blueprint.get(f"{GRAPH_PATH}.png")
def graph_png(project: str) -> Response:
    return Response(render_png(_draw_picture(project)), content_type="image/png")


@blueprint.get(f"{GRAPH_PATH}.json")
def graph_json(project: str) -> Response:
    """The series of the graph, each with its points."""
    graph = load_graph(project, request.args)
    fields: dict[str, Any] = {"project": project, "normalized": graph.normalized}
    return jsonify(fields | {"series": [serialize_trend(line.trend) for line in graph.lines]})


@blueprint.get(f"{GRAPH_PATH}.csv")
def graph_csv(project: str) -> Response:
    """The points of the series, one a line; of more series than a graph draws."""
    graph = load_graph(project, request.args, MAX_KEYS)
    rows = []
    for line in graph.lines:
        series = build_series_cells(line.series)
        rows += [series | point for point in serialize_trend(line.trend)["points"]]
    return build_csv_response([*SERIES_COLUMNS, *POINT_COLUMNS], rows, f"{encode_segment(project)}-graph.csv")


def _draw_picture(project: str) -> str:
    """All panels of a graph as an SVG; an empty one where nothing is drawn."""
    graph, view = load_graph(project, request.args), parse_chart_view(request.args)
    scenes = [
        build_graph_scene(*panel.scene_inputs, view, normalized=graph.normalized) for panel in graph.panels
    ]
    drawn = [scene for scene in scenes if scene is not None]
    if not drawn:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
    return render_scenes_below_each_other(drawn)
