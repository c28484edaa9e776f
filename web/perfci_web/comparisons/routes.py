"""Routes of comparisons: the chooser, and two commits beside each other as page, JSON and Markdown."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import Commit, EnvironmentChange, Run
from perfci.report.pulls.comparison_findings import Findings, compute_verdict_bars
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.series_places import SeriesPlaces
from perfci.store import verdicts_and_change_points
from perfci.store.queries import (
    measured_samples,
    runs_and_sessions,
    series_commits_machines,
)
from perfci.store.queries.series_commits_machines import load_project_series
from perfci_web.application_context import web_context
from perfci_web.comparisons import view_model
from perfci_web.page_urls import ProjectLinks
from perfci_web.url_lookups import build_project_links, require_commit, require_project
from perfci_web.view_parts.list_search_and_paging import parse_list_query

blueprint = Blueprint("comparisons", __name__)

COMPARE_PATH = "/<project:project>/compare"
PAIR_PATH = f"{COMPARE_PATH}/<name:base>...<name:head>"


@blueprint.get(COMPARE_PATH, endpoint="compare_chooser")
def comparison_chooser_page(project: str) -> str | BaseResponse:
    """List the stored comparisons; two shas typed into the form redirect to their comparison."""
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    links = build_project_links(project)
    if base and head:
        return redirect(links.compare(base, head))
    with web_context().store.read() as tx:
        require_project(tx, project)
        commits = series_commits_machines.load_commits_newest_first(tx, project, limit=50)
        verdicts = verdicts_and_change_points.load_verdict_records(tx, project, with_pull_requests=True)
    pairs = view_model.list_compared_pairs(verdicts, commits)
    return render_template(
        "comparisons/choose_commits.html", project=project, pairs=pairs, commits=commits, links=links
    )


@blueprint.get(PAIR_PATH)
def compare_page(project: str, base: str, head: str) -> str:
    page, links = _load_comparison(project, base, head)
    query = parse_list_query(request.args, view_model.LIST_NAMES)
    lists = view_model.paginate_lists(page, query)
    return render_template(
        "comparisons/comparison.html",
        page=page,
        lists=lists,
        links=links,
        places=SeriesPlaces(page.series),
    )


@blueprint.get(f"{PAIR_PATH}.json")
def compare_json(project: str, base: str, head: str) -> Response:
    page, _ = _load_comparison(project, base, head)
    return jsonify(view_model.serialize_comparison(page))


@blueprint.get(f"{PAIR_PATH}.md")
def compare_markdown(project: str, base: str, head: str) -> Response:
    """The comment that a pull request of these commits would get."""
    page, links = _load_comparison(project, base, head)
    context = web_context()
    with context.store.read() as tx:
        policy = context.load_policies(require_project(tx, project)).policy
    findings = Findings(
        page.verdicts,
        page.base,
        page.head,
        environment_changes=[EnvironmentChange(*row) for row in page.environment],
        report_url=request.host_url.rstrip("/") + links.compare(page.base.sha, page.head.sha),
        bars=compute_verdict_bars(page.verdicts, policy),
        strict=policy.default.strict,
    )
    return Response(render_pull_comment(findings), content_type="text/markdown; charset=utf-8")


def _load_comparison(project: str, base: str, head: str) -> tuple[view_model.ComparisonView, ProjectLinks]:
    context = web_context()
    with context.store.read() as tx:
        policy = context.load_policies(require_project(tx, project)).policy
        base_commit, head_commit = require_commit(tx, project, base), require_commit(tx, project, head)
        page = view_model.build_comparison_view(
            project,
            base_commit,
            head_commit,
            verdicts_and_change_points.load_verdict_records(
                tx, project, base=base_commit.sha, head=head_commit.sha, with_pull_requests=True
            ),
            _load_runs(tx, project, base_commit),
            _load_runs(tx, project, head_commit),
            series_commits_machines.load_commits_newest_first(tx, project),
            verdicts_and_change_points.load_change_points(
                tx, project, last_good=base_commit.sha, commit=head_commit.sha
            ),
            policy.is_gating,
        )
        all_series = load_project_series(tx, project)
    return page, build_project_links(project, all_series.values())


def _load_runs(tx: Session, project: str, commit: Commit) -> list[Run]:
    records = runs_and_sessions.load_runs_of_commit(tx, project, commit.sha)
    return [measured_samples.load_run(tx, record.id) for record in records]
