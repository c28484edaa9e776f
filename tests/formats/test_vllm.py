"""Files of vllm bench, written by hand after its code, since vLLM needs models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_files import FILES, named, read

from perfci.formats.format_registry import detect_format, read_imported_runs
from perfci.formats.format_types import ImportDefaults
from perfci.model import Clock, Commit, PerfciError, ProcessBoundaries, Status

FOLDER = FILES / "vllm"


def test_a_batch_is_sampled_iteration_by_iteration() -> None:
    [result] = read(FOLDER / "latency.json", "vllm")[0].run.results

    assert result.series.label == "latency(latency) · latency"
    assert [process.samples for process in result.processes] == [(1.25, 1.5, 1.75)]


def test_throughput_is_higher_better() -> None:
    results = named(read(FOLDER / "throughput.json", "vllm")[0])

    rates = {
        label: (result.series.metric.direction, result.processes[0].samples)
        for label, result in results.items()
    }
    assert rates == {
        "throughput(throughput) · request_throughput": ("higher", (80.0,)),
        "throughput(throughput) · total_token_throughput": ("higher", (33040.0,)),
    }


def test_requests_of_a_load_are_samples() -> None:
    document, warnings = read(FOLDER / "serve-detailed.json", "vllm", machine="h100")

    results = {result.series.metric.name: result for result in document.run.results}
    assert results["ttft"].processes[0].samples == (0.1, 0.2, 0.3)
    assert results["tpot"].processes[0].samples == (0.02, 0.02, 0.05)
    assert results["itl"].processes[0].samples == (0.01, 0.03, 0.02, 0.02, 0.05, 0.05)
    assert warnings == ["vllm does not say which commit it measured: assumed to be 00000001cc"]


def test_means_and_percentiles_are_shown_and_never_judged() -> None:
    document, _ = read(FOLDER / "serve-detailed.json", "vllm")

    shown = {
        result.series.metric.name
        for result in document.run.results
        if result.processes[0].clock is Clock.INFORMATIONAL
    }
    assert shown == {
        f"{quantity}_{statistic}" for quantity in ("ttft", "tpot", "itl") for statistic in ("mean", "p99")
    }


def test_the_load_is_the_parameters_and_metadata_the_variant() -> None:
    run = read(FOLDER / "serve-detailed.json", "vllm")[0].run

    assert dict(run.results[0].series.parameters) == {
        "model_id": "meta-llama/Llama-3.1-8B",
        "backend": "vllm",
        "request_rate": "inf",
        "burstiness": "1.0",
        "num_prompts": "3",
    }
    assert run.variant.values == (("tensor_parallel_size", "2"),)


def the_lines() -> tuple[list[Any], list[str]]:
    warnings: list[str] = []
    defaults = ImportDefaults("acme/model", Commit("abcdef1"))
    return list(read_imported_runs(FOLDER / "serve.jsonl", "vllm", defaults, warnings.append)), warnings


def test_without_requests_the_median_stands_in_and_cannot_be_compared() -> None:
    [document, _], warnings = the_lines()

    [ttft] = [result for result in document.run.results if result.series.metric.name == "ttft"]
    assert (ttft.summary.value, ttft.boundaries) == (0.2, ProcessBoundaries.UNKNOWN)
    assert any("give --save-detailed" in warning for warning in warnings)


def test_a_load_with_failed_requests_is_no_measurement() -> None:
    [_, failed], _ = the_lines()

    assert {(result.status, result.reason) for result in failed.run.results} == {
        (Status.FAILED, "1 requests failed")
    }


def changed(tmp_path: Path, **content: object) -> Path:
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(json.loads((FOLDER / "serve-detailed.json").read_text()) | content))
    return path


@pytest.mark.parametrize(
    "odd", [{"itls": 3}, {"itls": [[1, "x"]]}, {"ttfts": None}, {"errors": ["x"]}, {"date": 7}]
)
def test_odd_arrays_are_read_as_far_as_they_go(tmp_path: Path, odd: dict[str, object]) -> None:
    document, _ = read(changed(tmp_path, **odd), "vllm")

    assert "output_throughput" in {result.series.metric.name for result in document.run.results}


def test_requests_that_failed_are_no_samples(tmp_path: Path) -> None:
    document, _ = read(changed(tmp_path, errors=["", "timeout", ""]), "vllm")

    [ttft] = [result for result in document.run.results if result.series.metric.name == "ttft"]
    assert ttft.processes[0].samples == (0.1, 0.3)


def test_a_file_that_vllm_did_not_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')

    with pytest.raises(
        PerfciError, match="is not a file of vllm bench: expected latency, serve or throughput"
    ):
        read(tmp_path / "x.json", "vllm")


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_each_command_is_recognised_by_its_content(path: Path) -> None:
    assert detect_format(path) == "vllm"
