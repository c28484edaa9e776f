"""Missing data is detected once, notified once and closed when the data arrives."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfci.model import IncidentState, Result, Status
from perfci.project_policies import ProjectPolicies
from perfci.service.missing_data import find_missing_data
from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.service.worker.judge_worker import PeriodicJobs
from perfci.store import Store, unresolved_results
from perfci.store.incidents import reporting_schedules_and_run_arrivals
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.incidents.reporting_schedules_and_run_arrivals import RunArrival
from tests.support.builders import NOON, a_commit, a_failed_process, a_machine, a_result, a_run, a_series
from tests.support.evaluations import a_project
from tests.support.stored_runs import ingest_run

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def upload_report(
    store: Store,
    at: datetime,
    *results: Result,
    suite: str = "nightly",
    branch: str = "main",
    cpu: str = "AMD",
) -> None:
    """A run that arrived at this time."""
    machine = a_machine(cpu)
    number = int((at - NOON) / timedelta(minutes=1)) + (10 if branch == "main" else 100_000)
    run = a_run(
        *(results or (a_result_of(1, cpu=cpu),)),
        commit=a_commit(number, branch=branch),
        machine=machine,
        suite=suite,
        session=f"{at} {suite} {branch} {cpu}",
        started_at=at,
    )
    with store.begin() as tx:
        ingest_run(tx, run, f"{at} {suite} {branch} {cpu}", "body", kind="history")


def a_result_of(*numbers: int, cpu: str = "AMD", failed: bool = False) -> Result:
    [number] = numbers
    series = a_series(f"bench.time_{number}", machine=a_machine(cpu))
    return a_result(series, a_failed_process(), status=Status.FAILED) if failed else a_result(series)


def several_results(*numbers: int, failed: bool = False) -> list[Result]:
    return [a_result_of(number, failed=failed) for number in numbers]


def monitor_headlines(store: Store, now: datetime, watch: MissingDataMonitor | None = None) -> list[str]:
    """The headlines of a look."""
    project = a_project(store)
    with store.begin() as tx:
        return [missing.headline for missing in (watch or MissingDataMonitor())(tx, project, now)]


def load_data_incidents(store: Store) -> list[IncidentRecord]:
    with store.read() as tx:
        return list_incidents(tx, a_project(store).id, kinds=["data"])[::-1]


def upload_nightly_reports(store: Store, days: int = 5, **changes: str) -> datetime:
    """A suite that reported each night, and when it did last."""
    for day in range(days):
        upload_report(store, NOON + day * DAY, **changes)
    return NOON + (days - 1) * DAY


def test_a_suite_is_late_after_twice_its_longest_gap_and_an_hour(store: Store) -> None:
    last = upload_nightly_reports(store)

    assert monitor_headlines(store, last + 2 * DAY + HOUR) == []
    assert monitor_headlines(store, last + 2 * DAY + HOUR + timedelta(seconds=1)) == [
        "nightly (main) has not reported from AMD, 2 cores, 23 GB since 2026-03-05 12:00 UTC"
    ]


def test_a_late_suite_is_one_incident_until_it_reports_again(store: Store) -> None:
    last = upload_nightly_reports(store)
    for hour in range(3):
        monitor_headlines(store, last + 3 * DAY + hour * HOUR)

    upload_report(store, last + 4 * DAY)
    monitor_headlines(store, last + 4 * DAY)

    [record] = load_data_incidents(store)
    assert (record.state, record.gone_at) == (IncidentState.FIXED, last + 4 * DAY)


def test_a_weekend_without_reports_is_not_missing_data(store: Store) -> None:
    for day in (0, 1, 2, 5, 6, 7):
        upload_report(store, NOON + day * DAY)

    assert monitor_headlines(store, NOON + 10 * DAY) == []


@pytest.mark.parametrize("days", [1, 2, 3])
def test_three_reports_are_too_few_to_learn_an_interval(store: Store, days: int) -> None:
    upload_nightly_reports(store, days)

    assert monitor_headlines(store, NOON + 100 * DAY) == []


def test_a_machine_with_all_suites_late_is_one_incident(store: Store) -> None:
    for suite in ("nightly", "memory", "compile"):
        last = upload_nightly_reports(store, suite=suite)

    assert monitor_headlines(store, last + 3 * DAY) == [
        "AMD, 2 cores, 23 GB has not reported anything since 2026-03-05 12:00 UTC"
    ]


def test_a_suite_that_was_late_before_its_machine_died_stays_open(store: Store) -> None:
    last = upload_nightly_reports(store)
    for day in range(8):
        upload_report(store, NOON + day * DAY, suite="memory")
    monitor_headlines(store, last + 3 * DAY)

    monitor_headlines(store, last + 9 * DAY)

    assert [delivery.gone_at for delivery in load_data_incidents(store)] == [None, None]


def test_a_finished_branch_is_not_missing_data(store: Store) -> None:
    last = upload_nightly_reports(store, days=8)
    upload_nightly_reports(store, days=5, branch="feature")

    assert monitor_headlines(store, last + DAY) == []


def test_a_clock_jump_opens_at_most_one_incident_an_hour(
    store: Store,
) -> None:
    upload_nightly_reports(store, suite="nightly")
    for day in range(9):
        upload_report(store, NOON + day * DAY, suite="memory")

    monitor_headlines(store, NOON - 30 * DAY)
    before = len(load_data_incidents(store))
    monitor_headlines(store, NOON + 400 * DAY)

    assert (before, len(load_data_incidents(store))) == (1, 2)


def test_one_machine_opens_one_incident_an_hour(store: Store) -> None:
    for suite in ("nightly", "memory"):
        last = upload_nightly_reports(store, suite=suite)
    for day in range(30):
        upload_report(store, NOON + day * DAY, suite="alive")

    counts = []
    for hour in range(3):
        monitor_headlines(store, last + 10 * DAY + hour * HOUR)
        counts.append(len(load_data_incidents(store)))

    assert counts == [1, 2, 2]


def test_vanished_series_are_missing_after_two_reports(store: Store) -> None:
    held = [several_results(1, 2, 3, 4, 5, 6)] * 3 + [several_results(1, 2, 3, 4, 5)] * 2
    for day, results in enumerate(held):
        upload_report(store, NOON + day * DAY, *results)

    assert monitor_headlines(store, NOON + 4 * DAY + HOUR) == [
        "1 series vanished from nightly (main) on AMD, 2 cores, 23 GB"
    ]
    [record] = load_data_incidents(store)
    assert record.series_count == 1


def test_vanished_series_stay_missing_until_they_return(store: Store) -> None:
    watch, held = (
        MissingDataMonitor(),
        [several_results(1, 2, 3, 4, 5, 6)] * 3 + [several_results(1, 2, 3, 4, 5)] * 5,
    )
    for day, results in enumerate(held):
        upload_report(store, NOON + day * DAY, *results)
        monitor_headlines(store, NOON + day * DAY + HOUR, watch)
    [gone] = load_data_incidents(store)

    upload_report(store, NOON + 8 * DAY, *several_results(1, 2, 3, 4, 5, 6))
    monitor_headlines(store, NOON + 8 * DAY, watch)

    [back] = load_data_incidents(store)
    assert (gone.gone_at, back.gone_at) == (None, NOON + 8 * DAY)


def test_a_report_without_a_third_of_its_series_is_incomplete_at_once(store: Store) -> None:
    for day, results in enumerate([several_results(1, 2, 3)] * 4 + [several_results(1, 2)]):
        upload_report(store, NOON + day * DAY, *results)

    assert monitor_headlines(store, NOON + 4 * DAY + HOUR) == [
        "nightly (main) on AMD, 2 cores, 23 GB measures less than before"
    ]


def test_a_report_with_only_failures_opens_an_incident(store: Store) -> None:
    upload_report(store, NOON, *several_results(1, 2, failed=True))

    assert monitor_headlines(store, NOON + HOUR) == [
        "everything failed in nightly (main) on AMD, 2 cores, 23 GB"
    ]


def test_a_report_still_arriving_is_not_examined(store: Store) -> None:
    upload_report(store, NOON, *several_results(1, failed=True))

    assert monitor_headlines(store, NOON + HOUR - timedelta(seconds=1)) == []


def test_a_metric_unresolved_for_a_week_opens_an_incident(store: Store) -> None:
    upload_report(store, NOON)
    with store.begin() as tx:
        row = ("score", {"found": {}, "result": {}}, "the unit of score is not known")
        unresolved_results.add_unresolved_results(tx, f"{NOON} nightly main AMD", "pytorch", [row], NOON)

    assert monitor_headlines(store, NOON + 6 * DAY) == []
    assert monitor_headlines(store, NOON + 8 * DAY) == ["score of pytorch is measured, but not judged"]


def test_a_person_may_set_the_interval_of_a_suite_or_mute_it(store: Store) -> None:
    last = upload_nightly_reports(store)
    monitor_headlines(store, last)
    project = a_project(store)
    with store.begin() as tx:
        [schedule] = reporting_schedules_and_run_arrivals.load_reporting_schedules(tx, project.id)
        assert reporting_schedules_and_run_arrivals.set_reporting_schedule(
            tx, project.id, schedule.id, every_s=3600.0, muted=False, actor="ada"
        )
    upload_report(store, last + HOUR)

    assert len(monitor_headlines(store, last + 5 * HOUR)) == 1
    with store.begin() as tx:
        reporting_schedules_and_run_arrivals.set_reporting_schedule(
            tx, project.id, schedule.id, every_s=3600.0, muted=True, actor="ada"
        )
    assert monitor_headlines(store, last + 5 * HOUR) == []


def test_runs_of_pull_requests_are_not_reports(store: Store) -> None:
    for day in range(9):
        at = NOON + day * DAY
        with store.begin() as tx:
            run = a_run(
                a_result_of(1, cpu="AMD EPYC"), commit=a_commit(day + 1), session=f"{day}", started_at=at
            )
            ingest_run(tx, run, f"{day}", "body", kind="compare" if day % 2 else "import")

    with store.read() as tx:
        assert reporting_schedules_and_run_arrivals.load_run_arrivals(tx, a_project(store).id) == {}
    assert monitor_headlines(store, NOON + 90 * DAY) == []


def test_the_judge_worker_monitors_every_project(store: Store) -> None:
    last = upload_nightly_reports(store)

    PeriodicJobs(store, lambda project: ProjectPolicies())(last + 3 * DAY)

    assert [delivery.kind for delivery in load_data_incidents(store)] == ["data"]


def test_runs_within_an_hour_of_the_first_are_one_report() -> None:
    arrivals = [RunArrival(n, NOON + n * timedelta(minutes=25)) for n in range(4)]

    assert [report.run_ids for report in find_missing_data.group_arrivals_by_time(arrivals)] == [
        (0, 1, 2),
        (3,),
    ]
