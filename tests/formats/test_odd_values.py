"""Any odd value at any place of a file is read or refused in one sentence, and what is read can be stored.

Each place gets every eighth of the odd values, in rotation; ``make proof`` gives all of them to every place.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from asv_builders import AsvFolder, a_result_file
from foreign_files import FILES

from perfci.formats import run_document
from perfci.formats.format_registry import read_imported_runs
from perfci.formats.format_types import ImportDefaults
from perfci.model import PerfciError, Run
from perfci.store import Store, open_store
from perfci.store.writes.ingest import ingest_runs, save_benchmark_descriptions
from tests.support.builders import a_commit, a_process, a_result, a_run, a_series, a_summary

PROJECT = "acme/model"

ODD: list[Any] = [
    *(None, True, 0, -1, 2, 2**63, 10**310, 1e300, float("nan"), float("inf")),
    *("", "x", "3", "\x00", "\ud800", "../..", "0001-01-01T00:00:00+23:00"),
    *([], [None], ["x"], [1], [["x"]], {}, {"x": 1}, {"": []}),
]

ASV = {
    "runner/one.json": a_result_file(
        {
            "suite.time_it": [
                [1.1, 2.0],
                [["1", "2"]],
                "v1",
                1_700_000_000_000,
                [0.9],
                [4, 4],
                [[1.0, 1.2], None],
            ],
            "suite.time_failed": [None, []],
        },
        result_columns=[
            "result",
            "params",
            "version",
            "started_at",
            "stats_ci_99_a",
            "stats_number",
            "samples",
        ],
    ),
    "benchmarks.json": {
        "suite.time_it": {
            "type": "time",
            "unit": "s",
            "param_names": ["n"],
            "version": "v1",
            "direction": "lower",
        }
    },
    "runner/machine.json": {
        "machine": "runner",
        "version": 1,
        "cpu": "EPYC",
        "num_cpu": "2",
        "ram": "16424144896",
    },
}

ASV_1 = {
    "commit_hash": "c" * 40,
    "date": 1_500_000_000_000,
    "params": {"machine": "runner"},
    "python": "2.7",
    "requirements": {"numpy": "1.8"},
    "results": {
        "suite.time_scalar": 0.25,
        "suite.time_it": {
            "result": [1.1],
            "samples": [[1.0]],
            "stats": [{"ci_99": [0.9, 1.3]}],
            "params": [],
        },
    },
    "started_at": {"suite.time_it": 1_500_000_000_000},
    "benchmark_version": {"suite.time_it": "v7"},
    "version": 1,
}

RUN = a_run(
    a_result(a_series(parameters={"n": "1"}), a_process(1.0, 2.0, flags=("throttled",))),
    a_result(a_series("suite.b"), summary=a_summary(1.0, ci_lo=0.5, ci_hi=2.0, n=3)),
    origin=(("run_id", "1"),),
)


@pytest.fixture(params=[8, pytest.param(1, marks=pytest.mark.proof)])
def nth(request: pytest.FixtureRequest) -> int:
    """Return the step through the odd values at each place: 1 for all of them, or n for every nth."""
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('sweep')}/perfci.db"
    with closing(open_store(url, create=True)) as store:
        yield store


@pytest.mark.parametrize("file", list(ASV))
def test_asv_files(tmp_path: Path, store: Store, file: str, nth: int) -> None:
    folder = AsvFolder(tmp_path / "results")
    for name, content in ASV.items():
        folder.write(name, content)

    stored = 0
    for changed in with_every_entry_odd(ASV[file], nth):
        folder.write(file, changed)
        stored += read_and_store(store, folder.path, "asv")

    assert stored > 100 / nth


def test_asv_files_of_version_1(tmp_path: Path, store: Store, nth: int) -> None:
    folder = AsvFolder(tmp_path / "results")

    stored = 0
    for changed in with_every_entry_odd(ASV_1, nth):
        folder.write("runner/one.json", changed)
        stored += read_and_store(store, folder.path, "asv")

    assert stored > 100 / nth


def test_run_documents(tmp_path: Path, store: Store, nth: int) -> None:
    path = tmp_path / "run.json"

    stored = 0
    for changed in with_every_entry_odd(json.loads(run_document.dump_run(RUN)), nth):
        path.write_text(json.dumps(changed))
        stored += read_and_store(store, path, "perfci")

    assert stored > 100 / nth


FOREIGN = [
    *(
        "pytest-benchmark/with_data.json",
        "pytorch/record.json",
        "vllm/serve-detailed.json",
        "vllm/latency.json",
    ),
    *("hyperfine/failed.json", "google-benchmark/once.json", "optimum-benchmark/benchmark.json"),
    *("nvbench/jsonbin.json", "nvbench/2021.json", "generic/custom.json"),
]


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_tools(tmp_path: Path, name: str, nth: int) -> None:
    path, format_name = tmp_path / "file.json", name.partition("/")[0]

    refusals = 0
    for changed in with_every_entry_odd(json.loads((FILES / name).read_text()), nth):
        path.write_text(json.dumps(changed))
        refusals += sum(map(len, map(run_document.dump_run, runs_of(path, format_name))))

    assert refusals > 10_000 / nth


def runs_of(path: Path, format_name: str) -> list[Run]:
    """Read the runs of a file; each must fit a run document."""
    try:
        defaults = ImportDefaults(PROJECT, a_commit(), "box")
        return [document.run for document in read_imported_runs(path, format_name, defaults, lambda _: None)]
    except PerfciError:
        return []


def with_every_entry_odd(content: Any, nth: int) -> Iterator[Any]:
    """Yield copies of the content, each with one entry replaced by one odd value."""
    content = copy.deepcopy(content)
    for place, (container, key) in enumerate(list(entries(content))):
        original = container[key]
        for odd_value in itertools.islice(ODD, place % nth, None, nth):
            container[key] = odd_value
            yield content
        container[key] = original


def entries(content: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every entry of a JSON value as (its container, its key)."""
    keys = (
        list(content)
        if isinstance(content, dict)
        else range(len(content))
        if isinstance(content, list)
        else ()
    )
    for key in keys:
        yield content, key
        yield from entries(content[key])


def read_and_store(store: Store, path: Path, format_name: str) -> bool:
    """Read and store a file, then roll back, so that the database is empty for the next file."""
    try:
        documents = list(read_imported_runs(path, format_name, ImportDefaults(PROJECT), lambda _: None))
    except PerfciError:
        return False
    with contextlib.suppress(GivenUpError), store.begin() as tx:
        ingest_runs(
            tx, [(document.run, document.idempotency_key, document.body_hash) for document in documents]
        )
        for document in documents:
            save_benchmark_descriptions(tx, PROJECT, document.benchmark_sources)
        raise GivenUpError
    return True


class GivenUpError(Exception):
    """Rolls a transaction back."""
