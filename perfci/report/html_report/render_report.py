"""Write a static report as one HTML file: it asks for nothing outside itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape

from perfci.model import Series
from perfci.number_format import format_count, format_day, format_signed_percent
from perfci.report.change_list_text import changes_headline, confirmation_label
from perfci.report.charts.build_trend_scene import build_trend_scene
from perfci.report.charts.scene_svg import render_scene_svg
from perfci.report.charts.svg_elements import SVG_STYLE
from perfci.report.color_palette import DARK, LIGHT, page_palette_css
from perfci.report.escaping import make_printable
from perfci.report.html_report.report_contents import (
    MetricScore,
    ReportedChange,
    ReportedIncident,
    StaticReport,
)
from perfci.report.html_report.trend_figure import build_trend_figure
from perfci.report.page_summaries import trend_summary
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import Trend
from perfci.report.verdict_text import change_levels_phrase, format_interval

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
"""What the file may do in a browser: nothing that asks another address."""

STYLE = """\
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 Inter,-apple-system,"Segoe UI",Roboto,\
"Helvetica Neue","Liberation Sans",Arial,sans-serif}
main,footer{max-width:66rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;line-height:1.3;margin:.25rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
h3{font-size:1rem;margin:1.5rem 0 0;overflow-wrap:anywhere}
p{margin:.35rem 0}.muted,footer{color:var(--muted)}.worse{color:var(--worse)}.better{color:var(--better)}
ul{padding:0;list-style:none}li{padding:.6rem 0;border-top:1px solid var(--rule);overflow-wrap:anywhere}
.scroll{overflow-x:auto}.scroll:focus-visible{outline:2px solid var(--level)}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{padding:.4rem .75rem .4rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th[scope=row]{font-weight:400;overflow-wrap:anywhere;min-width:12rem}
td:last-child:not(.num){min-width:14rem}
td.num,th.num{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
figure{margin:.5rem 0;background:var(--surface);border:1px solid var(--rule);border-radius:6px;padding:.5rem}
figure svg.pc-trend{display:block;width:100%;height:auto}figcaption{color:var(--muted);font-size:.85rem}
.plot{height:20rem}
@media print{figure,li,tr{break-inside:avoid}}
"""

SCRIPT = """\
const dark = JSON.parse(document.getElementById("dark-colours").textContent);
const scheme = matchMedia("(prefers-color-scheme: dark)");
function recolour(text) {
  return scheme.matches ? text.replace(/#[0-9a-f]{6}/g, (colour) => dark[colour] ?? colour) : text;
}
function draw() {
  for (const figure of document.querySelectorAll("figure")) {
    const plot = figure.querySelector(".plot");
    const { data, layout } = JSON.parse(recolour(figure.querySelector("script").textContent));
    plot.hidden = false;
    Plotly.react(plot, data, layout, { displaylogo: false, responsive: true }).then(() => {
      figure.querySelector("svg.pc-trend").style.display = "none";
    });
  }
}
if (window.Plotly) {
  draw();
  scheme.addEventListener("change", draw);
}
"""
"""Draws each figure in place of its picture, in the colours of the reader's scheme."""


def render_report(report: StaticReport, plotly_bundle: str) -> str:
    """Write a report; ``plotly_bundle`` is the source of plotly.js, which the file carries once."""
    return "\n".join(_write_parts(report, plotly_bundle)) + "\n"


def _write_parts(report: StaticReport, plotly_bundle: str) -> Iterator[str]:
    title = f"Performance of {make_printable(report.project)}"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>{page_palette_css()}{SVG_STYLE}{STYLE}</style>\n</head>\n<body>\n<main>"
    yield f'<p class="muted">{escape(title)}</p>'
    yield f"<h1>{escape(report.summary.headline)}.</h1>"
    yield f"<p>{escape(report.summary.detail)}.</p>" if report.summary.detail else ""
    yield f'<p class="muted">{escape(_describe_age(report))}</p>'
    yield from _write_incidents(report)
    yield from _write_changes(report)
    yield from _write_scores(report.scores)
    yield from _write_trends(report)
    yield "</main>\n<footer><p>Written by perfci report. It needs no server and no network.</p></footer>"
    if any(trend.measured_dots for trend in report.trends):
        dark = json.dumps({LIGHT[name]: DARK[name] for name in LIGHT})
        yield f'<script type="application/json" id="dark-colours">{dark}</script>'
        yield f"<script>{plotly_bundle}</script>\n<script>{SCRIPT}</script>"
    yield "</body>\n</html>"


def _describe_age(report: StaticReport) -> str:
    measured = f"Last measured {format_day(report.last_measured_at)}. " if report.last_measured_at else ""
    return f"{measured}Written {report.written_at:%Y-%m-%d %H:%M} UTC; changes {report.window}."


def _write_incidents(report: StaticReport) -> Iterator[str]:
    yield "<section><h2>Open incidents</h2>"
    if report.incidents:
        yield "<ul>"
        yield from map(_write_incident, report.incidents)
        yield "</ul>"
        if report.incident_count > len(report.incidents):
            yield f'<p class="muted">{len(report.incidents)} of {report.incident_count:,} open incidents.</p>'
    else:
        yield "<p>No incident is open.</p>"
    yield "</section>"


def _write_incident(incident: ReportedIncident) -> str:
    number = f"#{incident.number} " if incident.number else ""
    facts = " · ".join(filter(None, (incident.kind, incident.state, make_printable(incident.assignee, 60))))
    explanation = (
        f"<p>{escape(make_printable(incident.explanation, 500))}</p>" if incident.explanation else ""
    )
    return (
        f"<li><p><strong>{number}{escape(make_printable(incident.headline, 300))}</strong></p>{explanation}"
        f'<p class="muted">{escape(facts)}</p></li>'
    )


def _write_changes(report: StaticReport) -> Iterator[str]:
    heading = changes_headline(report.change_count, report.worse_count, report.window)
    yield f"<section><h2>{escape(heading)}</h2>"
    if report.changes:
        places = SeriesPlaces([reported.change.series for reported in report.changes])
        yield from _write_common_place(places)
        yield '<div class="scroll" role="region" tabindex="0" aria-label="Changes"><table><thead><tr>'
        yield '<th scope="col">Series</th><th scope="col" class="num">Change</th>'
        yield '<th scope="col" class="num">95 % interval</th><th scope="col" class="num">Before → after</th>'
        yield '<th scope="col">Commit</th></tr></thead><tbody>'
        for reported in report.changes:
            yield _write_change(reported, places)
        yield "</tbody></table></div>"
        if report.change_count > len(report.changes):
            yield f'<p class="muted">The newest {len(report.changes)} of {report.change_count:,} changes.</p>'
    yield "</section>"


def _write_common_place(places: SeriesPlaces) -> Iterator[str]:
    if places.common:
        yield f'<p class="muted">All on {escape(make_printable(places.common, 200))}.</p>'


def _write_change(reported: ReportedChange, places: SeriesPlaces) -> str:
    change = reported.change
    tone = "worse" if reported.is_worse else "better"
    size = format_signed_percent(change.relative_change) if change.before > 0 else tone
    interval = f"{format_interval(change.interval)} %" if change.interval else ""
    levels = change_levels_phrase(change) or f"{change.before:g} → {change.after:g}"
    remark = confirmation_label(reported.confirmed)
    remark += f", incident #{reported.incident}" if reported.incident else ""
    return (
        f'<tr><th scope="row">{_write_name(change.series, places)}</th>'
        f'<td class="num"><strong class="{tone}">{size}</strong></td><td class="num">{escape(interval)}</td>'
        f'<td class="num">{escape(levels)}</td>'
        f'<td>{_write_commit(reported)}<br><span class="muted">{escape(remark)}</span></td></tr>'
    )


def _write_commit(reported: ReportedChange) -> str:
    commit = reported.commit
    sha = f"<code>{escape(reported.change.commit[:10])}</code>"
    if commit is None:
        return sha
    day = format_day(commit.committed_at) if commit.committed_at else ""
    who_when = " · ".join(filter(None, (make_printable(commit.author, 60), day)))
    parts = (escape(make_printable(commit.subject, 90)), f'<span class="muted">{escape(who_when)}</span>')
    return " ".join((sha, *parts))


def _write_scores(scores: tuple[MetricScore, ...]) -> Iterator[str]:
    if not scores:
        return
    yield "<section><h2>Scorecard</h2>"
    yield '<p class="muted">What these changes came to; a series that did not change counts as unchanged.</p>'
    yield '<div class="scroll" role="region" tabindex="0" aria-label="Scorecard"><table><thead><tr>'
    yield '<th scope="col">Metric</th><th scope="col" class="num">Series</th>'
    yield '<th scope="col" class="num">Worse</th><th scope="col" class="num">Better</th>'
    yield '<th scope="col" class="num">Mean change in cost</th></tr></thead><tbody>'
    for score in scores:
        mean = "" if score.mean_ratio is None else format_signed_percent(score.mean_ratio - 1)
        yield (
            f'<tr><th scope="row">{escape(make_printable(score.metric))}</th>'
            f'<td class="num">{score.series:,}</td><td class="num">{score.worse:,}</td>'
            f'<td class="num">{score.better:,}</td><td class="num">{mean}</td></tr>'
        )
    yield "</tbody></table></div></section>"


def _write_trends(report: StaticReport) -> Iterator[str]:
    if not report.trends:
        return
    yield "<section><h2>Trends</h2>"
    if report.changed_series > len(report.trends):
        drawn = f"{format_count(len(report.trends), 'series', 'series')} of the {report.changed_series:,}"
        command = f"<code>--series {report.changed_series}</code>"
        yield f'<p class="muted">{drawn} that changed; {command} draws all.</p>'
    places = SeriesPlaces([trend.series for trend in report.trends])
    yield from _write_common_place(places)
    for k, trend in enumerate(report.trends):
        yield from _write_trend(trend, places, f"trend-{k}")
    yield "</section>"


def _write_trend(trend: Trend, places: SeriesPlaces, element_id: str) -> Iterator[str]:
    yield f"<h3>{_write_name(trend.series, places)}</h3>"
    yield f"<p>{escape(str(trend_summary(trend)))}</p>"
    if trend.measured_dots:
        figure = build_trend_figure(trend).replace("<", "\\u003c")
        scene = build_trend_scene(trend)
        picture = render_scene_svg(scene, id_prefix=element_id)
        yield f'<figure>{picture}<div class="plot" hidden></div>'
        yield f'<script type="application/json">{figure}</script>'
        yield f"<figcaption>{escape(scene.caption)}</figcaption></figure>"


def _write_name(series: Series, places: SeriesPlaces) -> str:
    label = places.label(series)
    place = f' <span class="muted">{escape(make_printable(label, 160))}</span>' if label else ""
    name = f"{make_printable(series.cell)} · {make_printable(series.metric.name)}"
    return f"{escape(name)}{place}"
