"""The CSV export has the promised columns, a row for each point, and the same bytes every time."""

from __future__ import annotations

import csv as standard
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from asv_builders import AsvFolder, a_row

from perfci.formats import history_csv_writer
from perfci.model import Clock, Result, Status
from perfci.service.export_history import iter_points_in_sha_order
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store, open_store
from tests.support.builders import (
    PROJECT,
    a_commit,
    a_failed_process,
    a_machine,
    a_pair,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_variant,
)
from tests.support.stored_runs import ingest_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        yield store


def ingested(store: Store, number: int, *results: Result, kind: str = "import") -> None:
    with store.begin() as tx:
        run = a_run(*results, commit=a_commit(number), session=kind)
        ingest_run(tx, run, f"{kind} {number}", "body", kind=kind)


def exported(store: Store, *, samples: bool = False) -> str:
    return "".join(
        history_csv_writer.iter_history_csv_lines(
            iter_points_in_sha_order(store, PROJECT), PROJECT, samples=samples
        )
    )


def rows(text: str) -> list[dict[str, str]]:
    return list(standard.DictReader(text.splitlines()))


def test_a_point_is_a_row_of_exactly_these_columns(store: Store) -> None:
    series = a_series(parameters={"n": "8", "dtype": "'bf16'"}, variant=a_variant(python="3.12"))
    ingested(
        store,
        1,
        a_result(series, a_process(0.1, 0.3, 0.2), a_process(0.4, index=1), a_failed_process(index=2)),
    )

    assert exported(store) == (
        "project,commit,committed_at,benchmark,version,parameters,metric,unit,direction,machine,variant,"
        "status,value,ci_lo,ci_hi,processes,samples,invalid\n"
        f"acme/model,{a_sha(1)},2026-03-01T13:00:00.000Z,training.Step.time_step,1,"
        '"{""n"":""8"",""dtype"":""\'bf16\'""}",time,seconds,lower,'
        '"{""cpu"":""AMD EPYC"",""cores"":2,""memory_gb"":23}","{""python"":""3.12""}",'
        "ok,0.30000000000000004,,,2,4,\n"
    )


def test_a_failed_point_has_no_value(store: Store) -> None:
    ingested(store, 1, a_result(a_series(), a_failed_process(Status.OOM), status=Status.OOM))

    [row] = rows(exported(store))

    assert (row["status"], row["value"], row["processes"], row["samples"]) == ("oom", "", "0", "")


def test_cpu_time_is_exported_as_it_is_judged(store: Store) -> None:
    ingested(store, 1, a_result(a_series(), a_process(1.0, 2.0, 3.0, 4.0, 5.0, clock=Clock.CPU)))

    assert rows(exported(store))[0]["value"] == "2.0"


def test_an_imported_value_keeps_its_interval_and_claims_no_processes(store: Store, tmp_path: Path) -> None:
    folder = AsvFolder(tmp_path / "results")
    folder.result({"suite.time_it": a_row([1.1], samples=[[1.0, 1.1, 1.3]], ci_99_a=[0.9], ci_99_b=[1.3])})
    import_file_or_folder(store, folder.path, "asv", PROJECT)

    [row] = rows(exported(store))

    cells = [row[name] for name in ("value", "ci_lo", "ci_hi", "processes", "samples", "machine")]
    assert cells == ["1.1", "0.9", "1.3", "", "3", '{"name":"runner"}']


def test_rows_are_sorted_and_do_not_depend_on_the_order_of_arrival(tmp_path: Path) -> None:
    results = [
        a_result(a_series(name, metric, machine=a_machine(cores=cores)), a_process(1.0))
        for name in ("b", "a")
        for metric in ("time", "memory")
        for cores in (4, 2)
    ]
    texts = []
    for order in (1, -1):
        with closing(open_store(f"sqlite:///{tmp_path}/{order}.db", create=True)) as store:
            for number in (3, 1, 2)[::order]:
                ingested(store, number, *results[::order])
            texts.append(exported(store))

    assert texts[0] == texts[1]
    names = ("commit", "benchmark", "version", "parameters", "metric", "machine", "variant")
    keys = [tuple(row[name] for name in names) for row in rows(texts[0])]
    assert keys == sorted(set(keys))
    assert len(keys) == 24


def test_samples_are_a_row_each_with_the_process_that_took_them(store: Store) -> None:
    ingested(
        store,
        1,
        a_result(a_series(), a_process(1.0, 2.0, index=0, round=5), a_process(3.0, index=1, order=2)),
    )

    sample_rows = rows(exported(store, samples=True))

    names = ("process", "role", "pair", "round", "order", "place", "sample")
    assert [[row[name] for name in names] for row in sample_rows] == [
        ["0", "history", "", "5", "0", "0", "1.0"],
        ["0", "history", "", "5", "0", "1", "2.0"],
        ["1", "history", "", "0", "2", "0", "3.0"],
    ]
    assert {row["value"] for row in sample_rows} == {"2.25"}


def test_what_a_pull_request_measured_is_not_exported(store: Store) -> None:
    ingested(store, 1, a_result(a_series(), *a_pair(0, 1.0, 2.0)), kind="compare")

    assert rows(exported(store)) == []
