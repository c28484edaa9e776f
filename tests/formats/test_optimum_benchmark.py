"""Files of optimum-benchmark 0.6.0, written by hand after its code, since its models are not available."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_files import FILES, named, read

from perfci.model import Clock, Machine, PerfciError, ProcessBoundaries

FOLDER = FILES / "optimum-benchmark"


def metrics(path: Path = FOLDER / "benchmark.json") -> dict[tuple[str, str], tuple[float, ...]]:
    run = read(path, "optimum-benchmark")[0].run
    return {
        (result.series.benchmark.name, result.series.metric.name): result.processes[0].samples
        for result in run.results
    }


def test_each_target_is_a_benchmark_with_its_values() -> None:
    samples = metrics()

    assert samples["per_token", "latency"] == (0.1, 0.2, 0.3)
    assert samples["load_model", "latency"] == (27.5,)


def test_a_megabyte_is_ten_to_the_six_bytes() -> None:
    assert metrics()["prefill", "max_allocated"] == (141195548160.0,)


def test_duplicate_memory_values_are_left_out_and_reported() -> None:
    _, warnings = read(FOLDER / "benchmark.json", "optimum-benchmark")

    assert ("decode", "max_ram") not in metrics()
    assert "memory of decode repeats that of prefill: skipped" in warnings


def test_quotients_are_shown_and_energy_is_in_joules() -> None:
    results = named(read(FOLDER / "benchmark.json", "optimum-benchmark")[0])

    shown = {
        result.series.metric.name
        for result in results.values()
        if result.processes[0].clock is Clock.INFORMATIONAL
    }
    assert shown == {"throughput", "energy_cpu", "energy_gpu", "energy_ram"}
    assert metrics()["prefill", "energy_total"] == (14400.0,)


def test_the_machine_is_the_accelerators_it_ran_on() -> None:
    run = read(FOLDER / "benchmark.json", "optimum-benchmark")[0].run

    assert run.machine == Machine("AMD EPYC 7742 64-Core Processor", 128, 504, "NVIDIA A100-SXM4-80GB", 2)
    assert dict(run.environment.values)["transformers_version"] == "4.50.0"


def test_what_was_configured_are_the_parameters() -> None:
    run = read(FOLDER / "benchmark.json", "optimum-benchmark")[0].run

    chosen = dict(run.results[0].series.parameters)
    assert (chosen["model"], chosen["torch_dtype"], chosen["input_shapes.batch_size"]) == (
        "meta-llama/Llama-3.1-70B",
        "bfloat16",
        "1",
    )


def test_a_report_alone_is_read_without_load_and_process() -> None:
    document, warnings = read(FOLDER / "benchmark_report.json", "optimum-benchmark")

    assert document.run.results[0].boundaries is ProcessBoundaries.UNKNOWN
    assert any("read benchmark.json, which has the configuration too" in warning for warning in warnings)


def test_several_processes_are_merged(tmp_path: Path) -> None:
    content = json.loads((FOLDER / "benchmark.json").read_text())
    content["config"]["launcher"]["name"] = "torchrun"
    (tmp_path / "x.json").write_text(json.dumps(content))

    assert (
        read(tmp_path / "x.json", "optimum-benchmark")[0].run.results[0].boundaries
        is ProcessBoundaries.POOLED
    )


def test_a_target_is_needed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"report": {"prefill": 7}}')

    with pytest.raises(PerfciError, match="no target of it has latency or memory"):
        read(tmp_path / "x.json", "optimum-benchmark")
