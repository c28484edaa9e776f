"""Generic JSON and CSV files with a name, a unit and a value in each entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from foreign_files import FILES, named, read, read_runs
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.formats import history_csv_writer
from perfci.formats.format_registry import detect_format
from perfci.model import Metric, PerfciError, Process, ProcessBoundaries, Result
from perfci.report.escaping import escape_csv_cell
from perfci.service.export_history import iter_points_in_sha_order
from perfci.store import Store, open_store
from tests.support.builders import (
    PROJECT,
    a_commit,
    a_pair,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_variant,
)
from tests.support.stored_runs import ingest_run

CUSTOM, TABLE = FILES / "generic" / "custom.json", FILES / "csv" / "table.csv"


def test_units_determine_the_direction_and_the_rest_is_unresolved() -> None:
    document, _ = read(CUSTOM, "generic")

    assert [
        (result.series.metric, result.summary and result.summary.value) for result in document.run.results
    ] == [
        (Metric("value", "seconds", "lower"), 0.0125),
        (Metric("value", "bytes/s", "higher"), 250e6),
    ]
    assert [result.reason for result in document.unresolved] == [
        "the direction (lower or higher is better) of cpu in Percent is unknown"
    ]


def test_a_direction_that_is_given_settles_it() -> None:
    document, _ = read(CUSTOM, "generic", direction="lower")

    assert named(document)["cpu · value"].series.metric == Metric("value", "ratio", "lower")
    assert document.unresolved == ()


def test_a_value_that_is_not_a_number_is_reported_and_stored_as_a_failure(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("benchmark,value,unit\nx,1.5,s\ny,fast,s\nz,,s\n")

    document, warnings = read(table, "csv")

    assert [(name, result.status.value) for name, result in named(document).items()] == [
        ("x · value", "ok"),
        ("y · value", "failed"),
        ("z · value", "failed"),
    ]
    assert "'y': the value 'fast' is not a finite number; treated as failed" in warnings
    assert not any("'z'" in result for result in warnings)


def test_a_table_is_a_run_for_each_commit_and_other_columns_are_parameters() -> None:
    runs = list(read_runs(TABLE, "csv", PROJECT))

    assert [(run.commit.sha, run.machine.name, len(run.results)) for run in runs] == [
        (a_sha(1), "h100", 2),
        (a_sha(2), "h100", 1),
    ]
    assert runs[0].results[0].series.parameters == (("batch", "8"),)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        yield store


def exported_and_read(store: Store, tmp_path: Path, *results: Result) -> list[Result]:
    variant = a_variant(python="3.12")
    with store.begin() as tx:
        run = a_run(*results, commit=a_commit(1), variant=variant)
        ingest_run(tx, run, "key", "body")
    path = tmp_path / "export.csv"
    path.write_text(
        "".join(
            history_csv_writer.iter_history_csv_lines(
                iter_points_in_sha_order(store, PROJECT), PROJECT, samples=True, write_name=escape_csv_cell
            )
        ),
        newline="",
    )
    assert detect_format(path) == "csv"
    [reread] = read_runs(path, "csv", PROJECT)
    assert (reread.commit.sha, reread.machine, reread.variant) == (a_sha(1), run.machine, variant)
    return list(reread.results)


def test_our_own_samples_come_back_with_their_processes(store: Store, tmp_path: Path) -> None:
    series = a_series(parameters={"n": "8", "dtype": "'bf16'"}, variant=a_variant(python="3.12"))

    [result] = exported_and_read(
        store, tmp_path, a_result(series, *a_pair(0, 1.0, 1 / 3), a_process(2.0, 3.0, index=2))
    )

    assert [(process.pair, process.role, process.samples) for process in result.processes] == [
        (0, "base", (1.0,)),
        (0, "head", (1 / 3,)),
        (None, "history", (2.0, 3.0)),
    ]
    assert (result.series.parameters, result.series.metric) == (series.parameters, series.metric)


def test_a_name_that_a_spreadsheet_would_run_is_defused_and_comes_back(store: Store, tmp_path: Path) -> None:
    series = a_series('=HYPERLINK("x")', variant=a_variant(python="3.12"))

    [result] = exported_and_read(store, tmp_path, a_result(series, a_process(1.0)))

    assert result.series.benchmark == series.benchmark
    assert '"\'=HYPERLINK(""x"")"' in (tmp_path / "export.csv").read_text()


def test_one_value_a_row_is_a_summary() -> None:
    run = next(read_runs(TABLE, "csv", PROJECT))

    assert {(result.boundaries, result.processes) for result in run.results} == {
        (ProcessBoundaries.UNKNOWN, ())
    }


cells = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp")), min_size=1, max_size=9
)


@settings(deadline=None, max_examples=60)
@given(
    benchmark=cells,
    parameter=cells,
    samples=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
)
def test_any_name_and_number_survives_a_table(
    tmp_path_factory: pytest.TempPathFactory, benchmark: str, parameter: str, samples: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("table")
    with closing(open_store(f"sqlite:///{folder}/perfci.db", create=True)) as store:
        series = a_series(benchmark, parameters={"p": parameter}, variant=a_variant(python="3.12"))

        [result] = exported_and_read(store, folder, a_result(series, Process(0, samples=tuple(samples))))

    assert (result.series.benchmark.name, result.series.parameters) == (benchmark, (("p", parameter),))
    assert result.processes[0].samples == tuple(samples)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a,b\n1,2\n", "has no column benchmark: expected a header with benchmark and value"),
        (b"", "has no column benchmark"),
        (b"benchmark,value\n", "holds no row with a benchmark and a value"),
        (b"benchmark,value\n\xff,1\n", "is not UTF-8 text: invalid start byte at byte 16"),
        (b'benchmark,value\n"a,1\n', "line 1, is damaged: unexpected end of data"),
        (b"benchmark,value\na," + b"1" * 2_000_000, "is damaged: field larger than field limit"),
    ],
)
def test_a_broken_table_is_refused_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)

    with pytest.raises(PerfciError, match=says):
        list(read_runs(tmp_path / "x.csv", "csv", PROJECT))


def test_ragged_rows_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("benchmark,unit,value\na,s,1\nb,s\nc,s,1,2\n")

    document, warnings = read(tmp_path / "x.csv", "csv")

    assert list(named(document)) == ["a · value"]
    assert "a row with more or fewer cells than the header was skipped" in warnings


def test_rows_that_are_marked_invalid_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("benchmark,unit,value,invalid\na,s,1,\nb,s,9,a shared machine\n")

    document, warnings = read(tmp_path / "x.csv", "csv")

    assert list(named(document)) == ["a · value"]
    assert "a row that is marked invalid was left out" in warnings
