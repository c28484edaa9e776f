"""What goes in comes out, exactly and once; what differs stays apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_commit,
    a_failed_process,
    a_machine,
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfci.model import (
    Boundaries,
    Clock,
    PerfciError,
    Process,
    Role,
    Run,
    Series,
    Stage,
    Status,
    VerdictKind,
)
from perfci.store import Store, reads, values, writes
from perfci.store.tables import UtcMs
from perfci.store.writes import Counts


def started(store: Store, uid: str = "session-1", kind: str = "history", spec_hash: str = "plan") -> None:
    with store.begin() as tx:
        writes.start_session(tx, PROJECT, uid, kind, spec_hash, 7, 3, NOON)


def measured_run(store: Store, *measured: tuple[Series, Process], run: Run | None = None) -> int:
    with store.begin() as tx:
        run_id = writes.add_run(tx, run or a_run())
        writes.add_processes(tx, run_id, measured)
    return run_id


def stored_processes(store: Store, uid: str = "session-1") -> list[Process]:
    with store.read() as tx:
        return [one.process for one in reads.session_processes(tx, uid)]


def test_a_process_comes_back_as_it_was_stored(store: Store) -> None:
    started(store)
    process = Process(
        index=3,
        role=Role.HEAD,
        status=Status.OK,
        samples=(0.1, 1e-300, 5e-324, -0.0, 1.7976931348623157e308, 2**53 + 1.0),
        clock=Clock.CPU,
        pair=0,
        round=2,
        order=5,
        started_at=datetime(2026, 3, 1, 12, 0, 0, 123_000, tzinfo=UTC),
        duration_s=0.1 + 0.2,
        reason="",
        exit_code=-11,
        stderr_tail="warning: slow\n",
        flags=("throttled: SM clock at 60 %", "shared_gpu: 2 other processes"),
    )

    measured_run(store, (a_series(), process))

    assert stored_processes(store) == [process]
    assert math.copysign(1, stored_processes(store)[0].samples[3]) == -1


@pytest.mark.parametrize("clock", Clock)
def test_every_clock_comes_back_as_it_was_stored(store: Store, clock: Clock) -> None:
    started(store)

    measured_run(store, (a_series(), a_process(clock=clock)))

    assert [process.clock for process in stored_processes(store)] == [clock]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_samples_are_exact(samples: list[float]) -> None:
    assert list(map(float.hex, values.unpack(values.pack(samples)))) == list(map(float.hex, samples))


@settings(deadline=None, derandomize=True)
@given(st.datetimes(timezones=st.just(UTC)))
def test_times_are_exact_to_the_millisecond(moment: datetime) -> None:
    column: Any = UtcMs()
    stored = column.process_bind_param(moment, None)
    back = column.process_result_value(stored, None)

    assert timedelta(0) <= moment - back < timedelta(milliseconds=1)


def test_a_failed_process_keeps_what_is_known_of_its_end(store: Store) -> None:
    started(store)
    failed = a_failed_process(Status.OOM, reason="killed by the kernel for memory", exit_code=-9)

    measured_run(store, (a_series(), failed))

    assert stored_processes(store) == [failed]


def test_text_that_is_no_text_does_not_lose_the_process(store: Store) -> None:
    started(store)

    measured_run(store, (a_series(), a_failed_process(stderr_tail="half \ud83d of it\x00, grün")))

    assert stored_processes(store)[0].stderr_tail == "half ? of it\ufffd, grün"


def test_metrics_of_one_process_share_its_index(store: Store) -> None:
    started(store)

    measured_run(store, (a_series(metric="time"), a_process(1.0)), (a_series(metric="memory"), a_process(5.0)))

    with store.read() as tx:
        found = reads.session_processes(tx, "session-1")
    assert [(one.series.metric.name, one.process.index) for one in found] == [("time", 0), ("memory", 0)]


def test_ids_come_back_in_the_order_of_the_processes(store: Store) -> None:
    started(store)
    measured = [(a_series(metric=f"metric {number}"), a_process(float(number))) for number in range(20)]

    with store.begin() as tx:
        ids = writes.add_processes(tx, writes.add_run(tx, a_run()), measured)

    with store.read() as tx:
        by_id = {one.id: one.process.samples for one in reads.session_processes(tx, "session-1")}
    assert [by_id[row_id] for row_id in ids] == [(float(number),) for number in range(20)]


@pytest.mark.parametrize(
    "changes",
    [{}, {"pair": 1}, {"round": None, "order": None}, {"role": Role.BASE, "pair": 1, "round": None}],
    ids=["round", "pair", "neither", "base"],
)
def test_the_same_process_cannot_be_stored_twice(store: Store, changes: dict[str, Any]) -> None:
    started(store)
    process = a_process(**changes)
    run_id = measured_run(store, (a_series(), process))

    with pytest.raises(PerfciError, match="This process is stored already"), store.begin() as tx:
        writes.add_processes(tx, run_id, [(a_series(), process)])

    assert stored_processes(store) == [process]


@pytest.mark.parametrize("change", [{"pair": 1}, {"round": 1}, {"order": 1}, {"index": 1}, {"role": Role.BASE}])
def test_processes_that_differ_in_one_place_are_both_kept(store: Store, change: dict[str, Any]) -> None:
    started(store)

    measured_run(store, (a_series(), a_process()), (a_series(), a_process(**change)))

    assert len(stored_processes(store)) == 2


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ([Status.FAILED, Status.OK, Status.FAILED], Status.OK),
        ([Status.FAILED, Status.TIMEOUT], Status.TIMEOUT),
        ([Status.OK, Status.OOM], Status.OK),
    ],
)
def test_a_result_is_ok_once_any_process_is_else_the_latest_counts(
    store: Store, ends: list[Status], status: Status
) -> None:
    started(store)

    for index, end in enumerate(ends):
        process = a_process(index=index) if end is Status.OK else a_failed_process(end, index=index)
        measured_run(store, (a_series(), process))

    with store.read() as tx:
        assert reads.history(tx, 1)[0].status is status


def series_that_differ_in_one_coordinate() -> Iterable[Series]:
    yield a_series()
    yield a_series("training.Step.time_other")
    yield a_series(version="2")
    yield a_series(parameters={"n": "1"})
    yield a_series(parameters={"n": "2"})
    yield a_series(parameters={"n": "1", "m": "2"})
    yield a_series(parameters={"m": "2", "n": "1"})
    yield a_series(parameters={"n": "1, m=2"})
    yield a_series(metric="cpu_time")
    yield a_series(unit="ms")
    yield a_series(direction="higher")
    yield a_series(machine=a_machine("Intel"))
    yield a_series(machine=a_machine(cores=4))
    yield a_series(machine=a_machine(cores=None))
    yield a_series(machine=a_machine(memory_gb=24))
    yield a_series(machine=a_machine(accelerator="NVIDIA H200", accelerators=1))
    yield a_series(machine=a_machine(accelerator="NVIDIA H200", accelerators=2))
    yield a_series(machine=a_machine(name="ubuntu-latest"))
    yield a_series(variant=a_variant(python="3.11"))
    yield a_series(variant=a_variant(python="3.12"))
    yield a_series(variant=a_variant(python="3.12", numpy=""))
    yield a_series(harness="perfci/2")


def test_no_two_series_become_one(store: Store) -> None:
    different = list(series_that_differ_in_one_coordinate())
    started(store)

    run_id = measured_run(store, *((one, a_process()) for one in different))

    with store.read() as tx:
        assert {record.series for record in reads.series_of_project(tx, PROJECT)} == set(different)
        assert len({result.series for result in reads.load_run(tx, run_id).results}) == len(different)


def test_the_same_series_of_two_projects_stays_apart(store: Store) -> None:
    with store.begin() as tx:
        for project in ("acme/model", "acme/other"):
            writes.ingest_run(tx, a_run(a_result(), project=project, session=project), project, "body")

    with store.read() as tx:
        ids = [reads.series_of_project(tx, project)[0].id for project in ("acme/model", "acme/other")]
        assert [len(reads.history(tx, row_id)) for row_id in ids] == [1, 1]
    assert ids[0] != ids[1]


def test_a_run_that_starts_again_goes_on_with_the_same_row(store: Store) -> None:
    started(store)

    with store.begin() as tx:
        first = writes.add_run(tx, a_run())
        again = writes.add_run(tx, a_run(started_at=NOON + timedelta(hours=1)))

    assert again == first


@pytest.mark.parametrize(
    "change",
    [
        {"commit": a_commit(2)},
        {"commit": a_commit(1, dirty=True)},
        {"machine": a_machine("Intel")},
        {"environment": an_environment(torch="2.12.0")},
        {"variant": a_variant(compile="on")},
        {"suite": "other"},
        {"harness": "perfci/2"},
        {"session": "session-2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_runs_that_differ_in_one_place_are_two(store: Store, change: dict[str, Any]) -> None:
    started(store)
    started(store, "session-2")

    with store.begin() as tx:
        assert writes.add_run(tx, a_run()) != writes.add_run(tx, a_run(**change))


def test_a_run_brings_the_results_it_carries_once(store: Store) -> None:
    started(store)
    unbuilt = a_result(a_series(), status=Status.FAILED, reason="the commit does not build", processes=())
    run = replace(a_run(), results=(replace(unbuilt, processes=()),))

    for _ in range(2):
        with store.begin() as tx:
            run_id = writes.add_run(tx, run)

    with store.read() as tx:
        assert reads.load_run(tx, run_id) == run


def test_a_run_needs_its_session(store: Store) -> None:
    with pytest.raises(PerfciError, match="There is no session session-1"), store.begin() as tx:
        writes.add_run(tx, a_run())


def test_processes_need_their_run(store: Store) -> None:
    with pytest.raises(PerfciError, match="There is no run 17"), store.begin() as tx:
        writes.add_processes(tx, 17, [(a_series(), a_process())])


def test_measured_names_every_stored_cell(store: Store) -> None:
    started(store)
    cell = a_series(parameters={"n": "8", "dtype": "'bf16'"})

    measured_run(
        store,
        (a_series(metric="time"), a_process(round=1)),
        (a_series(metric="memory"), a_process(round=1)),
        (cell, a_failed_process(round=None, pair=4, role=Role.HEAD)),
    )

    with store.read() as tx:
        assert writes.measured(tx, "session-1") == {
            (a_sha(1), "training.Step.time_step", 1, None, "history"),
            (a_sha(1), "training.Step.time_step(8, 'bf16')", None, 4, "head"),
        }
        assert writes.measured(tx, "session-2") == set()


def test_an_interrupted_session_is_found_by_its_plan_until_it_finishes(store: Store) -> None:
    started(store, "old")
    with store.begin() as tx:
        writes.start_session(tx, PROJECT, "new", "history", "plan", 2**64 - 1, 3, NOON + timedelta(hours=1))

    with store.begin() as tx:
        found = writes.unfinished_session(tx, PROJECT, "plan")
        assert found is not None
        writes.finish_session(tx, found.uid, NOON + timedelta(hours=2))
        older = writes.unfinished_session(tx, PROJECT, "plan")

    assert (found.uid, found.seed, found.rounds, found.state) == ("new", 2**64 - 1, 3, "running")
    assert older is not None
    assert older.uid == "old"
    with store.read() as tx:
        assert writes.unfinished_session(tx, PROJECT, "another plan") is None
        assert writes.unfinished_session(tx, "acme/other", "plan") is None
        assert [session.state for session in reads.sessions(tx, PROJECT)] == ["finished", "running"]


def test_a_session_name_is_used_once(store: Store) -> None:
    started(store)

    with pytest.raises(PerfciError, match="session-1 exists already"):
        started(store)


def test_finishing_a_session_that_never_started_is_an_error(store: Store) -> None:
    with pytest.raises(PerfciError, match="There is no session nowhere"), store.begin() as tx:
        writes.finish_session(tx, "nowhere", NOON)


def a_document() -> Run:
    pooled = a_result(a_series("suite.time_b"), a_process(1.0, 2.0), boundaries=Boundaries.POOLED, number=4)
    only_summary = a_result(a_series("suite.time_c"), summary=a_summary(3.0, ci_lo=2.0, ci_hi=4.0, q25=2.5, n=9))
    skipped = a_result(a_series("suite.time_d"), status=Status.SKIPPED, reason="needs a GPU")
    return a_run(
        a_result(a_series("suite.time_a"), a_process(1.0), a_process(2.0, index=1)),
        pooled,
        replace(only_summary, processes=()),
        replace(skipped, processes=()),
        origin=(("run_id", "17"), ("attempt", "1")),
        finished_at=NOON + timedelta(minutes=5),
    )


def test_an_ingested_run_comes_back_as_it_was(store: Store) -> None:
    with store.begin() as tx:
        assert writes.ingest_run(tx, a_document(), "key", "body") is True

    with store.read() as tx:
        assert reads.load_run(tx, 1) == a_document()
        assert [session.state for session in reads.sessions(tx, PROJECT)] == ["finished"]


def test_the_same_document_again_changes_nothing(store: Store) -> None:
    for new in (True, False):
        with store.begin() as tx:
            assert writes.ingest_run(tx, a_document(), "key", "body") is new

    with store.read() as tx:
        assert reads.projects(tx)[0].runs == 1
        assert reads.projects(tx)[0].processes == 3


def test_the_same_key_with_another_body_is_refused_whole(store: Store) -> None:
    with store.begin() as tx:
        writes.ingest_run(tx, a_document(), "key", "body")

    with pytest.raises(PerfciError, match="stored already with other content"), store.begin() as tx:
        writes.ingest_runs(tx, [(a_run(commit=a_commit(2)), "fresh", "x"), (a_document(), "key", "another body")])

    with store.read() as tx:
        assert reads.projects(tx)[0].runs == 1


def test_a_run_measured_here_is_known_when_its_document_comes_back(store: Store) -> None:
    started(store)
    run_id = measured_run(store, (a_series(), a_process()))
    with store.read() as tx:
        document = reads.load_run(tx, run_id)

    with store.begin() as tx:
        assert writes.ingest_run(tx, document, "key", "body") is False


def test_a_session_of_another_project_is_refused(store: Store) -> None:
    started(store)

    with pytest.raises(PerfciError, match="belongs to another project"), store.begin() as tx:
        writes.ingest_run(tx, a_run(project="acme/other"), "key", "body")


def test_a_run_with_two_results_of_one_series_is_refused(store: Store) -> None:
    with pytest.raises(PerfciError, match="holds two results of training"), store.begin() as tx:
        writes.ingest_run(tx, a_run(a_result(), a_result()), "key", "body")


def test_a_file_that_has_grown_adds_only_what_is_new(store: Store) -> None:
    old, new = a_result(a_series("suite.time_a")), a_result(a_series("suite.time_b"))
    measured_again = a_result(a_series("suite.time_a"), a_process(7.0))

    counts = []
    for body, results in (("1", [old]), ("2", [old, new]), ("2", [old, new]), ("3", [measured_again, new])):
        with store.begin() as tx:
            counts.append(writes.ingest_runs(tx, [(a_run(*results), "key", body)], changed="add"))

    assert [(one.runs_new, one.values) for one in counts] == [(1, 1), (1, 1), (0, 0), (1, 1)]
    with store.read() as tx:
        records = {record.series.benchmark.name: record.id for record in reads.series_of_project(tx, PROJECT)}
        points = [reads.history(tx, records[name])[0] for name in ("suite.time_a", "suite.time_b")]
    assert [[process.samples for process in point.processes] for point in points] == [[(1.0,), (7.0,)], [(1.0,)]]


def test_a_stream_longer_than_a_batch_is_stored_whole(store: Store) -> None:
    numbers = range(1, 2 * writes.BATCH + 3)
    runs = ((a_run(a_result(), commit=a_commit(number)), str(number), "body") for number in numbers)

    with store.begin() as tx:
        counts = writes.ingest_runs(tx, itertools.chain(runs, [(a_run(a_result()), "1", "body")]))

    assert counts == Counts(runs_new=len(numbers), runs_known=1, values=len(numbers), samples=len(numbers))
    with store.read() as tx:
        assert len(reads.history(tx, 1)) == len(numbers)


def test_a_newer_verdict_supersedes_the_older_on_the_same_question(store: Store) -> None:
    started(store)
    screening = a_verdict(stage=Stage.SCREENING, kind=VerdictKind.INCONCLUSIVE, interval=None, pairs_to_decide=6)
    other_question = a_verdict(head=a_sha(3))

    with store.begin() as tx:
        old, other = writes.add_verdicts(tx, PROJECT, "session-1", [screening, other_question], NOON)
        [new] = writes.add_verdicts(tx, PROJECT, "session-1", [a_verdict()], NOON + timedelta(hours=1))

    with store.read() as tx:
        current = reads.verdict_records(tx, PROJECT)
        everything = {one.id: one for one in reads.verdict_records(tx, PROJECT, current_only=False)}
    assert [one.id for one in current] == [new, other]
    assert current[0].verdict == a_verdict()
    assert everything[old].verdict == screening
    assert everything[old].superseded_by == new


def test_change_points_of_a_series_are_replaced_as_a_whole(store: Store) -> None:
    first, second, elsewhere = (
        a_change_point(),
        a_change_point(commit=a_sha(5)),
        a_change_point(a_series(metric="memory")),
    )
    with store.begin() as tx:
        writes.replace_change_points(tx, PROJECT, a_series(), [first])
        writes.replace_change_points(tx, PROJECT, elsewhere.series, [elsewhere])
        writes.replace_change_points(tx, PROJECT, a_series(), [second, first])

    with store.read() as tx:
        assert reads.change_points(tx, PROJECT) == [elsewhere, second, first]
        assert reads.change_points(tx, PROJECT, series_id=1) == [second, first]
    with store.begin() as tx:
        writes.replace_change_points(tx, PROJECT, a_series(), [])
        assert reads.change_points(tx, PROJECT) == [elsewhere]


def test_git_completes_a_commit_that_an_import_knew_by_date_only(store: Store) -> None:
    with store.begin() as tx:
        writes.upsert_commits(tx, PROJECT, [an_imported_commit(3, committed_at=NOON)])
        writes.upsert_commits(tx, PROJECT, [a_commit(3), a_commit(4)])
        writes.upsert_commits(tx, PROJECT, [an_imported_commit(3, committed_at=NOON)])

    with store.read() as tx:
        assert reads.commits(tx, PROJECT) == [a_commit(4), a_commit(3)]


def test_a_commit_gains_branch_tags_and_position(store: Store) -> None:
    with store.begin() as tx:
        writes.upsert_commits(tx, PROJECT, [a_commit(1, branch="topic", position=None)])
        writes.upsert_commits(tx, PROJECT, [a_commit(1, branch="main", tags=("v1",), position=40)])

    with store.read() as tx:
        assert reads.commits(tx, PROJECT) == [a_commit(1, branch="main", tags=("v1",), position=40)]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
sample_lists = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5)


@settings(deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)), samples=sample_lists
)
def test_any_names_and_numbers_survive_the_store(store: Store, names: list[str], samples: list[float]) -> None:
    parameters = {name: name[::-1] for name in names}
    run = a_run(a_result(a_series(parameters=parameters), a_process(*samples)))
    key = values.identity(names, samples)

    with store.begin() as tx:
        writes.ingest_run(tx, run, key, "body")

    with store.read() as tx:
        newest = reads.runs_of_commit(tx, PROJECT, a_sha(1))[0].id
        assert reads.load_run(tx, newest) == run
