"""Addresses of commits: one of them, two beside each other, and the twins of that for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as Answer

from perfci.model import EnvironmentChange, Run
from perfci.policies import LoadPolicies
from perfci.report.pulls.comparison_findings import Findings, compute_bars
from perfci.report.pulls.pull_comment import render_comment
from perfci.store import Store
from perfci.store.queries import measurements
from perfci.store.queries.loaders import load_project_series, load_series_of_same_cells
from perfci.store.queries.records import RunRecord
from perfci_web.commits import view as commit
from perfci_web.comparisons import view as compare
from perfci_web.lookups import project_links, require_commit, require_project
from perfci_web.page_urls import Links

COMPARE_PATH = "/<project:project>/compare"
PAIR_PATH = f"{COMPARE_PATH}/<name:base>...<name:head>"


def init_app(app: Flask, store: Store, load_policies: LoadPolicies) -> None:
    def add_page(rule: str, view: Callable[..., Any]) -> None:
        app.add_url_rule(rule, view.__name__, partial(view, store))

    add_page(COMPARE_PATH, compare_chooser)
    add_page(PAIR_PATH, compare_page)
    add_page(f"{PAIR_PATH}.json", compare_json)
    app.add_url_rule(f"{PAIR_PATH}.md", "compare_markdown", partial(compare_markdown, store, load_policies))
    add_page("/<project:project>/commit/<name:sha>", commit_page)


def compare_chooser(store: Store, project: str) -> str | Answer:
    """Two shas typed into a form become the address of their comparison."""
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    links = project_links(project)
    if base and head:
        return redirect(links.compare(base, head))
    with store.read() as tx:
        require_project(tx, project)
        known = measurements.load_commits_newest_first(tx, project, limit=50)
        verdicts = measurements.load_verdict_records(tx, project)
    pairs = compare.list_compared_pairs(verdicts, known)
    return render_template(
        "comparisons/choose_commits.html", project=project, pairs=pairs, commits=known, links=links
    )


def compare_page(store: Store, project: str, base: str, head: str) -> str:
    page, links = _load_comparison(store, project, base, head)
    return render_template("comparisons/comparison.html", page=page, links=links)


def compare_json(store: Store, project: str, base: str, head: str) -> Response:
    page, _ = _load_comparison(store, project, base, head)
    return jsonify(compare.serialize_comparison(page))


def compare_markdown(
    store: Store, load_policies: LoadPolicies, project: str, base: str, head: str
) -> Response:
    page, links = _load_comparison(store, project, base, head)
    with store.read() as tx:
        policy = load_policies(require_project(tx, project)).policy
    address = f"{request.host_url.rstrip('/')}{links.compare(page.base.sha, page.head.sha)}"
    environment = [EnvironmentChange(*row) for row in page.environment]
    findings = Findings(
        page.verdicts,
        page.base,
        page.head,
        environment_changes=environment,
        report_url=address,
        bars=compute_bars(page.verdicts, policy),
        strict=policy.default.strict,
    )
    return Response(render_comment(findings), content_type="text/markdown; charset=utf-8")


def commit_page(store: Store, project: str, sha: str) -> str:
    with store.read() as tx:
        found = require_commit(tx, project, sha)
        records = measurements.load_runs_of_commit(tx, project, found.sha)
        page = commit.build_commit_view(
            project,
            found,
            measurements.load_commits_newest_first(tx, project),
            records,
            _load_runs(tx, records),
            [
                *measurements.load_verdict_records(tx, project, head=found.sha),
                *measurements.load_verdict_records(tx, project, base=found.sha),
            ],
        )
        links = Links(
            project, load_series_of_same_cells(tx, project, page.linked_series), root=request.script_root
        )
    return render_template("commits/commit.html", page=page, links=links)


def _load_comparison(
    store: Store, project: str, base: str, head: str
) -> tuple[compare.ComparisonView, Links]:
    with store.read() as tx:
        before, after = require_commit(tx, project, base), require_commit(tx, project, head)
        page = compare.build_comparison_view(
            project,
            before,
            after,
            measurements.load_verdict_records(tx, project, base=before.sha, head=after.sha),
            _load_runs(tx, measurements.load_runs_of_commit(tx, project, before.sha)),
            _load_runs(tx, measurements.load_runs_of_commit(tx, project, after.sha)),
            measurements.load_commits_newest_first(tx, project),
        )
        everything = load_project_series(tx, project)
    return page, project_links(project, everything.values())


def _load_runs(tx: Session, records: Iterable[RunRecord]) -> list[Run]:
    return [measurements.load_run(tx, record.id) for record in records]
