"""Records of PyTorch's benchmark database: foreign ones get units from a table, perfci's are lossless."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_files import FILES, PROJECT, named, read, read_runs
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.formats import metric_identification
from perfci.formats.format_registry import detect_format
from perfci.formats.pytorch import pytorch_writer
from perfci.model import Clock, Metric, PerfciError, ProcessBoundaries, Role, Run, Status
from tests.support.builders import (
    a_commit,
    a_failed_process,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
)

UPSTREAM = FILES / "pytorch" / "json-each-row.json"


def a_record(name: str = "median_ttft_ms", *values: object, **changes: Any) -> dict[str, Any]:
    """Build a record as vLLM's benchmarks write it, with the fields that the uploader adds."""
    return {
        "timestamp": 1_750_000_000,
        "schema_version": "v3",
        "repo": "vllm-project/vllm",
        "head_branch": "refs/heads/main",
        "head_sha": a_sha(7),
        "workflow_id": 17,
        "run_attempt": 1,
        "job_id": 3,
        "runners": [{"name": "h100", "type": "linux.aws.h100", "gpu_info": "NVIDIA H100", "gpu_count": 8}],
        "benchmark": {
            "name": "vLLM benchmark",
            "extra_info": {"args": {"tensor_parallel_size": 8, "port": 8000}},
        },
        "model": {"name": "llama"},
        "metric": {"name": name, "benchmark_values": list(values or (12.5,)), "extra_info": {}},
        **changes,
    }


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    def write(*records: object) -> Path:
        path = tmp_path / "records.json"
        path.write_text(json.dumps(list(records)))
        return path

    return write


def test_upstreams_sample_file_is_read_line_by_line() -> None:
    document, warnings = read(UPSTREAM, "pytorch")

    assert detect_format(UPSTREAM) == "pytorch"
    assert [result.processes[0].samples for result in document.run.results] == [
        (3086359081,),
        (5712213247,),
        (40859830085,),
    ]
    assert "pytorch does not say which commit it measured: assumed to be 00000001cc" in warnings


def test_a_record_names_commit_runner_and_load(stored: Callable[..., Path]) -> None:
    run = read(stored(a_record()), "pytorch")[0].run

    assert (run.commit.sha, run.commit.branch) == (a_sha(7), "main")
    assert run.machine.label == "8x NVIDIA H100"
    assert run.results[0].series.parameters == (("model", "llama"), ("tensor_parallel_size", "8"))


def test_a_unit_in_the_name_is_converted_and_taken_off(stored: Callable[..., Path]) -> None:
    [result] = read(stored(a_record("median_ttft_ms", 12.5)), "pytorch")[0].run.results

    assert result.series.metric == Metric("median_ttft", "seconds", "lower")
    assert (result.processes[0].samples, result.boundaries) == ((0.0125,), ProcessBoundaries.UNKNOWN)


def test_an_unknown_metric_is_unresolved_not_guessed(stored: Callable[..., Path]) -> None:
    document, _ = read(stored(a_record("goodness", 3.0), a_record("latency", 1.0)), "pytorch")

    [unresolved] = document.unresolved
    assert list(named(document)) == ["vLLM benchmark(llama, 8) · latency"]
    assert (unresolved.metric, unresolved.reason) == ("goodness", "the unit of goodness is unknown")
    assert unresolved.result.processes[0].samples == (3.0,)


@pytest.mark.parametrize(
    ("value", "flags"),
    [(2**24, ()), (2**24 + 1, ()), (2**24 + 2, ("float32",)), (3086359081, ()), (3086359040, ("float32",))],
)
def test_a_count_that_may_have_been_rounded_is_flagged(
    stored: Callable[..., Path], value: int, flags: tuple[str, ...]
) -> None:
    [result] = read(stored(a_record("instruction_count", value)), "pytorch")[0].run.results

    assert result.processes[0].flags == flags


def test_each_commit_of_a_file_is_a_run_of_its_own(stored: Callable[..., Path]) -> None:
    path = stored(a_record(), a_record(head_sha=a_sha(8)), a_record("latency"))

    runs = list(read_runs(path, "pytorch", PROJECT))

    assert [(run.commit.sha, len(run.results)) for run in runs] == [(a_sha(7), 2), (a_sha(8), 1)]


def test_the_same_series_twice_is_one_with_more_processes(stored: Callable[..., Path]) -> None:
    [result] = read(stored(a_record("latency", 1.0), a_record("latency", 3.0)), "pytorch")[0].run.results

    assert [process.index for process in result.processes] == [0, 1]
    assert result.summary == a_summary(2.0, n=2)


def test_packed_records_are_read(tmp_path: Path) -> None:
    path = tmp_path / "records.json.gz"
    path.write_bytes(gzip.compress(json.dumps([a_record()]).encode()))

    assert detect_format(path) == "pytorch"
    assert len(read(path, "pytorch")[0].run.results) == 1


@pytest.mark.parametrize(
    "odd", [{"metric": 3}, {"metric": {"benchmark_values": [1]}}, {"runners": 7}, {"model": []}]
)
def test_odd_records_are_left_out_or_read_in_part(stored: Callable[..., Path], odd: dict[str, Any]) -> None:
    runs = list(
        read_runs(stored(a_record("latency", 1.0), a_record("latency", 2.0, **odd)), "pytorch", PROJECT)
    )

    assert 1 <= sum(len(run.results) for run in runs) <= 2


