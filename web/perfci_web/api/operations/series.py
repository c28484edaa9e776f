"""Series with their points, and the commits, machines and environments of a project."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.model import Commit, Machine, Point
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas import series as shapes
from perfci.net.api_schemas.commits_and_machines import (
    CommitPage,
    CommitQuery,
    CommitShape,
    EnvironmentPage,
    EnvironmentShape,
    MachinePage,
    MachineShape,
)
from perfci.report.charts.series_trend import build_trend, downsample_trend
from perfci.report.serializers import serialize_series, serialize_trend
from perfci.store import verdicts_and_change_points
from perfci.store.queries import measured_samples, paged_lists, series_and_commits
from perfci.store.queries.paged_lists import SeriesListItem
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problems import ProblemError


def list_series(call: Call) -> Reply:
    query: shapes.SeriesQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_series_page(
            tx,
            call.required_project.id,
            benchmark=query.benchmark,
            metric=query.metric,
            after=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        shapes.SeriesPage, rows, query.limit, lambda item: item.id, series_shape
    )


def get_series(call: Call) -> Reply:
    return Reply(series_shape(require_series(call, call.path["series"])))


def get_points(call: Call) -> Reply:
    """Return the points of a series, merged down to the number that a chart can draw."""
    query: shapes.PointsQuery = call.query
    item = require_series(call, call.path["series"])
    with call.store.read() as tx:
        points = [point for point in measured_samples.load_history(tx, item.id) if _is_within(point, query)]
        changes = verdicts_and_change_points.load_change_points(tx, call.required_project.slug, item.id)
        verdicts = [
            record.verdict
            for record in verdicts_and_change_points.load_verdict_records(
                tx, call.required_project.slug, series_id=item.id
            )
        ]
    trend = build_trend(item.series, points, changes, verdicts)
    fields = serialize_trend(downsample_trend(trend, query.max_points))
    return Reply(shapes.SeriesPointsShape.model_validate(fields | {"series": series_shape(item)}))


def list_commits(call: Call) -> Reply:
    query: CommitQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_commits_page(
            tx,
            call.required_project.id,
            branch=query.branch,
            before=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        CommitPage, rows, query.limit, lambda row: row[0], lambda row: commit_shape(row[1])
    )


def get_commit(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(commit_shape(require_commit(tx, call, call.path["sha"])))


def list_machines(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_machines_page(
            tx, call.required_project.id, after=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        MachinePage,
        rows,
        query.limit,
        lambda row: row[0],
        lambda row: _machine_shape(row[1], row[2]),
    )


def list_environments(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        rows = paged_lists.load_environments_page(
            tx, call.required_project.id, after=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        EnvironmentPage,
        rows,
        query.limit,
        lambda row: row[0],
        lambda row: EnvironmentShape(id=row[1], values=dict(row[2].values)),
    )


def series_shape(item: SeriesListItem) -> shapes.SeriesShape:
    return shapes.SeriesShape.model_validate({"id": item.identity} | serialize_series(item.series))


def require_series(call: Call, identity: str) -> SeriesListItem:
    with call.store.read() as tx:
        item = paged_lists.find_series_by_identity(tx, call.required_project.id, identity)
    if item is None:
        raise ProblemError("not-found", "There is no series of this id here.")
    return item


def require_commit(tx: Session, call: Call, sha: str) -> Commit:
    """Return the commit of a sha or of the beginning of one."""
    commit = series_and_commits.find_commit(tx, call.required_project.slug, sha)
    if commit is None:
        raise ProblemError("not-found", "There is no commit of this sha here.")
    return commit


def commit_shape(commit: Commit) -> CommitShape:
    fields = {name: getattr(commit, name) for name in CommitShape.model_fields if name != "commit"}
    return CommitShape.model_validate({"commit": commit.sha} | fields)


def _machine_shape(identity: str, machine: Machine) -> MachineShape:
    fields = {
        name: getattr(machine, name) for name in MachineShape.model_fields if name not in ("id", "label")
    }
    return MachineShape.model_validate({"id": identity, "label": machine.label} | fields)


def _is_within(point: Point, time_filter: shapes.PointsQuery) -> bool:
    at = point.commit.committed_at
    if at is None:
        return time_filter.since is None and time_filter.until is None
    return (time_filter.since is None or at >= time_filter.since) and (
        time_filter.until is None or at < time_filter.until
    )


OPERATIONS = (
    Operation(
        "list_series",
        "GET",
        f"{PROJECT_RULE}/series",
        AccessRequirement.READ,
        list_series,
        "Series, in the order they were first seen",
        query=shapes.SeriesQuery,
        answers={200: shapes.SeriesPage},
        etag=True,
    ),
    Operation(
        "get_series",
        "GET",
        f"{PROJECT_RULE}/series/<key:series>",
        AccessRequirement.READ,
        get_series,
        "One series",
        answers={200: shapes.SeriesShape},
        etag=True,
    ),
    Operation(
        "get_points",
        "GET",
        f"{PROJECT_RULE}/series/<key:series>/points",
        AccessRequirement.READ,
        get_points,
        "The points of a series, neighbours merged down to the requested number",
        query=shapes.PointsQuery,
        answers={200: shapes.SeriesPointsShape},
        etag=True,
    ),
    Operation(
        "list_commits",
        "GET",
        f"{PROJECT_RULE}/commits",
        AccessRequirement.READ,
        list_commits,
        "Commits, latest first",
        query=CommitQuery,
        answers={200: CommitPage},
        etag=True,
    ),
    Operation(
        "get_commit",
        "GET",
        f"{PROJECT_RULE}/commits/<name:sha>",
        AccessRequirement.READ,
        get_commit,
        "One commit, by its sha or a part",
        answers={200: CommitShape},
        etag=True,
    ),
    Operation(
        "list_machines",
        "GET",
        f"{PROJECT_RULE}/machines",
        AccessRequirement.READ,
        list_machines,
        "Machine classes that measured here",
        query=PageQuery,
        answers={200: MachinePage},
        etag=True,
    ),
    Operation(
        "list_environments",
        "GET",
        f"{PROJECT_RULE}/environments",
        AccessRequirement.READ,
        list_environments,
        "Environments observed here",
        query=PageQuery,
        answers={200: EnvironmentPage},
        etag=True,
    ),
)
