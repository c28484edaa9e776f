"""Routes of the weeks of a project: the page, the same as text, Markdown and JSON, and a feed."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from werkzeug.wrappers import Response as BaseResponse

from perfci.report.incidents.week_report import (
    Week,
    WeekReport,
    format_week_markdown,
    format_week_text,
    week_of,
)
from perfci_web.application_context import web_context
from perfci_web.lens import CONFIRMED_KEY, current_lens
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.atom_feed import FeedEntry, build_atom_response
from perfci_web.weeks.view_model import build_address_maker, build_week_report

blueprint = Blueprint("weeks", __name__)

WEEKS_IN_FEED = 4
"""Weeks of the feed: the last ones that are over."""


@blueprint.get("/<project:project>/week")
def current_week(project: str) -> BaseResponse:
    """Redirect to the week of today."""
    return redirect(build_project_links(project).week(week_of(web_context().clock())))


@blueprint.get("/<project:project>/week/<week:week>")
def week_page(project: str, week: Week) -> str:
    report = _load_report(project, week)
    newest = week_of(web_context().clock())
    return render_template(
        "weeks/week.html",
        report=report,
        newest=newest,
        links=build_project_links(project),
        kept={CONFIRMED_KEY: "1"} if current_lens().confirmed_only else {},
    )


@blueprint.get("/<project:project>/week/<week:week>.txt")
def week_text(project: str, week: Week) -> Response:
    text = format_week_text(_load_report(project, week), build_address_maker(request.host_url))
    return Response(text, content_type="text/plain; charset=utf-8")


@blueprint.get("/<project:project>/week/<week:week>.md")
def week_markdown(project: str, week: Week) -> Response:
    text = format_week_markdown(_load_report(project, week), build_address_maker(request.host_url))
    return Response(text, content_type="text/markdown; charset=utf-8")


@blueprint.get("/<project:project>/week/<week:week>.json")
def week_json(project: str, week: Week) -> Response:
    report = _load_report(project, week)
    return jsonify({**asdict(report), "week": str(week), "days": week.days_text})


@blueprint.get("/<project:project>/week.atom")
def weeks_feed(project: str) -> Response:
    """The weeks that are over, an entry each."""
    now, links = web_context().clock(), build_project_links(project)
    weeks = [week_of(now).previous]
    while len(weeks) < WEEKS_IN_FEED:
        weeks.append(weeks[-1].previous)
    entries = [
        FeedEntry(
            identity=f"{project}/week/{report.week}",
            title=f"Week {report.week}: {report.headline}",
            address=links.week(report.week),
            updated=report.week.end,
            author="perfci",
            summary=format_week_text(report, build_address_maker(request.host_url)),
        )
        for report in (_load_report(project, week) for week in weeks)
    ]
    return build_atom_response(f"Weeks of {project}", f"{project}/week", entries, now)


def _load_report(project: str, week: Week) -> WeekReport:
    context = web_context()
    with context.store.read() as tx:
        record = require_project(tx, project)
        return build_week_report(
            tx,
            record,
            week,
            build_project_links(project),
            context.clock(),
            confirmed_only=current_lens().confirmed_only,
        )
