"""A document is stored completely, once, and loaded as it was."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_sessions import measured_run, started

from perfci.model import PerfciError, ProcessBoundaries, Run, Status
from perfci.store import Store
from perfci.store.column_conversions import hash_values
from perfci.store.queries import measured_samples, project_counts, runs_and_sessions, series_search
from perfci.store.writes import ingest
from perfci.store.writes.ingest import IngestCounts
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
)
from tests.support.stored_runs import ingest_run


def a_document() -> Run:
    pooled = a_result(
        a_series("suite.time_b"), a_process(1.0, 2.0), boundaries=ProcessBoundaries.POOLED, number=4
    )
    only_summary = a_result(
        a_series("suite.time_c"), summary=a_summary(3.0, ci_lo=2.0, ci_hi=4.0, q25=2.5, n=9)
    )
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
        assert ingest_run(tx, a_document(), "key", "body") is True

    with store.read() as tx:
        assert measured_samples.load_run(tx, 1) == a_document()
        assert [session.state for session in runs_and_sessions.load_sessions(tx, PROJECT)] == ["finished"]


def test_the_same_document_again_changes_nothing(store: Store) -> None:
    for new in (True, False):
        with store.begin() as tx:
            assert ingest_run(tx, a_document(), "key", "body") is new

    with store.read() as tx:
        assert project_counts.load_projects_with_counts(tx)[0].runs == 1
        assert project_counts.load_projects_with_counts(tx)[0].processes == 3


def test_the_same_key_with_another_body_is_refused_whole(store: Store) -> None:
    with store.begin() as tx:
        ingest_run(tx, a_document(), "key", "body")

    with pytest.raises(PerfciError, match="stored already with other content"), store.begin() as tx:
        ingest.ingest_runs(
            tx, [(a_run(commit=a_commit(2)), "fresh", "x"), (a_document(), "key", "another body")]
        )

    with store.read() as tx:
        assert project_counts.load_projects_with_counts(tx)[0].runs == 1


def test_the_document_of_a_run_measured_here_is_recognized(store: Store) -> None:
    started(store)
    run_id = measured_run(store, (a_series(), a_process()))
    with store.read() as tx:
        document = measured_samples.load_run(tx, run_id)

    with store.begin() as tx:
        assert ingest_run(tx, document, "key", "body") is False


def test_a_session_of_another_project_is_refused(store: Store) -> None:
    started(store)

    with pytest.raises(PerfciError, match="belongs to another project"), store.begin() as tx:
        ingest_run(tx, a_run(project="acme/other"), "key", "body")


def test_a_run_with_two_results_of_one_series_is_refused(store: Store) -> None:
    with pytest.raises(PerfciError, match="holds two results of training"), store.begin() as tx:
        ingest_run(tx, a_run(a_result(), a_result()), "key", "body")


def test_a_file_that_has_grown_adds_only_what_is_new(store: Store) -> None:
    old, new = a_result(a_series("suite.time_a")), a_result(a_series("suite.time_b"))
    measured_again = a_result(a_series("suite.time_a"), a_process(7.0))

    counts = []
    for body, results in (("1", [old]), ("2", [old, new]), ("2", [old, new]), ("3", [measured_again, new])):
        with store.begin() as tx:
            counts.append(
                ingest.ingest_runs(tx, [(a_run(*results, origin=(("source", "a.json"),)), "key", body)])
            )

    assert [(count.runs_new, count.values) for count in counts] == [(1, 1), (1, 1), (0, 0), (1, 1)]
    with store.read() as tx:
        records = {
            record.series.benchmark.name: record.id for record in series_search.search_series(tx, PROJECT)
        }
        points = [
            measured_samples.load_history(tx, records[name])[0] for name in ("suite.time_a", "suite.time_b")
        ]
    assert [[process.samples for process in point.processes] for point in points] == [
        [(1.0,), (7.0,)],
        [(1.0,)],
    ]


def test_a_file_that_an_older_version_stored_is_known(store: Store) -> None:
    file = a_run(a_result(), origin=(("source", "s" * 64),))
    with store.begin() as tx:
        ingest_run(tx, replace(file, origin=()), "s" * 64, "body")  # its key was what is the source now

    with store.begin() as tx:
        counts = ingest.ingest_runs(tx, [(file, "key", "body")])

    assert (counts.runs_new, counts.runs_known) == (0, 1)


def test_a_file_of_another_origin_with_equal_results_adds_nothing(store: Store) -> None:
    counts = []
    for attempt in "12":
        run = a_run(a_result(), origin=(("source", "s" * 64), ("attempt", attempt)))
        with store.begin() as tx:
            counts.append(ingest.ingest_runs(tx, [(run, "key", f"body {attempt}")]).runs_new)

    assert counts == [1, 0]


def test_stores_a_stream_longer_than_a_batch_completely(store: Store) -> None:
    numbers = range(1, 2 * ingest.BATCH_SIZE + 3)
    runs = ((a_run(a_result(), commit=a_commit(number)), str(number), "body") for number in numbers)

    with store.begin() as tx:
        counts = ingest.ingest_runs(tx, itertools.chain(runs, [(a_run(a_result()), "1", "body")]))

    assert counts == IngestCounts(
        runs_new=len(numbers), runs_known=1, values=len(numbers), samples=len(numbers)
    )
    with store.read() as tx:
        assert len(measured_samples.load_history(tx, 1)) == len(numbers)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
sample_lists = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    names=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)),
    samples=sample_lists,
)
def test_any_names_and_numbers_survive_the_store(
    store: Store, names: list[str], samples: list[float]
) -> None:
    parameters = {name: name[::-1] for name in names}
    run = a_run(a_result(a_series(parameters=parameters), a_process(*samples)))
    key = hash_values(names, samples)

    with store.begin() as tx:
        ingest_run(tx, run, key, "body")

    with store.read() as tx:
        newest = runs_and_sessions.load_runs_of_commit(tx, PROJECT, a_sha(1))[0].id
        assert measured_samples.load_run(tx, newest) == run
