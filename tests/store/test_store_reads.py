"""Queries over stored runs return what was stored."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    Interval,
    PerfciError,
    Point,
    ProcessBoundaries,
    Result,
    Series,
    Status,
)
from perfci.store import Store, verdicts_and_change_points
from perfci.store.queries import (
    measured_samples,
    project_counts,
    runs_and_sessions,
    series_commits_machines,
    series_search,
)
from perfci.store.queries.branch_commits import load_branch_commits, load_commits_of_history
from perfci.store.queries.judging_inputs import load_judged_series_ids
from perfci.store.queries.series_commits_machines import load_commits_by_id, sort_commits
from perfci.store.transactions import SERIES_CACHE
from perfci.store.verdict_decision_records import load_aa_results_by_series
from perfci.store.writes import find_or_add_rows, ingest, measured_sessions
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_commit,
    a_failed_process,
    a_machine,
    a_pair,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
    a_variant,
    a_verdict,
    an_environment,
    an_imported_commit,
)
from tests.support.stored_runs import ingest_run, load_benchmark_code, replace_change_points
from tests.support.stored_summaries import compute_stored_summaries


def ingested(
    store: Store, *results: Result, kind: str = "import", session: str = "imported", **run: object
) -> None:
    """Store a run of these results, each call under a key of its own."""
    with store.begin() as tx:
        whole = a_run(*results, session=session, **run)  # type: ignore[arg-type]
        ingest_run(tx, whole, f"{session} {kind} {run}", "body", kind=kind)


def history_of(store: Store, series: Series) -> list[Point]:
    with store.read() as tx:
        ids = {record.series: record.id for record in series_search.search_series(tx, PROJECT)}
        return measured_samples.load_history(tx, ids[series])


def levels(points: list[Point]) -> list[list[float]]:
    return [[sample for process in point.processes for sample in process.samples] for point in points]


def test_a_history_follows_the_line_and_not_the_dates(store: Store) -> None:
    dates = {1: 5, 2: 1, 3: 9}
    for number in (3, 1, 2):
        commit = a_commit(number, committed_at=NOON + timedelta(hours=dates[number]))
        ingested(store, a_result(a_series(), a_process(float(number))), commit=commit)

    assert levels(history_of(store, a_series())) == [[1.0], [2.0], [3.0]]


def test_a_history_without_positions_follows_the_dates(store: Store) -> None:
    for number in (3, 1, 2):
        ingested(store, a_result(a_series(), a_process(float(number))), commit=an_imported_commit(number))

    assert levels(history_of(store, a_series())) == [[1.0], [2.0], [3.0]]


def test_a_commit_without_a_position_goes_where_its_date_falls() -> None:
    line = [a_commit(number) for number in (1, 2, 3)]
    between = an_imported_commit(9, committed_at=NOON + timedelta(hours=2, minutes=30))
    undated = Commit(a_sha(0))

    assert sort_commits([between, line[2], undated, line[0], line[1]]) == [
        undated,
        *line[:2],
        between,
        line[2],
    ]


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.one_of(st.none(), st.integers(0, 5)))),
    st.randoms(),
)
def test_the_line_does_not_depend_on_the_order_of_arrival(
    places: list[tuple[int | None, int | None]], random: Random
) -> None:
    commits = [
        Commit(
            a_sha(number),
            position=position,
            committed_at=None if hour is None else NOON + timedelta(hours=hour),
        )
        for number, (position, hour) in enumerate(places)
    ]
    shuffled = random.sample(commits, len(commits))

    line = sort_commits(shuffled)

    assert line == sort_commits(commits)
    positions = [commit.position for commit in line if commit.position is not None]
    assert positions == sorted(positions)


def test_several_runs_of_a_commit_are_one_point_with_all_processes(store: Store) -> None:
    ingested(store, a_result(a_series(), a_process(1.0), a_process(2.0, index=1)), session="first")
    later = an_environment(torch="2.14.0")
    ingested(
        store,
        a_result(a_series(), a_process(3.0)),
        session="second",
        environment=later,
        started_at=NOON + timedelta(days=1),
    )

    [point] = history_of(store, a_series())

    assert [process.samples for process in point.processes] == [(1.0,), (2.0,), (3.0,)]
    assert point.environment == later
    assert point.boundaries is ProcessBoundaries.PROCESS


def test_a_point_that_mixes_pooled_samples_with_processes_knows_no_boundaries(store: Store) -> None:
    ingested(store, a_result(a_series(), a_process(1.0)), session="first")
    ingested(
        store, a_result(a_series(), a_process(2.0), boundaries=ProcessBoundaries.POOLED), session="second"
    )

    assert history_of(store, a_series())[0].boundaries is ProcessBoundaries.UNKNOWN


def test_a_failed_commit_is_a_point_with_its_reason(store: Store) -> None:
    ingested(store, a_result(a_series(), a_process(1.0)), commit=a_commit(1))
    broken = a_result(
        a_series(), a_failed_process(), status=Status.FAILED, reason="ValueError: no such layer"
    )
    ingested(store, broken, commit=a_commit(2))

    point = history_of(store, a_series())[1]

    assert (point.status, point.reason) == (Status.FAILED, "ValueError: no such layer")
    assert point.processes[0].stderr_tail.startswith("Traceback")


def test_a_successful_run_takes_precedence_over_a_failed_run(store: Store) -> None:
    summary = a_summary(2.0)
    ingested(store, a_result(a_series(), a_process(2.0), summary=summary), session="first")
    ingested(store, a_result(a_series(), a_failed_process(), status=Status.FAILED), session="second")

    [point] = history_of(store, a_series())

    assert (point.status, point.summary, len(point.processes)) == (Status.OK, summary, 2)


@pytest.mark.parametrize("kind", ["compare", "aa", "retest"])
def test_what_a_pull_request_or_an_aa_run_measured_stays_out_of_history(store: Store, kind: str) -> None:
    ingested(store, a_result(), kind=kind)

    assert history_of(store, a_series()) == []


def test_a_changed_working_tree_stays_out_of_history(store: Store) -> None:
    ingested(store, a_result(), commit=a_commit(1, dirty=True))

    assert history_of(store, a_series()) == []


def test_many_histories_take_as_many_queries_as_one(store: Store) -> None:
    names = [f"suite.time_{number}" for number in range(10)]
    for number in range(1, 20):
        ingested(
            store,
            *(a_result(a_series(name), a_process(float(number))) for name in names),
            commit=a_commit(number),
        )

    with store.read() as tx:
        ids = [record.id for record in series_search.search_series(tx, PROJECT)]
        statements: list[str] = []
        sa.event.listen(tx.get_bind(), "before_cursor_execute", lambda *args: statements.append(args[2]))
        history = measured_samples.load_history(tx, ids[0])
        for_one = len(statements)
        many = measured_samples.load_histories_by_series_id(tx, ids)

    assert many[ids[0]] == history
    assert {len(points) for points in many.values()} == {19}
    assert len(statements) - for_one == for_one <= 4


def test_points_by_sha_are_all_points_of_all_histories(store: Store) -> None:
    names = ["suite.time_a", "suite.time_b"]
    for number in range(1, 6):
        ingested(
            store,
            *(a_result(a_series(name), a_process(float(number))) for name in names),
            commit=a_commit(number),
        )

    with store.read() as tx:
        parts = runs_and_sessions.load_run_ids_in_sha_order(tx, PROJECT, max_results=4)
        points = [point for runs in parts for point in measured_samples.load_points_of_runs(tx, runs)]

    assert [len(runs) for runs in parts] == [2, 2, 1]
    assert [point.commit.sha for _, point in points] == sorted(point.commit.sha for _, point in points)
    for name in names:
        assert [point for series, point in points if series == a_series(name)] == history_of(
            store, a_series(name)
        )


def test_projects_count_what_they_hold(store: Store) -> None:
    ingested(store, a_result(), a_result(a_series(metric="memory")), finished_at=NOON + timedelta(hours=3))
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, "acme/empty", [a_commit(1)])

    with store.read() as tx:
        empty, full = project_counts.load_projects_with_counts(tx)

    assert (empty.slug, empty.commits, empty.series, empty.last_measured_at) == ("acme/empty", 1, 0, None)
    assert (full.commits, full.series, full.never_measured, full.runs) == (1, 2, 0, 1)
    assert full.last_measured_at == NOON + timedelta(hours=3)


def test_loads_the_length_and_the_end_of_each_history(store: Store) -> None:
    good, bad, compared = a_series("suite.time_a"), a_series("suite.time_b"), a_series("suite.time_c")
    for number in (1, 2, 3):
        ingested(store, a_result(good), a_result(bad), commit=a_commit(number))
    ingested(store, a_result(bad, a_failed_process(), status=Status.FAILED), commit=a_commit(4))
    ingested(store, a_result(compared), kind="compare", session="pull request")

    with store.read() as tx:
        series = series_search.search_series(tx, PROJECT)

    assert [(item.series, item.points, item.last_commit_sha, item.is_last_failed) for item in series] == [
        (good, 3, a_sha(3), False),
        (bad, 4, a_sha(4), True),
        (compared, 0, None, False),
    ]


def test_processes_are_counted_once_however_many_metrics_they_gave(store: Store) -> None:
    processes = [a_process(index=index, round=index) for index in range(3)]
    broken = a_failed_process(index=3, round=3)
    time, peak = a_result(a_series(), *processes, broken), a_result(a_series(metric="memory"), *processes)
    other_cell = a_result(a_series("suite.time_b"), processes[0])
    ingested(store, time, peak, other_cell)

    with store.read() as tx:
        assert project_counts.load_projects_with_counts(tx)[0].processes == 3 + 1 + 1


def test_processes_of_a_run_that_grows_are_counted_too(store: Store) -> None:
    first, second = (a_process(index=index, round=index) for index in range(2))
    grown = a_run(a_result(a_series(), first), session="local")
    with store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, "local", "history", "spec", 1, 2, NOON)
        run_id = measured_sessions.find_or_add_run(tx, grown)
        measured_sessions.find_or_add_run(
            tx, replace(grown, results=(a_result(a_series(metric="memory"), first),))
        )
        measured_sessions.add_process_measurements(
            tx, run_id, [(a_series(), second), (a_series(metric="memory"), second)]
        )

    with store.read() as tx:
        assert project_counts.load_project_with_counts(tx, PROJECT).processes == 2


def a_skipped(series: Series, reason: str = "there is no GPU") -> Result:
    return a_result(series, a_failed_process(Status.SKIPPED), status=Status.SKIPPED, reason=reason)


def test_a_series_that_was_always_skipped_counts_as_never_measured(store: Store) -> None:
    never, once, broken = a_series("suite.a"), a_series("suite.b"), a_series("suite.c")
    ingested(store, a_skipped(never), a_result(once), a_skipped(broken))
    failure = a_result(broken, a_failed_process(), status=Status.FAILED, reason="boom")
    ingested(store, a_skipped(never), a_skipped(once, "the GPU is gone"), failure, commit=a_commit(2))

    with store.read() as tx:
        series = series_search.search_series(tx, PROJECT)
        [project] = project_counts.load_projects_with_counts(tx)

    assert [
        (item.never_measured, item.is_last_failed, item.last_status, item.last_reason) for item in series
    ] == [
        (True, False, Status.SKIPPED, "there is no GPU"),
        (False, False, Status.SKIPPED, "the GPU is gone"),
        (False, True, Status.FAILED, "boom"),
    ]
    assert project.never_measured == 1


def test_a_series_skipped_by_all_comparisons_counts_as_never_measured(store: Store) -> None:
    never, compared = a_series("suite.a"), a_series("suite.b")
    shown = a_result(compared, a_process(clock=Clock.INFORMATIONAL))
    ingested(store, a_skipped(never), shown, kind="compare", session="pull request")

    with store.read() as tx:
        series = series_search.search_series(tx, PROJECT)

    assert [
        (item.never_measured, item.last_reason, item.is_informational, item.points) for item in series
    ] == [
        (True, "there is no GPU", False, 0),
        (False, "", True, 0),
    ]


def test_loads_the_clock_of_the_newest_value_of_a_series(store: Store) -> None:
    witness, judged, imported = a_series("suite.a"), a_series("suite.b"), a_series("suite.c")
    shown = a_result(witness, a_process(clock=Clock.INFORMATIONAL))
    summary = a_result(imported, summary=a_summary())
    ingested(store, shown, a_result(judged, a_process(clock=Clock.CPU)), replace(summary, processes=()))
    ingested(store, a_skipped(witness), commit=a_commit(2))

    with store.read() as tx:
        series = series_search.search_series(tx, PROJECT)

    assert [item.clock for item in series] == [Clock.INFORMATIONAL, Clock.CPU, None]
    assert [item.is_informational for item in series] == [True, False, False]


@pytest.mark.parametrize("worked_out", [True, False])
def test_judged_series_have_a_history_and_are_not_informational(store: Store, worked_out: bool) -> None:
    witness, judged, compared, imported = (a_series(f"suite.{name}") for name in "abcd")
    shown, left = (
        a_result(witness, a_process(clock=Clock.INFORMATIONAL)),
        a_result(imported, summary=a_summary()),
    )
    ingested(store, shown, a_result(judged), replace(left, processes=()))
    ingested(store, a_skipped(witness), a_skipped(judged), commit=a_commit(2))
    ingested(store, a_result(compared), kind="compare", session="pull request")
    with store.begin() as tx:
        if worked_out:
            compute_stored_summaries(tx)

    with store.read() as tx:
        judged_series = load_judged_series_ids(tx, PROJECT)
        ids = {record.series: record.id for record in series_search.search_series(tx, PROJECT)}

    assert judged_series == {judged: ids[judged], imported: ids[imported]}


def test_finds_the_end_of_a_history_however_old(store: Store) -> None:
    old, new = a_series("suite.a"), a_series("suite.b")
    ingested(store, a_result(old), a_result(new), commit=a_commit(1))
    ingested(store, a_result(old), commit=a_commit(2))
    for number in range(3, 30):
        ingested(store, a_result(new), commit=a_commit(number))

    with store.read() as tx:
        series = series_search.search_series(tx, PROJECT)

    assert [(item.points, item.last_commit_sha) for item in series] == [(2, a_sha(2)), (28, a_sha(29))]


def test_a_thousand_series_take_few_queries(store: Store) -> None:
    ingested(store, *(a_result(a_series(f"suite.time_{k:04}")) for k in range(1200)))

    with store.read() as tx:
        requests: list[str] = []
        sa.event.listen(tx.get_bind(), "before_cursor_execute", lambda *values: requests.append(values[2]))
        series = series_search.search_series(tx, PROJECT)

    assert len(series) == 1200
    assert len(requests) <= 17


@pytest.mark.parametrize(
    ("search", "finds"),
    [("", 3), ("TRAIN", 2), ("train bf16", 1), ("memory", 1), ("nothing", 0), ("3.12 epyc", 1)],
)
def test_series_are_searched_by_words(store: Store, search: str, finds: int) -> None:
    ingested(
        store,
        a_result(a_series("training.time_step", parameters={"dtype": "'bf16'"})),
        a_result(a_series("training.time_step", variant=a_variant(python="3.12"))),
        a_result(a_series("serving.peak", metric="memory")),
    )

    with store.read() as tx:
        assert len(series_search.search_series(tx, PROJECT, search=search)) == finds
        assert series_search.search_series(tx, "acme/other", search=search) == []


def test_the_version_measured_last_leads(store: Store) -> None:
    for version, day in (("new", 2), ("old", 1)):
        started = NOON + timedelta(days=day)
        ingested(store, a_result(a_series(version=version)), started_at=started, session=version)

    with store.read() as tx:
        series = series_search.find_series_of_benchmark(tx, PROJECT, "training.Step.time_step", "time")

    assert [item.series.benchmark.version for item in series] == ["new", "old"]


def test_finds_series_by_parameters_in_any_order(store: Store) -> None:
    wanted = a_series(parameters={"n": "1", "m": "2"})
    ingested(store, a_result(wanted), a_result(a_series(parameters={"n": "2", "m": "2"})))

    with store.read() as tx:
        name = wanted.benchmark.name
        assert [
            each_series.series
            for each_series in series_search.find_series_of_benchmark(
                tx, PROJECT, name, "time", {"m": "2", "n": "1"}
            )
        ] == [wanted]
        assert len(series_search.find_series_of_benchmark(tx, PROJECT, name, "time")) == 2
        assert series_search.find_series_of_benchmark(tx, PROJECT, name, "memory") == []


def test_stores_the_code_of_each_version(store: Store) -> None:
    ingested(store, a_result(a_series(version="1")), a_result(a_series(version="2")))
    first, second = (Benchmark("training.Step.time_step", version) for version in "12")

    for code in ("def time_step(): ...", "written again"):
        with store.begin() as tx:
            ingest.save_benchmark_descriptions(tx, PROJECT, {second: (code, {"timeout": 60})})

    with store.read() as tx:
        assert load_benchmark_code(tx, PROJECT, first) is None
        assert load_benchmark_code(tx, PROJECT, second) == "def time_step(): ..."


def test_processes_of_a_session_name_their_commit_and_series(store: Store) -> None:
    ingested(store, a_result(a_series(), *a_pair(0, 1.0, 2.0)), commit=a_commit(3), session="mine")
    ingested(store, a_result(), session="other")

    with store.read() as tx:
        session_processes = measured_samples.load_session_processes(tx, "mine")

    assert [(item.sha, item.series, item.process) for item in session_processes] == [
        (a_sha(3), a_series(), process) for process in a_pair(0, 1.0, 2.0)
    ]


def test_finds_verdicts_by_commits_and_series(store: Store) -> None:
    memory = a_series(metric="memory")
    questions = [
        a_verdict(),
        a_verdict(memory),
        a_verdict(head=a_sha(3)),
        a_verdict(base=a_sha(2), head=a_sha(3)),
    ]
    ingested(store, a_result())
    with store.begin() as tx:
        ids = verdicts_and_change_points.add_verdicts(tx, PROJECT, "imported", questions, NOON)

    with store.read() as tx:
        by_head = verdicts_and_change_points.load_verdict_records(tx, PROJECT, head=a_sha(3))
        by_series = verdicts_and_change_points.load_verdict_records(tx, PROJECT, series_id=2)
        newest = verdicts_and_change_points.load_verdict_records(tx, PROJECT, limit=1)
    assert [item.id for item in by_head] == [ids[3], ids[2]]
    assert [each_series.verdict for each_series in by_series] == [questions[1]]
    assert [(item.id, item.session_uid, item.created_at) for item in newest] == [(ids[3], "imported", NOON)]


def test_levels_of_an_older_verdict_have_its_ratio(store: Store) -> None:
    """Its head level was the median of the head, while its ratio is that of the pairs."""
    ingested(store, a_result())
    older = a_verdict(base_level=2.0, head_level=2.7, ratio=1.25)
    with store.begin() as tx:
        verdicts_and_change_points.add_verdicts(tx, PROJECT, "imported", [older], NOON)

    with store.read() as tx:
        (record,) = verdicts_and_change_points.load_verdict_records(tx, PROJECT)
    assert (record.verdict.base_level, record.verdict.head_level) == (2.0, 2.5)


def test_change_points_belong_to_their_project(store: Store) -> None:
    with_interval = a_change_point(interval=Interval(1.15, 1.25))
    with store.begin() as tx:
        replace_change_points(tx, PROJECT, a_series(), [with_interval])

    with store.read() as tx:
        assert verdicts_and_change_points.load_change_points(tx, PROJECT) == [with_interval]
        assert verdicts_and_change_points.load_change_points(tx, "acme/other") == []


def test_commits_come_newest_first(store: Store) -> None:
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(number) for number in (2, 3, 1)])

    with store.read() as tx:
        assert [
            commit.position
            for commit in series_commits_machines.load_commits_newest_first(tx, PROJECT, limit=2)
        ] == [
            3,
            2,
        ]


def test_readers_share_the_commits_of_a_history(store: Store) -> None:
    twin = replace(a_commit(1), dirty=True)
    ingested(store, a_result(a_series(), a_process()), commit=a_commit(1))
    ingested(store, a_result(a_series(), a_process()), commit=a_commit(2), session="pull", kind="compare")
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [a_commit(3), twin])

    with store.read() as tx:
        branch = load_branch_commits(tx, PROJECT)
        stored = {commit: row_id for row_id, commit in load_commits_by_id(tx).items()}
        with_pull = load_commits_of_history(tx, PROJECT, [stored[a_commit(2)], stored[a_commit(3)]])
    with store.read() as tx:
        assert load_branch_commits(tx, PROJECT) is branch
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [replace(a_commit(3), subject="Another")])

    with store.read() as tx:
        assert [commit.subject for commit in load_branch_commits(tx, PROJECT).commits][-1] == "Another"
    assert branch.commits == (a_commit(1), a_commit(3))
    assert branch.by_id == {stored[commit]: commit for commit in branch.commits}
    assert {with_pull[stored[a_commit(number)]] for number in (1, 2, 3)} == {*map(a_commit, (1, 2, 3))}


@pytest.mark.parametrize("placed", ["all", "none", "some"])
def test_a_commit_comes_with_those_beside_it_on_the_line(store: Store, placed: str) -> None:
    def commit(number: int) -> Commit:
        imported = placed == "none" or (placed == "some" and number % 2)
        return an_imported_commit(number) if imported else a_commit(number)

    twin = replace(commit(3), dirty=True)
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(tx, PROJECT, [*map(commit, range(1, 6)), twin])
        find_or_add_rows.upsert_commits(tx, "acme/other", [commit(number) for number in range(10)])

    with store.read() as tx:
        line = series_commits_machines.load_commits_newest_first(tx, PROJECT)
        for number in (1, 2, 4, 5):
            clean = [item for item in line if not item.dirty]
            place = clean.index(commit(number))
            found = series_commits_machines.load_commit_with_neighbours(tx, PROJECT, commit(number))
            beside = [item for item in found if not item.dirty]
            at = beside.index(commit(number))
            assert beside[max(0, at - 1) : at + 2] == clean[max(0, place - 1) : place + 2]
        around_twin = series_commits_machines.load_commit_with_neighbours(tx, PROJECT, twin)

    assert {commit(3), twin} <= set(around_twin)


def test_finds_a_commit_by_a_prefix_of_its_sha(store: Store) -> None:
    with store.begin() as tx:
        find_or_add_rows.upsert_commits(
            tx, PROJECT, [a_commit(1), a_commit(2), a_commit(3, sha="1f".ljust(40, "0"))]
        )

    with store.read() as tx:
        assert series_commits_machines.find_commit(tx, PROJECT, "1F") == a_commit(3, sha="1f".ljust(40, "0"))
        assert series_commits_machines.find_commit(tx, PROJECT, a_sha(2)) == a_commit(2)
        assert series_commits_machines.find_commit(tx, PROJECT, "%") is None
        assert series_commits_machines.find_commit(tx, PROJECT, "") is None
        with pytest.raises(PerfciError, match="The prefix 0000 fits 2 commits"):
            series_commits_machines.find_commit(tx, PROJECT, "0000")


def test_runs_of_a_commit_count_results_and_failures(store: Store) -> None:
    ingested(
        store,
        a_result(a_series("suite.a")),
        a_result(a_series("suite.b"), a_failed_process(), status=Status.OOM),
        a_result(a_series("suite.c"), a_failed_process(Status.SKIPPED), status=Status.SKIPPED),
        variant=a_variant(python="3.12"),
    )
    ingested(store, session="later", started_at=NOON + timedelta(hours=1), machine=a_machine("Intel"))

    with store.read() as tx:
        newer, older = runs_and_sessions.load_runs_of_commit(tx, PROJECT, a_sha(1))

    assert (newer.session_uid, newer.machine, newer.results) == ("later", a_machine("Intel"), 0)
    assert (older.results, older.failed, older.variant) == (3, 1, a_variant(python="3.12"))


def test_aa_ratios_are_one_for_each_comparison_of_a_commit_with_itself(store: Store) -> None:
    ingested(store, a_result(a_series(), a_process(1.0)), kind="aa", session="first")
    ingested(store, kind="aa", session="second")
    ingested(store, kind="compare", session="pull request")
    with store.begin() as tx:
        for session, ratio in (("first", 1.1), ("second", 0.95), ("pull request", 9.0)):
            verdicts_and_change_points.add_verdicts(
                tx, PROJECT, session, [a_verdict(a_series(), ratio=ratio)], NOON
            )

    with store.read() as tx:
        [(series, aa_results)] = load_aa_results_by_series(tx, PROJECT).items()
        assert load_aa_results_by_series(tx, "another") == {}

    assert series == a_series()
    assert [result.log_ratio for result in aa_results] == pytest.approx([math.log(1.1), math.log(0.95)])


def test_an_unknown_run_is_an_error(store: Store) -> None:
    with store.read() as tx, pytest.raises(PerfciError, match="There is no run 5"):
        measured_samples.load_run(tx, 5)


def test_caches_no_more_series_than_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_commits_machines, "MAX_CACHED_SERIES", 2)
    series = [a_series(f"Bench{number}.time_it") for number in range(4)]
    ingested(store, *(a_result(each, a_process(1.0)) for each in series))

    for _ in range(2):
        with store.read() as tx:
            assert set(series_commits_machines.load_project_series(tx, PROJECT).values()) == set(series)
            assert len(tx.info[SERIES_CACHE]) == 2
            assert (
                len(
                    series_commits_machines.load_series_by_ids(
                        tx, series_commits_machines.load_project_series(tx, PROJECT)
                    )
                )
                == 4
            )
