"""Addresses of commits: one of them, two beside each other, and the twins of that for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flask import Flask, Response, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as Answer

from perfci.model import ObservedChange, Run
from perfci.policies import StandardsOf
from perfci.report.pulls.comparison_findings import Findings, bars_of
from perfci.report.pulls.pull_comment import comment
from perfci.store import Store
from perfci.store.incidents.incident_members import namesakes
from perfci.store.queries import measurements
from perfci.store.queries.loaders import series_by_project
from perfci.store.queries.records import RunRecord
from perfci_web.commits import view as commit
from perfci_web.comparisons import view as compare
from perfci_web.lookups import commit_named, known_project, links_of
from perfci_web.page_urls import Links

COMPARE = "/<project:project>/compare"
PAIR = f"{COMPARE}/<name:base>...<name:head>"


def install(app: Flask, store: Store, standards_of: StandardsOf) -> None:
    def page(rule: str, view: Callable[..., Any]) -> None:
        app.add_url_rule(rule, view.__name__, partial(view, store))

    page(COMPARE, compare_chooser)
    page(PAIR, compare_page)
    page(f"{PAIR}.json", compare_json)
    app.add_url_rule(f"{PAIR}.md", "compare_markdown", partial(compare_markdown, store, standards_of))
    page("/<project:project>/commit/<name:sha>", commit_page)


def compare_chooser(store: Store, project: str) -> str | Answer:
    """Two shas typed into a form become the address of their comparison."""
    base, head = (request.args.get(side, "").strip() for side in ("base", "head"))
    links = links_of(project)
    if base and head:
        return redirect(links.compare(base, head))
    with store.read() as tx:
        known_project(tx, project)
        known = measurements.commits(tx, project, limit=50)
        verdicts = measurements.verdict_records(tx, project)
    pairs = compare.compared_pairs(verdicts, known)
    return render_template("comparisons/choose_commits.html", project=project, pairs=pairs, commits=known, links=links)


def compare_page(store: Store, project: str, base: str, head: str) -> str:
    page, links = _comparison(store, project, base, head)
    return render_template("comparisons/comparison.html", page=page, links=links)


def compare_json(store: Store, project: str, base: str, head: str) -> Response:
    page, _ = _comparison(store, project, base, head)
    return jsonify(compare.comparison_fields(page))


def compare_markdown(store: Store, standards_of: StandardsOf, project: str, base: str, head: str) -> Response:
    page, links = _comparison(store, project, base, head)
    with store.read() as tx:
        policy = standards_of(known_project(tx, project)).policy
    address = f"{request.host_url.rstrip('/')}{links.compare(page.base.sha, page.head.sha)}"
    environment = [ObservedChange(*row) for row in page.environment]
    findings = Findings(
        page.verdicts, page.base, page.head, environment=environment, page=address,
        bars=bars_of(page.verdicts, policy), strict=policy.default.strict,
    )  # fmt: skip
    return Response(comment(findings), content_type="text/markdown; charset=utf-8")


def commit_page(store: Store, project: str, sha: str) -> str:
    with store.read() as tx:
        found = commit_named(tx, project, sha)
        records = measurements.runs_of_commit(tx, project, found.sha)
        page = commit.commit_page(
            project,
            found,
            measurements.commits(tx, project),
            records,
            _runs(tx, records),
            [
                *measurements.verdict_records(tx, project, head=found.sha),
                *measurements.verdict_records(tx, project, base=found.sha),
            ],
        )
        links = Links(project, namesakes(tx, project, page.linked), root=request.script_root)
    return render_template("commits/commit.html", page=page, links=links)


def _comparison(store: Store, project: str, base: str, head: str) -> tuple[compare.Comparison, Links]:
    with store.read() as tx:
        before, after = commit_named(tx, project, base), commit_named(tx, project, head)
        page = compare.comparison(
            project,
            before,
            after,
            measurements.verdict_records(tx, project, base=before.sha, head=after.sha),
            _runs(tx, measurements.runs_of_commit(tx, project, before.sha)),
            _runs(tx, measurements.runs_of_commit(tx, project, after.sha)),
            measurements.commits(tx, project),
        )
        everything = series_by_project(tx, project)
    return page, links_of(project, everything.values())


def _runs(tx: Session, records: Iterable[RunRecord]) -> list[Run]:
    return [measurements.load_run(tx, record.id) for record in records]
