"""Routes that try another threshold on stored histories: what it would have flagged. Nothing is stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from werkzeug.exceptions import BadRequest

from perfci.history.try_threshold import ThresholdDryRun, try_threshold
from perfci.model import ChangePoint, PerfciError
from perfci.net.url_segments import encode_segment
from perfci.report.serializers import serialize_change_size, serialize_series
from perfci.report.series_places import SeriesPlaces
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci_web.application_context import web_context
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, build_series_cells

blueprint = Blueprint("threshold_dry_run", __name__)

DRY_RUN_PATH = "/<project:project>/settings/threshold"

DEFAULT_DAYS, MAX_DAYS = 90, 365
MAX_SHOWN = 40
"""Changes of each list on the page."""

CSV_COLUMNS = ("outcome", *SERIES_COLUMNS, "last_good", "commit", "before", "after", "relative_change")


@dataclass(frozen=True, slots=True)
class DryRunQuery:
    """The threshold to try, in percent, and the days before the newest commit."""

    percent: float
    days: int


@blueprint.get(DRY_RUN_PATH)
def dry_run_page(project: str) -> str | tuple[str, int]:
    context = web_context()
    dry_run: ThresholdDryRun | None = None
    rejection = ""
    with context.store.read() as tx:
        record = require_project(tx, project)
        policy = context.load_policies(record).policy
        query = DryRunQuery(100 * policy.default.bar, DEFAULT_DAYS)
        if "bar" in request.args:
            try:
                query = _parse_query()
                dry_run = try_threshold(tx, project, policy, query.percent / 100, query.days)
            except PerfciError as error:
                rejection = str(error)
        shown = [*dry_run.added[:MAX_SHOWN], *dry_run.removed[:MAX_SHOWN]] if dry_run else []
        series = [change.series for change in shown]
        links = build_project_links(project, load_series_of_same_cells(tx, project, series))
    page = render_template(
        "settings/threshold_dry_run.html",
        project=project,
        current_percent=100 * policy.default.bar,
        query=query,
        has_query="bar" in request.args,
        dry_run=dry_run,
        rejected=rejection,
        max_shown=MAX_SHOWN,
        max_days=MAX_DAYS,
        links=links,
        places=SeriesPlaces(series),
    )
    return (page, 409) if rejection else page


@blueprint.get(f"{DRY_RUN_PATH}.json")
def dry_run_json(project: str) -> Response:
    query, dry_run = _load_for_twin(project)
    return jsonify(
        {
            "project": project,
            "bar": query.percent / 100,
            "days": query.days,
            "since": dry_run.since.isoformat() if dry_run else None,
            "until": dry_run.until.isoformat() if dry_run else None,
            "series": dry_run.series_count if dry_run else 0,
            "left_out": dry_run.left_out if dry_run else 0,
            "changes": [
                {"outcome": outcome, "series": serialize_series(change.series)}
                | {"last_good": change.last_good, "commit": change.commit}
                | serialize_change_size(change)
                for outcome, change in _list_outcomes(dry_run)
            ],
        }
    )


@blueprint.get(f"{DRY_RUN_PATH}.csv")
def dry_run_csv(project: str) -> Response:
    _, dry_run = _load_for_twin(project)
    rows = (_build_csv_row(outcome, change) for outcome, change in _list_outcomes(dry_run))
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-threshold.csv")


def _load_for_twin(project: str) -> tuple[DryRunQuery, ThresholdDryRun | None]:
    context = web_context()
    with context.store.read() as tx:
        record = require_project(tx, project)
        policy = context.load_policies(record).policy
        query = DryRunQuery(100 * policy.default.bar, DEFAULT_DAYS)
        if "bar" in request.args:
            try:
                query = _parse_query()
            except PerfciError as error:
                raise BadRequest(str(error)) from error
        return query, try_threshold(tx, project, policy, query.percent / 100, query.days)


def _parse_query() -> DryRunQuery:
    """Read the threshold and the days; raise for what makes no sense."""
    text, days = request.args.get("bar", ""), request.args.get("days", "") or str(DEFAULT_DAYS)
    try:
        percent = float(text.replace(",", ".").removesuffix("%").strip())
    except ValueError:
        percent = math.nan
    if not 0.1 <= percent <= 100:
        raise PerfciError(f"A threshold is a percentage from 0.1 to 100, such as 4; found {text[:40]!r}.")
    if not days.isdecimal() or len(days) > 9 or not 1 <= int(days) <= MAX_DAYS:
        raise PerfciError(f"A number of days from 1 to {MAX_DAYS} was expected, not {days[:40]!r}.")
    return DryRunQuery(percent, int(days))


def _list_outcomes(dry_run: ThresholdDryRun | None) -> Iterator[tuple[str, ChangePoint]]:
    """Every change with what the other threshold makes of it: added, removed or kept."""
    if dry_run is not None:
        for outcome, changes in (
            ("added", dry_run.added),
            ("removed", dry_run.removed),
            ("kept", dry_run.kept),
        ):
            yield from ((outcome, change) for change in changes)


def _build_csv_row(outcome: str, change: ChangePoint) -> Mapping[str, Any]:
    return {
        "outcome": outcome,
        **build_series_cells(change.series),
        "last_good": change.last_good,
        "commit": change.commit,
        "before": change.before,
        "after": change.after,
        "relative_change": change.relative_change,
    }
