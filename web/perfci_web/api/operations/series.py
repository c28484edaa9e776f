"""Series of a project, with their points, and the names under which histories go on."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.model import PerfciError, Point, freeze_named_values
from perfci.net.api_schemas import renames
from perfci.net.api_schemas import series as shapes
from perfci.report.serializers import serialize_series, serialize_trend
from perfci.report.series_trend import build_trend, downsample_trend
from perfci.service.rename_benchmarks import (
    Rename,
    list_renames,
    preview_rename,
    rename_series,
    serialize_rename,
)
from perfci.store import verdicts_and_change_points
from perfci.store.queries import measured_samples, paged_lists
from perfci.store.queries.paged_lists import SeriesListItem
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError


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
        shapes.SeriesPage, rows, query.limit, lambda item: item.id, build_series_payload
    )


def get_series(call: Call) -> Reply:
    return Reply(build_series_payload(require_series(call, call.path["series"])))


def get_series_points(call: Call) -> Reply:
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
    return Reply(shapes.SeriesPointsShape.model_validate(fields | {"series": build_series_payload(item)}))


def get_renames(call: Call) -> Reply:
    with call.store.read() as tx:
        stored = list_renames(tx, call.required_project)
    return Reply(renames.RenameList(items=tuple(map(serialize_rename, stored))))


def add_rename(call: Call) -> Reply:
    """Rename, or with ``dry_run`` only count what would move."""
    body: renames.NewRename = call.body
    rename = Rename(body.kind, body.old, body.new, freeze_named_values(body.defaults))
    project, context = call.required_project, call.audit_context
    try:
        if body.dry_run:
            with call.store.read() as tx:
                outcome = preview_rename(tx, project, rename)
        else:
            outcome = call.group_commit.submit(lambda tx: rename_series(tx, context, project, rename))
    except PerfciError as error:
        raise ProblemError("not-found", str(error)) from error
    return Reply(
        renames.RenameResult(
            series=outcome.series, results=outcome.results, joined=outcome.joined, dry_run=body.dry_run
        )
    )


def build_series_payload(item: SeriesListItem) -> shapes.SeriesShape:
    return shapes.SeriesShape.model_validate({"id": item.identity} | serialize_series(item.series))


def require_series(call: Call, identity: str) -> SeriesListItem:
    with call.store.read() as tx:
        item = paged_lists.find_series_by_identity(tx, call.required_project.id, identity)
    if item is None:
        raise ProblemError("not-found", "There is no series of this id here.")
    return item


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
        get_series_points,
        "The points of a series, neighbours merged down to the requested number",
        query=shapes.PointsQuery,
        answers={200: shapes.SeriesPointsShape},
        etag=True,
    ),
    Operation(
        "list_renames",
        "GET",
        f"{PROJECT_RULE}/renames",
        AccessRequirement.READ,
        get_renames,
        "Benchmarks and machines that go on under other names",
        answers={200: renames.RenameList},
        etag=True,
    ),
    Operation(
        "rename_series",
        "POST",
        f"{PROJECT_RULE}/renames",
        AccessRequirement.ADMIN,
        add_rename,
        "Let the history of a benchmark or machine go on under another name, or count what would move",
        body=renames.NewRename,
        answers={200: renames.RenameResult},
    ),
)
