"""When and where the commits of a line were measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from perfci.history.incident_inputs import IncidentInputs, VisitIndex
from perfci.history.result_summaries import summarize_processes
from perfci.model import Process, Result, Status
from perfci.store import Store
from perfci.store.queries.judging_inputs import VisitRecord
from perfci.verdicts.history.release_creep import Release
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
)
from tests.support.stored_runs import ingest_run

HERE, THERE = a_machine(), a_machine("Intel")


def a_visit(number: int, **changes: object) -> VisitRecord:
    record = VisitRecord(
        a_sha(number), HERE, f"nightly-{number}", "history", 1, NOON + timedelta(hours=number)
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def a_visit_index(*visits: VisitRecord, commits: int = 10, **odd: object) -> VisitIndex:
    return VisitIndex([a_commit(number, **odd) for number in range(commits, 0, -1)], visits)


def test_the_main_line_excludes_heads_of_pull_requests() -> None:
    stranger = a_commit(99, parents=(a_sha(4),), position=5)
    commits = [stranger, *(a_commit(number) for number in range(6, 0, -1))]

    timetable = VisitIndex(commits, [a_visit(2), a_visit(6)])

    assert [commit.sha for commit in timetable.commits] == [a_sha(number) for number in range(1, 7)]
    assert stranger.sha in timetable.by_sha


def test_finds_the_commits_measured_around_one_on_the_same_machine() -> None:
    timetable = a_visit_index(*(a_visit(number) for number in (1, 3, 5, 7, 9)), a_visit(6, machine=THERE))

    assert timetable.find_commits_measured_around(a_sha(5), HERE, 1) == [a_sha(3), a_sha(5), a_sha(7)]
    assert timetable.measured_shas[HERE][-2:] == [a_sha(7), a_sha(9)]


def test_numbers_the_commits_of_a_week_in_order() -> None:
    monday = NOON + timedelta(days=1)

    timetable = a_visit_index(
        a_visit(1), a_visit(3), a_visit(2, started_at=monday), a_visit(3, started_at=monday)
    )

    assert timetable.weekly_numbers == {a_sha(1): 1, a_sha(3): 2, a_sha(2): 1}


def test_treats_each_commit_of_an_imported_history_as_a_session() -> None:
    visits = [a_visit(number, session="asv", kind="import", rounds=0) for number in (1, 2)]

    timetable = a_visit_index(*visits, a_visit(3, rounds=5))

    sessions = {sha: [visit.session for visit in owner] for (sha, _), owner in timetable.visits.items()}
    assert sessions == {
        a_sha(1): [f"asv at {a_sha(1)[:10]}"],
        a_sha(2): [f"asv at {a_sha(2)[:10]}"],
        a_sha(3): ["nightly-3"],
    }
    assert timetable.visits[a_sha(3), HERE][0].interleaved


def test_releases_are_matching_tags_from_the_store_or_from_git() -> None:
    stored = a_visit_index(a_visit(10), tags=("v1.0", "nightly"))
    at_hand = {a_sha(4): ("v2.0",), a_sha(6): ("draft",)}

    assert {release.tag for release in stored.find_releases("v*")} == {"v1.0"}
    assert [(release.tag, release.sha) for release in stored.find_releases("v*", at_hand)] == [
        ("v2.0", a_sha(4))
    ]


def test_the_month_of_some_days_ago_begins_with_its_first_measured_commit() -> None:
    line = [a_commit(number, committed_at=NOON + timedelta(days=10 * number)) for number in range(1, 13)]
    visits = [a_visit(number) for number in (2, 4, 7, 8, 12)]
    timetable = VisitIndex(line[::-1], visits)

    starts = [timetable.find_month_start_release(days) for days in (30, 90, 120)]

    dates = {number: f"{NOON + timedelta(days=10 * number):%Y-%m-%d}" for number in (2, 7)}
    assert starts == [
        Release(f"{a_sha(7)[:10]} of {dates[7]}", a_sha(7), is_by_age=True),
        Release(f"{a_sha(2)[:10]} of {dates[2]}", a_sha(2), is_by_age=True),
        None,
    ]


def test_commits_measured_since_a_position_are_those_of_one_machine() -> None:
    timetable = a_visit_index(*(a_visit(number) for number in range(1, 11)))

    assert timetable.find_commits_measured_since(7, HERE) == [a_sha(8), a_sha(9), a_sha(10)]


def test_counts_the_series_that_a_machine_measured_at_a_commit_not_those_retired(store: Store) -> None:
    kept, retired, failing = (
        a_series(f"training.Step.time_{name}") for name in ("kept", "retired", "failing")
    )
    failed = Process(0, status=Status.FAILED)
    store_results(store, 1, *(a_result(item, a_process(1.0)) for item in (kept, retired, failing)))
    store_results(store, 2, a_result(kept, a_process(1.0)), a_result(failing, failed, status=Status.FAILED))

    with store.read() as tx:
        inputs = IncidentInputs.load(tx, PROJECT, Policy())
        counts = [
            inputs.count_measured_series(machine, "seconds", {a_sha(number)})
            for machine, number in ((HERE, 1), (HERE, 2), (THERE, 2))
        ]

    assert counts == [3, 1, 0]


def store_results(store: Store, number: int, *results: Result) -> None:
    run = a_run(*results, commit=a_commit(number), machine=HERE, session=f"night-{number}")
    with store.begin() as tx:
        ingest_run(tx, run, f"key-{number}", "hash", kind="history", summarize=summarize_processes)
