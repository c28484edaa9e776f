"""Series and what they hang on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from perfci.auth.permissions import Need
from perfci.model import Commit, Machine, Point
from perfci.net.shapes import Paged, Shape
from perfci.net.shapes import series as shapes
from perfci.report.charts.series_trend import thinned, trend_of
from perfci.report.serializers import series_fields, trend_fields
from perfci.store.queries import measurements, paged_lists
from perfci.store.queries.paged_lists import SeriesLine
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

P = "/projects/<project:project>"
Row = TypeVar("Row")


def list_series(call: Call) -> Reply:
    asked: shapes.SeriesFilter = call.query
    with call.store.read() as tx:
        found = paged_lists.series_page(
            tx, call.the_project.id, benchmark=asked.benchmark, metric=asked.metric,
            after=pagination.read(asked.cursor), limit=asked.limit + 1,
        )  # fmt: skip
    return page_of(shapes.SeriesPage, found, asked, lambda one: one.id, series_shape)


def get_series(call: Call) -> Reply:
    return Reply(series_shape(series_of(call, call.path["series"])))


def get_points(call: Call) -> Reply:
    """The points of one series, binned here, so that a chart asks for what it can draw."""
    asked: shapes.PointsFilter = call.query
    line = series_of(call, call.path["series"])
    with call.store.read() as tx:
        points = [point for point in measurements.history(tx, line.id) if _is_within(point, asked)]
        changes = measurements.change_points(tx, call.the_project.slug, line.id)
        verdicts = [one.verdict for one in measurements.verdict_records(tx, call.the_project.slug, series_id=line.id)]
    told = trend_fields(thinned(trend_of(line.series, points, changes, verdicts), asked.most))
    return Reply(shapes.SeriesPoints.model_validate(told | {"series": series_shape(line)}))


def list_commits(call: Call) -> Reply:
    asked: shapes.CommitFilter = call.query
    with call.store.read() as tx:
        found = paged_lists.commits_page(
            tx, call.the_project.id, branch=asked.branch, before=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    return page_of(shapes.CommitPage, found, asked, lambda one: one[0], lambda one: commit_shape(one[1]))


def get_commit(call: Call) -> Reply:
    with call.store.read() as tx:
        found = measurements.find_commit(tx, call.the_project.slug, call.path["sha"])
    if found is None:
        raise Declined("not-found", "There is no commit of this sha here.")
    return Reply(commit_shape(found))


def list_machines(call: Call) -> Reply:
    asked: Paged = call.query
    with call.store.read() as tx:
        found = paged_lists.machines_page(
            tx, call.the_project.id, after=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    return page_of(
        shapes.MachinePage,
        found,
        asked,
        lambda one: one[0],
        lambda one: _machine(one[1], one[2]),
    )


def list_environments(call: Call) -> Reply:
    asked: Paged = call.query
    with call.store.read() as tx:
        found = paged_lists.environments_page(
            tx, call.the_project.id, after=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    return page_of(
        shapes.EnvironmentPage, found, asked, lambda one: one[0],
        lambda one: shapes.EnvironmentShape(id=one[1], values=dict(one[2].values)),
    )  # fmt: skip


def page_of(
    shape: type[BaseModel],
    found: Sequence[Row],
    asked: Paged,
    row_id: Callable[[Row], int],
    told: Callable[[Row], Shape],
) -> Reply:
    """One page of a list, with the cursor of the next one."""
    items, following = pagination.page(found, asked.limit, row_id)
    return Reply(shape.model_validate({"items": tuple(map(told, items)), "next": following}))


def series_shape(line: SeriesLine) -> shapes.SeriesShape:
    return shapes.SeriesShape.model_validate({"id": line.identity} | series_fields(line.series))


def series_of(call: Call, identity: str) -> SeriesLine:
    with call.store.read() as tx:
        found = paged_lists.series_of_identity(tx, call.the_project.id, identity)
    if found is None:
        raise Declined("not-found", "There is no series of this id here.")
    return found


def commit_shape(commit: Commit) -> shapes.CommitShape:
    fields = {name: getattr(commit, name) for name in shapes.CommitShape.model_fields if name != "commit"}
    return shapes.CommitShape.model_validate({"commit": commit.sha} | fields)


def _machine(identity: str, machine: Machine) -> shapes.MachineShape:
    known = {name: getattr(machine, name) for name in shapes.MachineShape.model_fields if name not in ("id", "label")}
    return shapes.MachineShape.model_validate({"id": identity, "label": machine.label} | known)


def _is_within(point: Point, asked: shapes.PointsFilter) -> bool:
    at = point.commit.committed_at
    if at is None:
        return asked.since is None and asked.until is None
    return (asked.since is None or at >= asked.since) and (asked.until is None or at < asked.until)


OPERATIONS = (
    Operation(
        "list_series", "GET", f"{P}/series", Need.READ, list_series, "Series, in the order they were first seen",
        query=shapes.SeriesFilter, answers={200: shapes.SeriesPage}, etag=True,
    ),
    Operation(
        "get_series", "GET", f"{P}/series/<key:series>", Need.READ, get_series, "One series",
        answers={200: shapes.SeriesShape}, etag=True,
    ),
    Operation(
        "get_points", "GET", f"{P}/series/<key:series>/points", Need.READ, get_points,
        "The points of a series, neighbours merged down to what was asked for",
        query=shapes.PointsFilter, answers={200: shapes.SeriesPoints}, etag=True,
    ),
    Operation(
        "list_commits", "GET", f"{P}/commits", Need.READ, list_commits, "Commits, those seen last first",
        query=shapes.CommitFilter, answers={200: shapes.CommitPage}, etag=True,
    ),
    Operation(
        "get_commit", "GET", f"{P}/commits/<name:sha>", Need.READ, get_commit, "One commit, by its sha or a part",
        answers={200: shapes.CommitShape}, etag=True,
    ),
    Operation(
        "list_machines", "GET", f"{P}/machines", Need.READ, list_machines, "Machine classes that measured here",
        query=Paged, answers={200: shapes.MachinePage}, etag=True,
    ),
    Operation(
        "list_environments", "GET", f"{P}/environments", Need.READ, list_environments, "Environments observed here",
        query=Paged, answers={200: shapes.EnvironmentPage}, etag=True,
    ),
)  # fmt: skip
