"""Routes that try other settings of judging on what is stored: what would be flagged. Nothing is stored."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, render_template, request
from sqlalchemy.orm import Session
from werkzeug.exceptions import BadRequest

from perfci.history.rejudge_with_policy import RejudgedComparisons, try_policy_on_comparisons
from perfci.history.try_threshold import (
    ThresholdDryRun,
    TriedSettings,
    build_changed_policy,
    try_threshold,
)
from perfci.model import ChangePoint, MetricClass, PerfciError
from perfci.net.url_segments import encode_segment
from perfci.report.serializers import serialize_change_size, serialize_series
from perfci.report.series_places import SeriesPlaces
from perfci.store.queries.series_commits_machines import load_series_of_same_cells
from perfci.verdicts.judging_policy import Policy
from perfci_web.application_context import web_context
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import SERIES_COLUMNS, build_csv_response, build_series_cells

blueprint = Blueprint("threshold_dry_run", __name__)

DRY_RUN_PATH = "/<project:project>/settings/threshold"

DEFAULT_DAYS, MAX_DAYS = 90, 365
MAX_SHOWN = 40
"""Changes of each list on the page."""

CSV_COLUMNS = ("outcome", *SERIES_COLUMNS, "last_good", "commit", "before", "after", "relative_change")


MAX_COMPARISONS = 40
"""Comparisons whose samples are judged again, the newest first."""

MIN_PAIRS, MAX_PAIRS = 5, 200


@dataclass(frozen=True, slots=True)
class DryRunQuery:
    """The settings to try, and the days before the newest commit."""

    settings: TriedSettings
    days: int

    @property
    def percent(self) -> float:
        return 100 * self.settings.bar


@dataclass(frozen=True, slots=True)
class DryRun:
    """What the settings would change: of the histories, of the comparisons, and the policy tried."""

    histories: ThresholdDryRun | None
    comparisons: RejudgedComparisons
    policy: Policy


@blueprint.get(DRY_RUN_PATH)
def dry_run_page(project: str) -> str | tuple[str, int]:
    context = web_context()
    tried: DryRun | None = None
    rejection = ""
    with context.store.read() as tx:
        record = require_project(tx, project)
        policy = context.load_policies(record).policy
        query = DryRunQuery(TriedSettings.in_force(policy), DEFAULT_DAYS)
        if "bar" in request.args:
            try:
                query = _parse_query(policy)
                tried = _try_settings(tx, project, policy, query)
            except PerfciError as error:
                rejection = str(error)
        dry_run = tried.histories if tried else None
        shown = [*dry_run.added[:MAX_SHOWN], *dry_run.removed[:MAX_SHOWN]] if dry_run else []
        verdicts = [now or then for now, then in tried.comparisons.different[:MAX_SHOWN]] if tried else []
        series = [item.series for item in (*shown, *verdicts) if item]
        links = build_project_links(project, load_series_of_same_cells(tx, project, series))
    page = render_template(
        "settings/threshold_dry_run.html",
        project=project,
        current_percent=100 * policy.default.bar,
        query=query,
        has_query="bar" in request.args,
        dry_run=dry_run,
        comparisons=tried.comparisons if tried else None,
        setting=_format_setting(query.settings, policy, tried.policy) if tried else "",
        classes=list(MetricClass),
        rejected=rejection,
        max_shown=MAX_SHOWN,
        max_days=MAX_DAYS,
        links=links,
        places=SeriesPlaces(series),
    )
    return (page, 409) if rejection else page


@blueprint.get(f"{DRY_RUN_PATH}.json")
def dry_run_json(project: str) -> Response:
    query, tried = _load_for_twin(project)
    dry_run, comparisons, settings = tried.histories, tried.comparisons, query.settings
    return jsonify(
        {
            "project": project,
            "bar": settings.bar,
            "metric_class": settings.metric_class.value if settings.metric_class else None,
            "strict": settings.strict,
            "min_pairs": settings.min_pairs,
            "max_pairs": settings.max_pairs,
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
            "comparisons": comparisons.sessions,
            "comparisons_left_out": comparisons.left_out,
            "verdicts": comparisons.verdicts,
            "different_verdicts": [
                {
                    "series": serialize_series(shown.series),
                    "base": shown.base,
                    "head": shown.head,
                    "now": now.kind.value if now else None,
                    "tried": then.kind.value if then else None,
                }
                for now, then in comparisons.different
                if (shown := now or then)
            ],
        }
    )


@blueprint.get(f"{DRY_RUN_PATH}.csv")
def dry_run_csv(project: str) -> Response:
    _, tried = _load_for_twin(project)
    rows = (_build_csv_row(outcome, change) for outcome, change in _list_outcomes(tried.histories))
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-threshold.csv")


def _load_for_twin(project: str) -> tuple[DryRunQuery, DryRun]:
    context = web_context()
    with context.store.read() as tx:
        record = require_project(tx, project)
        policy = context.load_policies(record).policy
        query = DryRunQuery(TriedSettings.in_force(policy), DEFAULT_DAYS)
        try:
            if "bar" in request.args:
                query = _parse_query(policy)
            return query, _try_settings(tx, project, policy, query)
        except PerfciError as error:
            raise BadRequest(str(error)) from error


def _try_settings(tx: Session, project: str, policy: Policy, query: DryRunQuery) -> DryRun:
    changed = build_changed_policy(tx, project, policy, query.settings)
    histories = try_threshold(tx, project, policy, changed, query.days)
    comparisons = try_policy_on_comparisons(tx, project, policy, changed, query.days, MAX_COMPARISONS)
    return DryRun(histories, comparisons, changed)


def _parse_query(policy: Policy) -> DryRunQuery:
    """Read the settings and the days; raise for what makes no sense. What is left out is as in force."""
    text, days = request.args.get("bar", ""), request.args.get("days", "") or str(DEFAULT_DAYS)
    try:
        percent = float(text.replace(",", ".").removesuffix("%").strip())
    except ValueError:
        percent = math.nan
    if not 0.1 <= percent <= 100:
        raise PerfciError(f"A threshold is a percentage from 0.1 to 100, such as 4; found {text[:40]!r}.")
    if not days.isdecimal() or len(days) > 9 or not 1 <= int(days) <= MAX_DAYS:
        raise PerfciError(f"A number of days from 1 to {MAX_DAYS} was expected, not {days[:40]!r}.")
    metrics = request.args.get("metrics", "")
    if metrics and metrics not in list(MetricClass):
        raise PerfciError(f"A class of metrics is one of {', '.join(MetricClass)}, not {metrics[:40]!r}.")
    force = TriedSettings.in_force(policy)
    min_pairs = _parse_pairs("min_pairs", force.min_pairs)
    max_pairs = _parse_pairs("max_pairs", force.max_pairs)
    if min_pairs > max_pairs:
        raise PerfciError(f"The least number of pairs, {min_pairs}, is more than the most, {max_pairs}.")
    strict = request.args.get("strict", "1" if force.strict else "0") == "1"
    metric_class = MetricClass(metrics) if metrics else None
    return DryRunQuery(TriedSettings(percent / 100, strict, min_pairs, max_pairs, metric_class), int(days))


def _parse_pairs(name: str, in_force: int) -> int:
    text = request.args.get(name, "").strip() or str(in_force)
    if not text.isdecimal() or len(text) > 9 or not MIN_PAIRS <= int(text) <= MAX_PAIRS:
        raise PerfciError(
            f"A number of pairs from {MIN_PAIRS} to {MAX_PAIRS} was expected, not {text[:40]!r}."
        )
    return int(text)


def _format_setting(settings: TriedSettings, policy: Policy, changed: Policy) -> str:
    """The lines of ``perfci.toml`` that set what was tried; empty where it is in force."""
    force, lines = TriedSettings.in_force(policy), []
    if settings.metric_class is None and settings.bar != force.bar:
        lines.append(f"bar = {settings.bar:g}")
    lines += [f"strict = {str(settings.strict).lower()}"] if settings.strict != force.strict else []
    lines += [f"min_pairs = {settings.min_pairs}"] if settings.min_pairs != force.min_pairs else []
    lines += [f"max_pairs = {settings.max_pairs}"] if settings.max_pairs != force.max_pairs else []
    text = ["[judge]", *lines] if lines else []
    if settings.metric_class is not None:
        text += [
            "[[policy]]",
            f"match = {json.dumps(changed.overrides[-1].match, ensure_ascii=False)}",
            f"bar = {settings.bar:g}",
        ]
    return "\n".join(text)


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