def test_records_without_any_metric_are_refused(stored: Callable[..., Path]) -> None:
    with pytest.raises(PerfciError, match="holds no record with a metric"):
        list(read_runs(stored({}, {"repo": "pytorch/pytorch"}), "pytorch", PROJECT))


def a_full_run() -> Run:
    machine = a_machine(accelerator="NVIDIA H200", accelerators=2)
    pooled = {"processes": (), "summary": a_summary(1.5, q25=1.0), "boundaries": ProcessBoundaries.POOLED}
    series = a_series(machine=machine, parameters={"batch": "8", "dtype": "bf16"})
    return a_run(
        a_result(
            series,
            a_process(1.1, 1 / 3, pair=0, role=Role.BASE, clock=Clock.DEVICE, flags=("clock_drift",)),
            a_process(2.0, index=1, pair=0, role=Role.HEAD),
            number=7,
        ),
        a_result(a_series("mem", "peak_memory", unit="bytes", machine=machine), a_process(2.0**40 + 1)),
        a_result(
            a_series("bad", machine=machine), a_failed_process(), status=Status.FAILED, reason="no such layer"
        ),
        a_result(a_series("skip", machine=machine), status=Status.SKIPPED, processes=(), reason="no GPU"),
        a_result(a_series("old", machine=machine), **pooled),
        machine=machine,
        commit=a_commit(3, tags=("v1",)),
        origin=(("run_id", "17"), ("attempt", "1"), ("job", "bench")),
    )


def through_their_database(content: bytes) -> bytes:
    """Convert records to what ClickHouse returns: Float32 values, and maps of strings."""
    records = json.loads(content)
    for record in records:
        values = record["metric"]["benchmark_values"]
        record["metric"]["benchmark_values"] = [float(np.float32(value)) for value in values]
        assert all(isinstance(value, str) for value in record["metric"]["extra_info"].values())
        assert all(isinstance(value, str) for value in record["benchmark"]["extra_info"].values())
    return json.dumps(records).encode()


def round_trip(run: Run, tmp_path: Path) -> tuple[list[Run], list[str]]:
    warnings: list[str] = []
    path = tmp_path / "ours.json"
    path.write_bytes(through_their_database(b"".join(pytorch_writer.serialize_runs([run], warnings.append))))
    return list(read_runs(path, "pytorch", run.project)), warnings


def test_a_run_comes_back_whole_even_from_their_database(tmp_path: Path) -> None:
    reread, warnings = round_trip(a_full_run(), tmp_path)

    assert reread == [a_full_run()]
    assert warnings == [pytorch_writer.ROUNDED_NOTE, pytorch_writer.NO_VALUES_NOTE]


numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e38, max_value=1e38)


@settings(deadline=None)
@given(samples=st.lists(st.lists(numbers, min_size=1, max_size=4), min_size=1, max_size=3))
def test_all_samples_come_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, samples: list[list[float]]
) -> None:
    processes = [a_process(*process_samples, index=place) for place, process_samples in enumerate(samples)]

    [run], _ = round_trip(a_run(a_result(a_series(), *processes)), tmp_path_factory.mktemp("trip"))

    assert run.results[0].processes == tuple(processes)


def test_no_runs_are_an_empty_array() -> None:
    assert b"".join(pytorch_writer.serialize_runs([], [].append)) == b"[]\n"


def test_a_damaged_perfci_record_is_reported(tmp_path: Path) -> None:
    records = json.loads(b"".join(pytorch_writer.serialize_runs([a_full_run()], [].append)))
    del records[0]["metric"]["extra_info"]["result"]
    (tmp_path / "x.json").write_text(json.dumps(records))

    with pytest.raises(PerfciError, match="holds a record of perfci that is damaged"):
        list(read_runs(tmp_path / "x.json", "pytorch", PROJECT))


@pytest.mark.parametrize(
    ("name", "unit", "metric", "of_one"),
    [
        ("token_per_sec", "", Metric("token_per_sec", "tokens/s", "higher"), 1.0),
        ("model_load_time(ms)", "", Metric("model_load_time", "seconds", "lower"), 0.001),
        ("dynamo_peak_mem", "", Metric("dynamo_peak_mem", "bytes", "lower"), 1e9),
        ("helion_speedup", "", Metric("helion_speedup", "ratio", "higher"), 1.0),
        ("flash_attention_fwd_tflops", "", Metric("flash_attention_fwd_tflops", "flops/s", "higher"), 1e12),
        ("load", "MiB", Metric("load", "bytes", "lower"), 2.0**20),
        ("rate", "GB/s", Metric("rate", "bytes/s", "higher"), 1e9),
        ("step", "ms/token", Metric("step", "seconds/token", "lower"), 0.001),
    ],
)
def test_maps_units_and_names_to_known_metrics(name: str, unit: str, metric: Metric, of_one: float) -> None:
    known_metric = metric_identification.identify_metric(name, unit)

    assert known_metric is not None
    assert (known_metric.metric, known_metric.conversion.convert(1.0)) == (metric, of_one)


@pytest.mark.parametrize(
    ("name", "unit"), [("score", ""), ("load", "furlong"), ("cpu", "Percent"), ("n", "count")]
)
def test_an_ambiguous_metric_is_not_guessed(name: str, unit: str) -> None:
    assert metric_identification.identify_metric(name, unit) is None


def test_a_given_direction_resolves_a_metric() -> None:
    known_metric = metric_identification.identify_metric("cpu", "Percent", "lower")

    assert known_metric is not None
    assert known_metric.metric == Metric("cpu", "ratio", "lower")
