"""Files of Google Benchmark 1.7.1, as it wrote them (host name taken out)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_files import FILES, named, read

from perfci.model import Clock, Machine, PerfciError, Status

FOLDER = FILES / "google-benchmark"


def test_repetitions_are_samples_of_one_process() -> None:
    results = named(read(FOLDER / "repetitions.json", "google-benchmark")[0])

    [process] = results["BM_Copy(64) · time"].processes
    assert process.samples == pytest.approx((3.50453e-9, 2.65792e-9, 2.6516e-9), rel=1e-4)
    assert results["BM_Copy(64) · cpu_time"].processes[0].clock is Clock.CPU


def test_rows_that_the_library_computed_are_left_out() -> None:
    results = named(read(FOLDER / "repetitions.json", "google-benchmark")[0])

    assert {label.partition(" ")[0] for label in results} == {
        *("BM_Copy(64)", "BM_Copy(4096)", "BM_Refused", "BM_Sort", "BM_Growth(8)", "BM_Growth(64)"),
    }


def test_a_unit_of_its_own_is_converted() -> None:
    results = named(read(FOLDER / "once.json", "google-benchmark")[0])

    assert results["BM_Sort · time"].processes[0].samples == pytest.approx((1.03397e-6,))


def test_rates_are_shown_beside_the_time() -> None:
    results = named(read(FOLDER / "once.json", "google-benchmark")[0])

    assert results["BM_Sort · items_per_second"].processes[0].clock is Clock.INFORMATIONAL


def test_the_machine_is_its_cpus_and_caches_unless_it_is_named() -> None:
    of_context, warnings = read(FOLDER / "recorded-1.json", "google-benchmark")
    named_machine, _ = read(FOLDER / "recorded-1.json", "google-benchmark", machine="box")

    assert of_context.run.machine == Machine(
        cpu="CPU with L1d 48 KiB, L1i 32 KiB, L2 1024 KiB, L3 32768 KiB", cores=2
    )
    assert named_machine.run.machine == Machine(name="box")
    assert not any("machine" in warning for warning in warnings)


def test_an_error_is_reported() -> None:
    refused = named(read(FOLDER / "once.json", "google-benchmark")[0])["BM_Refused · time"]

    assert (refused.status, refused.reason) == (Status.FAILED, "no such device")


def test_an_authors_counter_is_unresolved() -> None:
    document, _ = read(FOLDER / "repetitions.json", "google-benchmark")

    assert {unresolved.metric for unresolved in document.unresolved} == {"threads_seen"}
    assert document.unresolved[0].result.processes[0].samples == (1.0, 1.0, 1.0)


def test_old_rows_without_a_type_are_recognised_by_their_suffix(tmp_path: Path) -> None:
    rows = [
        {"name": name, "real_time": 2, "cpu_time": 1, "time_unit": "ms"} for name in ("BM_A", "BM_A_mean")
    ]
    (tmp_path / "x.json").write_text(json.dumps({"context": {"num_cpus": 2}, "benchmarks": rows}))

    assert list(named(read(tmp_path / "x.json", "google-benchmark")[0])) == ["BM_A · time", "BM_A · cpu_time"]


def test_named_arguments_are_parameters(tmp_path: Path) -> None:
    row = {"name": "BM_A/size:64/real_time", "real_time": 2.0}
    (tmp_path / "x.json").write_text(json.dumps({"context": {}, "benchmarks": [row]}))

    [result] = read(tmp_path / "x.json", "google-benchmark")[0].run.results

    assert result.series.parameters == (("size", "64"),)


def test_a_list_is_needed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"context": {}, "benchmarks": {}}')

    with pytest.raises(PerfciError, match="is not a file of google-benchmark: it has no list of benchmarks"):
        read(tmp_path / "x.json", "google-benchmark")
