"""Stored points show what deriving them from all results would, whatever has happened to a store."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfci.config import Settings
from perfci.history.load_series_points import (
    find_wrong_series_points,
    load_noise_between_runs,
    refresh_series_points,
)
from perfci.history.noise_between_runs import NOISE_COMMITS, estimate_noise_between_runs
from perfci.history.point_columns import PointColumns, PointRow
from perfci.history.result_summaries import summarize_processes
from perfci.history.series_histories import update_change_points, update_result_summaries
from perfci.model import ChangePoint, InvalidMark, Role, Run, Status
from perfci.project_policies import build_policy
from perfci.report.series_trend import build_dots
from perfci.report.trend_dots import Dot
from perfci.store import Store, open_store
from perfci.store.maintenance.delete_runs_series_projects import delete_next_batch, record_deletion_request
from perfci.store.projects import find_project
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.queries.series_points import load_point_blocks, load_series_points_records
from perfci.store.tables.measurements import RunRow, SessionRow
from perfci.store.tables.series_points import PointBlockRow
from perfci.store.verdicts_and_change_points import save_change_points
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.invalid_marks import set_run_mark
from perfci.store.writes.measured_sessions import add_process_measurements, find_or_add_run, start_session
from perfci.store.writes.series_points import delete_series_points
from perfci_web.load_series_trends import (
    draw_charts,
    load_series_trends,
    show_commits_around,
    show_last_commits,
)
from tests.support.builders import NOON, a_commit, a_process, a_result, a_run, a_series, a_summary
from tests.support.databases import KINDS, fresh_database
from tests.support.stored_runs import ingest_run

SERIES = [a_series("a.Step"), a_series("b.Step"), a_series("b.Step", metric="cpu_time")]
POLICY = build_policy(Settings())
PROJECTS = (f"project-{number}" for number in itertools.count())

RESULTS = {
    "processes": {"processes": (a_process(2.0), a_process(3.0, index=1), a_process(5.0, index=2))},
    "flagged": {"processes": (a_process(7.0, flags=("throttled: hot",)),)},
    "process": {"processes": (a_process(4.0),)},
    "summary": {"processes": (), "summary": a_summary(3.5, q25=3.0, q75=4.0)},
    "failed": {"processes": (), "status": Status.FAILED, "reason": "ValueError: no"},
    "skipped": {"processes": (), "status": Status.SKIPPED, "reason": "no GPU"},
}
SHAPES = st.lists(st.sampled_from(sorted(RESULTS)), min_size=len(SERIES), max_size=len(SERIES))
STEPS = st.one_of(
    st.tuples(st.just("run"), st.integers(1, 8), SHAPES),
    st.tuples(st.just("judge")),
    st.tuples(st.just("mark"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("place"), st.integers(1, 8), st.integers(1, 20)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
)


@pytest.fixture(scope="module", params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with (
        fresh_database(request.param, tmp_path_factory.mktemp("points")) as url,
        closing(open_store(url, create=False)) as store,
    ):
        yield store


@given(steps=st.lists(STEPS, min_size=2, max_size=10))
@settings(
    deadline=None,
    derandomize=True,
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_pages_show_what_results_say(store: Store, steps: list[tuple[object, ...]]) -> None:
    project = next(PROJECTS)
    with store.begin() as tx:
        ingest_run(
            tx, a_project_run(project, 9, ["process"] * len(SERIES)), f"{project}-0", "", kind="history"
        )
    for number, step in enumerate(steps, 1):
        take_step(store, project, number, *step)

    assert read_drawn_dots(store, project) == read_dots_of_results(store, project)

    record = find_project_record(store, project)
    refresh_series_points(store, record)
    assert read_drawn_dots(store, project) == read_dots_of_results(store, project)
    refreshed = read_stored_points(store, project)
    with store.begin() as tx:
        delete_series_points(tx, load_project_series(tx, project))
    refresh_series_points(store, record)
    assert read_stored_points(store, project) == refreshed


def test_a_process_that_is_added_changes_its_point(store: Store) -> None:
    project = next(PROJECTS)
    with store.begin() as tx:
        start_session(tx, project, f"{project}-s", "history", "spec", 7, 5, NOON)
        run = a_run(project=project, session=f"{project}-s")
        run_id = find_or_add_run(tx, run)
        for index, sample in enumerate((2.0, 4.0)):
            process = a_process(sample, index=index, role=Role.HISTORY)
            added = add_process_measurements(tx, run_id, [(SERIES[0], process)])
            update_result_summaries(tx, added)
            update_change_points(tx, project, load_project_series(tx, project), POLICY)

    [dots] = read_drawn_dots(store, project).values()
    assert [(dot.level, dot.lo, dot.hi, dot.processes) for dot in dots] == [(3.0, 2.5, 3.5, 2)]


def load_noise(store: Store, project: str) -> list[float]:
    with store.read() as tx:
        return list(load_noise_between_runs(tx, load_project_series(tx, project)).values())


def test_the_noise_of_a_series_is_that_of_its_last_levels(store: Store) -> None:
    project, rarely_measured = next(PROJECTS), next(PROJECTS)
    levels = [9.0, *(2.0 + 0.01 * (number * 7 % 5) for number in range(NOISE_COMMITS))]
    with store.begin() as tx:
        for slug, some in ((project, levels), (rarely_measured, levels[:3])):
            for number, level in enumerate(some):
                results = [a_result(SERIES[0], a_process(level))]
                key = f"{slug} {number}"
                run = a_run(*results, project=slug, commit=a_commit(number), session=key)
                ingest_run(tx, run, key, "")
    with store.read() as tx:
        record = find_project(tx, project)
    assert record is not None

    derived = load_noise(store, project)
    refresh_series_points(store, record)

    expected = estimate_noise_between_runs(levels[-NOISE_COMMITS:])
    assert derived == load_noise(store, project) == [pytest.approx(expected)]
    assert load_noise(store, rarely_measured) == []


def test_parts_of_a_trend_are_numbered_from_zero(store: Store) -> None:
    project = next(PROJECTS)
    with store.begin() as tx:
        for number in range(1, 41):
            run = a_project_run(project, number, ["process"])
            ingest_run(tx, run, f"{project}-{number}", "", kind="history", summarize=summarize_processes)
        [(series_id, series)] = load_project_series(tx, project).items()
        update_change_points(tx, project, [series_id], POLICY)
        change = ChangePoint(series, a_commit(21).sha, a_commit(20).sha, 4.0, 5.0)
        save_change_points(tx, {series_id: [change]})

    with store.read() as tx:
        trends = load_series_trends(tx, project, [series_id])
        [last] = show_last_commits(tx, project, trends, 30).values()
        [around] = show_commits_around(tx, project, trends, {series_id: change.commit}, 5).values()
        [absent] = show_commits_around(tx, project, trends, {series_id: "absent"}, 5).values()

    assert [dot.index for dot in last.dots] == list(range(30))
    assert [(mark.index, mark.last_good_index) for mark in last.marks] == [(10, 9)]
    assert [(level.first, level.last) for level in last.levels] == [(0, 9), (10, 29)]
    assert [dot.commit.sha for dot in around.dots] == [a_commit(number).sha for number in range(16, 27)]
    assert [(mark.index, mark.last_good_index) for mark in around.marks] == [(5, 4)]
    assert [(level.first, level.last) for level in around.levels] == [(0, 4), (5, 10)]
    assert [dot.commit.sha for dot in absent.dots] == [a_commit(number).sha for number in range(35, 41)]


def test_the_check_of_a_database_names_points_that_differ_from_results(store: Store) -> None:
    project = next(PROJECTS)
    with store.begin() as tx:
        ingest_run(tx, a_project_run(project, 1, ["process"]), f"{project}-1", "", kind="history")
    refresh_series_points(store, find_project_record(store, project))
    with store.begin() as tx:
        before = list(find_wrong_series_points(tx))
        [series_id] = load_project_series(tx, project)
        wrong = PointColumns.from_rows([PointRow(1, 9.0, 0, 1, 1, 1, 9.0, 9.0, False)])
        [block] = wrong.split_blocks()
        tx.execute(
            sa.update(PointBlockRow.__table__)
            .where(PointBlockRow.series_id == series_id)
            .values(levels=block.levels)
        )
        after = list(find_wrong_series_points(tx))

    assert before == []
    assert after == [f"The stored points of series {series_id} differ from its results."]


def take_step(store: Store, project: str, number: int, kind: object, *values: object) -> None:
    with store.begin() as tx:
        if kind == "run":
            run = a_project_run(project, *values)
            summarize = summarize_processes if number % 2 else None
            ingest_run(tx, run, f"{project}-{number}", "", kind="history", summarize=summarize)
        if kind == "judge":
            update_change_points(tx, project, load_project_series(tx, project), POLICY)
        if kind == "place":
            upsert_commits(tx, project, [a_commit(values[0], position=values[1])])
        if kind in ("mark", "delete"):
            project_id = find_project(tx, project).id
            run_ids = tx.scalars(
                sa.select(RunRow.id)
                .join(SessionRow)
                .where(SessionRow.project_id == project_id)
                .order_by(RunRow.id)
            ).all()
            run_id = run_ids[values[0] % len(run_ids)]
            if kind == "mark":
                mark = InvalidMark("noise", "ada", NOON) if values[1] else None
                set_run_mark(tx, project_id, run_id, mark)
            elif len(run_ids) > 1:
                record_deletion_request(tx, project_id, "run", run_id, NOON)
    while kind == "delete":
        with store.begin() as tx:
            if not delete_next_batch(tx, NOON):
                return


def a_project_run(project: str, number: int, shapes: list[str]) -> Run:
    results = [a_result(series, **RESULTS[shape]) for series, shape in zip(SERIES, shapes, strict=False)]
    return a_run(*results, project=project, commit=a_commit(number), session=f"{project}-{number}")


def find_project_record(store: Store, project: str):
    with store.read() as tx:
        return find_project(tx, project)


def read_drawn_dots(store: Store, project: str) -> dict[int, tuple[Dot, ...]]:
    with store.read() as tx:
        trends = load_series_trends(tx, project, load_project_series(tx, project))
        ends = show_last_commits(tx, project, trends)
        charts = draw_charts(tx, project, trends, sys.maxsize)
    for series_id, chart in charts.items():
        assert [dot.level for dot in ends[series_id].dots] == [dot.level for dot in chart.dots]
        assert [dot.status for dot in ends[series_id].dots] == [dot.status for dot in chart.dots]
        assert trends[series_id].record.commits == len(chart.dots)
    return {series_id: tuple(chart.dots) for series_id, chart in charts.items()}


def read_dots_of_results(store: Store, project: str) -> dict[int, tuple[Dot, ...]]:
    with store.read() as tx:
        histories = load_histories_by_series_id(tx, sorted(load_project_series(tx, project)))
    return {series_id: build_dots(points) for series_id, points in histories.items() if points}


def read_stored_points(store: Store, project: str) -> object:
    with store.read() as tx:
        series_ids = load_project_series(tx, project)
        return load_series_points_records(tx, series_ids), load_point_blocks(tx, series_ids)
