"""Results written for asv: asv publishes them, and they are read back but for the documented losses."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asv.results import Results
from foreign_files import read_runs
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perfci.formats.asv import asv_writer
from perfci.formats.format_types import WarnCallback
from perfci.model import Machine, Process, ProcessBoundaries, Result, Run, Status
from tests.support.builders import (
    a_commit,
    a_failed_process,
    a_machine,
    a_pair,
    a_process,
    a_result,
    a_run,
    a_series,
    a_summary,
    a_variant,
)

PROJECT = "acme/model"


def write_folder(runs: Iterable[Run], folder: Path, warn: WarnCallback) -> None:
    """Unpack what the writer yields into a folder."""
    for name, body in asv_writer.iter_result_files(runs, warn):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def written(folder: Path, *runs: Run) -> tuple[list[Run], list[str]]:
    """Write runs, and return the runs read back with the warnings."""
    warnings: list[str] = []
    write_folder(runs, folder, warnings.append)
    return list(read_runs(folder, "asv", PROJECT)), warnings


def comparable(result: Result) -> tuple[Any, ...]:
    """Return the parts of a result that asv can store."""
    series = result.series
    samples = [sample for process in result.processes for sample in process.samples]
    return (series.benchmark, series.parameters, series.metric, result.status, samples, result.number)


def test_series_samples_and_metrics_come_back(tmp_path: Path) -> None:
    run = a_run(
        a_result(a_series(), a_process(1.0, 1 / 3), a_process(2.0, index=1), number=7),
        a_result(a_series(metric="tokens_per_s", unit="tokens/s", direction="higher"), a_process(125.5)),
        a_result(a_series("memory.peakmem_step", "peak_memory", unit="bytes"), a_process(2.0**40 + 1)),
    )

    [reread], _ = written(tmp_path, run)

    assert list(map(comparable, reread.results)) == list(map(comparable, run.results))
    assert reread.commit == replace(a_commit(), subject="", author="", parents=(), branch="", position=None)


def test_every_way_to_end_comes_back_as_asv_knows_it(tmp_path: Path) -> None:
    run = a_run(
        a_result(a_series(parameters={"n": "1"})),
        a_result(
            a_series(parameters={"n": "2"}),
            a_failed_process(Status.OOM),
            status=Status.OOM,
            reason="no memory",
        ),
        a_result(a_series(parameters={"n": "3"}), processes=(), status=Status.SKIPPED, reason="no GPU"),
    )

    [reread], warnings = written(tmp_path, run)

    assert [result.status for result in reread.results] == [Status.OK, Status.FAILED, Status.SKIPPED]
    assert asv_writer.REASONS_LOST in warnings


def test_each_loss_is_reported_once(tmp_path: Path) -> None:
    runs = [
        a_run(
            a_result(a_series(parameters={"n": "1"}), *a_pair(0, 1.0, 1.1)),
            a_result(a_series(parameters={"n": "2"}), *a_pair(0, 1.0, 1.1)),
            session=session,
        )
        for session in ("one", "two")
    ]

    _, warnings = written(tmp_path, *runs)

    assert warnings == [
        asv_writer.ENVIRONMENT_LOST,
        asv_writer.PAIRS_LOST,
        asv_writer.PROCESSES_POOLED,
        asv_writer.MACHINES_BY_NAME,
    ]


def test_runs_of_one_commit_in_one_environment_are_one_file(tmp_path: Path) -> None:
    runs = [a_run(a_result(a_series(), a_process(value)), session=str(value)) for value in (1.0, 3.0)]

    [reread], _ = written(tmp_path, *runs)

    [result] = reread.results
    assert result.summary is not None
    assert (result.summary.value, result.processes[0].samples) == (2.0, (1.0, 3.0))


def test_a_variant_comes_back_as_an_environment(tmp_path: Path) -> None:
    variant = a_variant(environment_type="virtualenv", python="3.11", attn="sdpa", **{"env OMP": "1"})

    [reread], _ = written(tmp_path, a_run(a_result(a_series(variant=variant)), variant=variant))

    assert reread.variant == variant
    assert [path.name for path in tmp_path.glob("*/0*.json")] == [
        "00000001-virtualenv-py3.11-attnsdpa-OMP1.json"
    ]


def test_a_long_environment_is_a_file_named_by_a_hash(tmp_path: Path) -> None:
    variant = a_variant(python="3.11", **{f"package{number}": "1.0" for number in range(20)})

    [reread], _ = written(tmp_path, a_run(a_result(a_series(variant=variant)), variant=variant))

    [path] = tmp_path.glob("*/0*.json")
    assert path.name.startswith("00000001-env-")
    assert dict(reread.variant.values) == dict(variant.values)


def test_a_hole_in_a_grid_reads_as_skipped_and_is_reported(tmp_path: Path) -> None:
    cells = [{"a": "1", "b": "1"}, {"a": "2", "b": "2"}]

    [reread], warnings = written(tmp_path, a_run(*(a_result(a_series(parameters=cell)) for cell in cells)))

    assert [result.status for result in reread.results] == [
        Status.OK,
        Status.SKIPPED,
        Status.SKIPPED,
        Status.OK,
    ]
    assert asv_writer.GAPS_READ_AS_SKIPPED in warnings


def test_a_grid_that_would_explode_is_one_axis(tmp_path: Path) -> None:
    cells = [{f"axis{axis}": str((number * axis) % 7) for axis in range(1, 8)} for number in range(7)]

    [reread], warnings = written(tmp_path, a_run(*(a_result(a_series(parameters=cell)) for cell in cells)))

    assert len(reread.results) == 7
    assert asv_writer.GRID_FLATTENED in warnings


def test_an_uncommitted_tree_is_left_out(tmp_path: Path) -> None:
    warnings: list[str] = []

    write_folder([a_run(a_result(), commit=a_commit(dirty=True))], tmp_path, warnings.append)

    assert warnings == [asv_writer.DIRTY_SKIPPED]
    assert [path.name for path in tmp_path.rglob("*.json")] == ["benchmarks.json"]


@pytest.mark.parametrize("name", ["..", "a/b", "", "two words"])
def test_no_machine_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    machine = Machine(name=name)

    [reread], _ = written(tmp_path / "results", a_run(a_result(a_series(machine=machine)), machine=machine))

    assert reread.machine.name
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_the_archive_holds_the_same_files(tmp_path: Path) -> None:
    run = a_run(a_result())
    write_folder([run], tmp_path, [].append)

    body = b"".join(asv_writer.serialize_runs([run], [].append))

    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        bodies = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert bodies == {
        f"results/{path.relative_to(tmp_path)}": path.read_bytes() for path in tmp_path.rglob("*.json")
    }


def test_asvs_own_reader_finds_the_values(tmp_path: Path) -> None:
    write_folder([a_run(a_result(a_series(), a_process(1.5, 2.5)))], tmp_path, [].append)

    [path] = tmp_path.glob("*/0*.json")
    results = Results.load(str(path))

    assert results.get_result_value("training.Step.time_step", []) == [2.0]
    assert results.get_result_samples("training.Step.time_step", []) == [[1.5, 2.5]]


finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
words = st.text(
    st.characters(codec="ascii", exclude_characters="\x00", min_codepoint=32), min_size=1, max_size=8
)


@settings(deadline=None, max_examples=60)
@given(
    samples=st.lists(st.lists(finite, min_size=1, max_size=3), min_size=1, max_size=3),
    benchmark=words,
    metric=words,
    parameters=st.dictionaries(words, words, max_size=3),
    higher=st.booleans(),
)
@example(
    samples=[[1.0]],
    benchmark="suite.time_x",
    metric="\\u0000",
    parameters={"\\": "\\\\u0000"},
    higher=True,
)
def test_whatever_is_measured_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    samples: list[list[float]],
    benchmark: str,
    metric: str,
    parameters: dict[str, str],
    higher: bool,
) -> None:
    series = a_series(
        benchmark, metric, unit="x", parameters=parameters, direction="higher" if higher else "lower"
    )
    processes = [a_process(*process_samples, index=place) for place, process_samples in enumerate(samples)]
    run = a_run(a_result(series, *processes))

    [reread], _ = written(tmp_path_factory.mktemp("trip"), run)

    assert list(map(comparable, reread.results)) == list(map(comparable, run.results))


def git(folder: Path, *command: str) -> str:
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    run = subprocess.run(["git", *author, *command], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_asv_publishes_and_compares_it(tmp_path: Path) -> None:
    config = {"version": 1, "project": "it", "repo": ".", "branches": ["main"], "benchmark_dir": "benchmarks"}
    (tmp_path / "asv.conf.json").write_text(
        json.dumps(config | {"results_dir": "results", "html_dir": "html"})
    )
    git(tmp_path, "init", "-q", "-b", "main")
    runs = []
    for number in (1, 2):
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", f"Change {number}")
        commit = a_commit(number, sha=git(tmp_path, "rev-parse", "HEAD"))
        runs.append(
            a_run(
                a_result(a_series(parameters={"n": "1"}), Process(0, samples=(1.0 * number,))),
                a_result(
                    a_series(parameters={"n": "2"}), processes=(), status=Status.SKIPPED, reason="no GPU"
                ),
                a_result(
                    a_series("old.track_it", "value", unit="x"),
                    processes=(),
                    summary=a_summary(7.0, n=3),
                    boundaries=ProcessBoundaries.UNKNOWN,
                ),
                a_result(a_series("old.peakmem_it", "peak_memory", unit="bytes"), a_process(4096.0)),
                commit=commit,
                machine=a_machine(),
            )
        )
    write_folder(runs, tmp_path / "results", [].append)

    home = {**os.environ, "HOME": str(tmp_path)}
    publish, compare = (
        subprocess.run(
            [sys.executable, "-m", "asv", *command], cwd=tmp_path, env=home, capture_output=True, text=True
        )
        for command in (["publish"], ["compare", "HEAD~1", "HEAD"])
    )

    assert publish.returncode == 0, publish.stdout + publish.stderr
    assert compare.returncode == 0, compare.stdout + compare.stderr
    for row in (r"\| 1.00\S* +\| 2.00\S* +\| 2.00 +\| training", r"\| 7.0 +\| 7.0 +\| 1.00 +\| old.track_it"):
        assert re.search(row, compare.stdout), compare.stdout
    graphs = (tmp_path / "html" / "graphs").rglob("old.track_it.json")
    [graph] = [path for path in graphs if "summary" not in path.parts]
    index = json.loads((tmp_path / "html" / "index.json").read_text())
    assert [value for _, value in json.loads(graph.read_text())] == [7.0, 7.0]
    assert index["benchmarks"]["training.Step.time_step"]["unit"] == "seconds"
