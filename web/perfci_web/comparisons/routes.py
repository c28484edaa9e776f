"""Routes of comparisons: the chooser, and two sides beside each other as page, JSON, CSV and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import Commit, EnvironmentChange, Series
from perfci.net.url_segments import encode_segment
from perfci.report.comparisons.group_summaries import GROUPINGS
from perfci.report.pulls.comparison_findings import Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import Trend
from perfci.report.verdict_text import VerdictKindCount, count_verdict_kinds
from perfci.store.column_conversions import series_identity
from perfci.store.queries.comparisons.comparison_verdicts import ComparedPair, list_compared_pairs
from perfci.store.queries.series_commits_machines import (
    find_series_ids_by_identity,
    load_commits_by_sha,
    load_commits_newest_first,
    load_series_of_same_cells,
)
from perfci_web.application_context import web_context
from perfci_web.comparisons import view_model
from perfci_web.comparisons.load_comparison import load_comparison
from perfci_web.comparisons.sides import list_side_names, resolve_sides
from perfci_web.comparisons.table_query import build_comparison_table, parse_table_query
from perfci_web.load_series_trends import SPARKLINE_COMMITS, load_series_trends, show_last_commits
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response, format_name_value_pairs

blueprint = Blueprint("comparisons", __name__)

COMPARE_PATH = "/<project:project>/compare"
PAIR_PATH = f"{COMPARE_PATH}/<name:base>...<name:head>"

CHOOSER_COLUMNS = ("base", "head", "decided_at", "subject", "author", "verdicts")

MAX_PAIRS, MAX_COMMITS = 50, 50
"""Comparisons that the chooser lists, and commits that its form suggests."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """One comparison of the chooser."""

    pair: ComparedPair
    base: Commit
    head: Commit

    @property
    def counts(self) -> list[VerdictKindCount]:
        return count_verdict_kinds(self.pair.counts)


@blueprint.get(COMPARE_PATH, endpoint="compare_chooser")
def comparison_chooser_page(project: str) -> str | BaseResponse:
    """List the comparisons decided last; two sides typed into the form redirect to their comparison."""
    base, head = (request.args.get(side, "").strip().replace(":", "/") for side in ("base", "head"))
    links = build_project_links(project)
    if base and head:
        return redirect(links.compare(base, head))
    with web_context().store.read() as tx:
        rows = _load_pairs(tx, project)
        newest = load_commits_newest_first(tx, project, limit=MAX_COMMITS)
        names = list_side_names(tx, project, newest)
    return render_template(
        "comparisons/choose_sides.html", project=project, rows=rows, commits=newest, names=names, links=links
    )


@blueprint.get(f"{COMPARE_PATH}.json")
def chooser_json(project: str) -> Response:
    with web_context().store.read() as tx:
        rows = [_serialize_pair(row) for row in _load_pairs(tx, project)]
    return jsonify({"project": project, "comparisons": rows})


@blueprint.get(f"{COMPARE_PATH}.csv")
def chooser_csv(project: str) -> Response:
    with web_context().store.read() as tx:
        rows = [_serialize_pair(row) for row in _load_pairs(tx, project)]
    counted = [row | {"verdicts": format_name_value_pairs(row["verdicts"])} for row in rows]
    return build_csv_response(CHOOSER_COLUMNS, counted, f"{encode_segment(project)}-comparisons.csv")


@blueprint.get(PAIR_PATH)
def compare_page(project: str, base: str, head: str) -> str:
    with web_context().store.read() as tx:
        page = _load_view(tx, project, base, head)
        table = build_comparison_table(page.rows, parse_table_query(request.args))
        linked = [row.series for row in table.rows]
        links = build_project_links(project, load_series_of_same_cells(tx, project, linked))
        trends = _load_ends_of_trends(tx, project, linked)
    return render_template(
        "comparisons/comparison.html",
        page=page,
        table=table,
        links=links,
        places=SeriesPlaces([*table.neighbours, *page.unavailable_series]),
        trends=trends,
        trend_commits=SPARKLINE_COMMITS,
        groupings=tuple(GROUPINGS),
        mean_text=view_model.format_mean_ratio,
        at=request.args.get("at", ""),
    )


@blueprint.get(f"{PAIR_PATH}.json")
def compare_json(project: str, base: str, head: str) -> Response:
    with web_context().store.read() as tx:
        page = _load_view(tx, project, base, head)
    return jsonify(view_model.serialize_comparison(page))


@blueprint.get(f"{PAIR_PATH}.csv")
def compare_csv(project: str, base: str, head: str) -> Response:
    """Every row of the comparison, whatever the table shows."""
    with web_context().store.read() as tx:
        page = _load_view(tx, project, base, head)
    rows = [view_model.serialize_csv_row(row) for row in page.rows]
    name = f"{page.base.commit.short_sha}...{page.head.commit.short_sha}.csv"
    return build_csv_response(view_model.CSV_COLUMNS, rows, name)


@blueprint.get(f"{PAIR_PATH}.md")
def compare_markdown(project: str, base: str, head: str) -> Response:
    """The comment that a pull request of these commits would get."""
    context = web_context()
    with context.store.read() as tx:
        page = _load_view(tx, project, base, head)
        policy = context.load_policies(require_project(tx, project)).policy
    links, (base_commit, head_commit) = build_project_links(project), (page.base.commit, page.head.commit)
    findings = Findings(
        page.verdicts,
        base_commit,
        head_commit,
        environment_changes=[EnvironmentChange(*row) for row in page.environment],
        report_url=request.host_url.rstrip("/") + links.compare(base_commit.sha, head_commit.sha),
        bars=compute_verdict_bars(page.verdicts, policy),
        strict=policy.default.strict,
    )
    return Response(render_pull_comment(findings), content_type="text/markdown; charset=utf-8")


def _load_pairs(tx: Session, project: str) -> list[PairRow]:
    """Load the comparisons decided last."""
    pairs = list_compared_pairs(tx, require_project(tx, project).id, MAX_PAIRS)
    commits = load_commits_by_sha(tx, project, {sha for pair in pairs for sha in (pair.base, pair.head)})
    return [
        PairRow(pair, *(commits.get(sha, Commit(sha)) for sha in (pair.base, pair.head))) for pair in pairs
    ]


def _serialize_pair(row: PairRow) -> dict[str, Any]:
    return {
        "base": row.base.sha,
        "head": row.head.sha,
        "decided_at": row.pair.decided_at.isoformat(),
        "subject": row.head.subject,
        "author": row.head.author,
        "verdicts": {count.label: count.count for count in row.counts},
    }


def _load_ends_of_trends(tx: Session, project: str, series: Sequence[Series]) -> dict[Series, Trend]:
    """The newest commits of the histories of some series; one without a history has none."""
    identities = {series_identity(project, item): item for item in series}
    ids = find_series_ids_by_identity(tx, identities)
    trends = show_last_commits(tx, project, load_series_trends(tx, project, list(ids.values())))
    return {identities[text]: trends[row_id] for text, row_id in ids.items() if row_id in trends}


def _load_view(tx: Session, project: str, base: str, head: str) -> view_model.ComparisonView:
    stored_project = require_project(tx, project)
    policy = web_context().load_policies(stored_project).policy
    sides = resolve_sides(tx, stored_project, base, head, request.args.get("at", ""))
    return view_model.build_comparison_view(
        project, load_comparison(tx, stored_project, *sides, policy.is_gating)
    )
