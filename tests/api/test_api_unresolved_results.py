"""Unresolved results, and exports in the formats of other tools, over the API."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from api_client import NOW, Api

from perfci.formats import run_document
from perfci.formats.format_types import ImportDefaults
from perfci.model import Metric
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store, projects
from perfci.store.access import audit_log
from perfci.store.jobs import work_queue_and_leases
from perfci.store.queries import measured_samples
from tests.support.builders import PROJECT, a_commit, a_process, a_result, a_run, a_series

P = "/projects/acme:model"


@pytest.fixture
def waiting(api: Api, store: Store, tmp_path: Path) -> Path:
    """A file with a metric that nobody knows, of which one is stored."""
    path = tmp_path / "custom.json"
    path.write_text(json.dumps([{"name": "encode", "unit": "points", "value": 12.5}]))
    import_file_or_folder(store, path, "auto", ImportDefaults(PROJECT, a_commit(), machine="box"))
    return path


def test_lists_unresolved_results_with_the_text_of_the_file(api: Api, waiting: Path) -> None:
    [item] = api.get(f"{P}/unresolved-results").json["items"]

    assert item["reason"] == "the direction (lower or higher is better) of encode in points is unknown"
    assert (item["benchmark"], item["raw_result"]) == (
        "encode",
        {"name": "encode", "unit": "points", "value": 12.5},
    )


def resolved(api: Api, number: int, unit: str = "points", direction: str = "higher") -> int:
    answer = api.client.post(
        f"/api/v1{P}/unresolved-results/{number}/resolve", json={"unit": unit, "direction": direction}
    )
    return int(answer.json.get("resolved", answer.status_code))


def test_stores_a_result_once_its_unit_is_resolved(api: Api, store: Store, waiting: Path) -> None:
    assert resolved(api, 1, "ms", "lower") == 1

    with store.read() as tx:
        [result] = measured_samples.load_run(tx, 1).results
        assert (result.series.metric, result.summary and result.summary.value) == (
            Metric("value", "seconds", "lower"),
            0.0125,
        )
        assert [job.kind for job in work_queue_and_leases.load_next_project_work(tx, ["judge"], 10, NOW)] == [
            "judge"
        ]
    assert api.get(f"{P}/unresolved-results").json["items"] == []


def test_applies_a_resolution_to_later_files(api: Api, store: Store, waiting: Path) -> None:
    resolved(api, 1)
    waiting.write_text(json.dumps([{"name": "encode", "unit": "points", "value": 13.5}]))

    report = import_file_or_folder(
        store, waiting, "auto", ImportDefaults(PROJECT, a_commit(2), machine="box")
    )

    assert report.warnings == ("generic does not say which commit it measured: assumed to be 00000002cc",)
    assert api.get(f"{P}/unresolved-results").json["items"] == []


def test_records_who_resolved_and_advances_the_data_version(api: Api, store: Store, waiting: Path) -> None:
    with store.read() as tx:
        before = projects.find_project(tx, PROJECT)

    resolved(api, 1)

    with store.read() as tx:
        after = projects.find_project(tx, PROJECT)
        assert before is not None
        assert after is not None
        assert after.version > before.version
        [line] = audit_log.list_entries(tx, after.id)
    assert (line.action, line.subject, line.detail["unit"]) == ("result.resolve", "value", "points")


def test_refuses_a_second_resolution_and_an_unknown_number(api: Api, waiting: Path) -> None:
    resolved(api, 1)

    assert resolved(api, 1, "seconds", "lower") == 0
    assert resolved(api, 7) == 404


def test_exports_stream_in_every_format(api: Api) -> None:
    run = a_run(a_result(a_series(), a_process(1.5)))
    api.upload(run)

    assert run_document.read_run(api.get(f"{P}/export.json").data) == run
    assert "training.Step.time_step" in api.get(f"{P}/export.csv").text
    assert api.get(f"{P}/export.pytorch.json").json[0]["metric"]["benchmark_values"] == [1.5]
    with tarfile.open(fileobj=io.BytesIO(api.get(f"{P}/export.asv.tar").data)) as archive:
        assert "results/benchmarks.json" in archive.getnames()
