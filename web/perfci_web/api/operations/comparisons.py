"""Comparisons of two commits: their current verdicts, and the levels of all series at both."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.model import Series
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas import verdicts_and_expected_changes as shapes
from perfci.store.queries.comparisons.comparison_verdicts import (
    CommitPair,
    count_ranked_verdicts,
    list_ranked_verdicts,
)
from perfci.store.queries.comparisons.levels_at_two_commits import LevelPair, load_levels_of_two_commits
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.operations.commits_machines_environments import require_commit
from perfci_web.api.operations.verdicts import build_verdict_payload


def get_comparison_summary(call: Call) -> Reply:
    """Return the current verdicts between two commits; nothing is computed here."""
    query: PageQuery = call.query
    with call.store.read() as tx:
        base, head = (require_commit(tx, call, call.path[side]) for side in ("base", "head"))
        pair = CommitPair(call.required_project.id, base.sha, head.sha)
        counts = count_ranked_verdicts(tx, pair)
        ranked = list_ranked_verdicts(
            tx, pair, after=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        shapes.ComparisonPage,
        ranked,
        query.limit,
        lambda verdict: verdict.rank,
        lambda verdict: build_verdict_payload(call, verdict.record),
        base=base.sha,
        head=head.sha,
        counts=counts,
    )


def list_levels_at_two_commits(call: Call) -> Reply:
    """List the level of every series at two commits, without reading a sample."""
    query: shapes.ResultSummaryQuery = call.query
    with call.store.read() as tx:
        base, head = (require_commit(tx, call, call.path[side]) for side in ("base", "head"))
        pairs = load_levels_of_two_commits(
            tx, call.required_project.id, base.sha, head.sha, after=pagination.parse_cursor(query.cursor)
        )
        named = [pair.series_id for pair in pairs[: query.limit]] if query.names else []
        series = load_series_by_ids(tx, named)
    return pagination.build_page_reply(
        shapes.ResultSummaryPage,
        pairs,
        query.limit,
        lambda pair: pair.series_id,
        lambda pair: _build_result_summary(pair, series.get(pair.series_id)),
    )


def _build_result_summary(pair: LevelPair, series: Series | None) -> shapes.ResultSummaryShape:
    names = (series.cell, series.metric.name, series.metric.unit) if series else (None, None, None)
    cell, metric, unit = names
    return shapes.ResultSummaryShape(
        series=pair.identity, cell=cell, metric=metric, unit=unit, base=pair.base, head=pair.head
    )


OPERATIONS = (
    Operation(
        "get_comparison",
        "GET",
        f"{PROJECT_RULE}/comparisons/<name:base>...<name:head>",
        AccessRequirement.READ,
        get_comparison_summary,
        "Current verdicts between two commits, worst first, with counts",
        query=PageQuery,
        answers={200: shapes.ComparisonPage},
        etag=True,
    ),
    Operation(
        "list_result_summaries",
        "GET",
        f"{PROJECT_RULE}/comparisons/<name:base>...<name:head>/summaries",
        AccessRequirement.READ,
        list_levels_at_two_commits,
        "Level of every series at two commits, compared or not",
        query=shapes.ResultSummaryQuery,
        answers={200: shapes.ResultSummaryPage},
        etag=True,
    ),
)
