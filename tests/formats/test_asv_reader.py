"""asv results of either version are read as asv itself reads them, without merging or losing any."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asv.results import Results
from asv_builders import STARTED, AsvFolder, a_row, as_asv_reads, assert_equal_to_asv, result_files
from foreign_files import read_runs

from perfci.formats.asv import asv_writer
from perfci.formats.asv.asv_reader import build_variant, parse_memory_gb
from perfci.formats.format_registry import detect_format
from perfci.model import Clock, Machine, PerfciError, ProcessBoundaries, Result, Run, SampleSummary, Status
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store, open_store
from perfci.store.queries import measured_samples, series_search
from tests.support.builders import a_sha
from tests.support.git_project import GitProject
from tests.support.stored_runs import load_benchmark_code

PROJECT = "acme/model"


@pytest.fixture
def folder(tmp_path: Path) -> AsvFolder:
    return AsvFolder(tmp_path / "results", BENCHMARKS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        yield store


BENCHMARKS = {
    "suite.time_it": {"type": "time", "unit": "seconds", "version": "v1", "code": "def time_it(): ..."},
    "suite.time_grid": {"type": "time", "unit": "seconds", "param_names": ["n", "dtype"]},
    "suite.track_speed": {"type": "track", "unit": "tokens/s", "direction": "higher"},
    "suite.track_upstream": {"type": "track", "unit": "tokens/s", "higher_is_better": True},
    "suite.track_loss": {"type": "track", "unit": "nats"},
    "suite.peakmem_it": {"type": "peakmemory", "unit": "bytes"},
    "suite.mem_it": {"type": "memory", "unit": "bytes"},
    "suite.gpu_it": {"type": "gpu", "unit": "milliseconds"},
}


def only_run(folder: AsvFolder, warnings: list[str] | None = None) -> Run:
    [run] = read_runs(folder.path, "asv", PROJECT, [].append if warnings is None else warnings.append)
    return run


def results_by_name(run: Run) -> dict[str, Result]:
    return {result.series.cell: result for result in run.results}


def test_reads_a_sampled_benchmark_with_everything_asv_knows(folder: AsvFolder) -> None:
    stats = {"ci_99_a": [0.9], "ci_99_b": [1.3], "q_25": [1.0], "q_75": [1.2], "number": [4], "repeat": [3]}
    folder.result({"suite.time_it": a_row([1.1], samples=[[1.0, 1.1, 1.2]], **stats)})

    run = only_run(folder)

    [result] = run.results
    assert result.summary == SampleSummary(1.1, ci_lo=0.9, ci_hi=1.3, q25=1.0, q75=1.2, n=3)
    assert (result.boundaries, result.number, result.series.metric.name) == (
        ProcessBoundaries.POOLED,
        4,
        "time",
    )
    [process] = result.processes
    assert (process.samples, process.clock) == ((1.0, 1.1, 1.2), Clock.WALL)
    assert process.started_at == datetime.fromtimestamp(STARTED / 1000, UTC)
    assert run.commit.sha == a_sha(1)
    assert run.commit.committed_at == datetime.fromtimestamp(1_690_003_600, UTC)


def test_a_value_without_samples_is_a_summary(folder: AsvFolder) -> None:
    folder.result({"suite.track_loss": a_row([3])})

    [result] = only_run(folder).results

    assert (result.status, result.summary, result.processes) == (Status.OK, SampleSummary(3.0), ())


def test_null_is_a_failure_and_nan_a_skip(folder: AsvFolder) -> None:
    grid = [["1", "2", "3"], ["'a'"]]
    folder.result({"suite.time_grid": a_row([1.5, None, math.nan], grid), "suite.time_it": a_row(None)})

    results = results_by_name(only_run(folder))

    assert {name: result.status for name, result in results.items()} == {
        "suite.time_grid(1, 'a')": Status.OK,
        "suite.time_grid(2, 'a')": Status.FAILED,
        "suite.time_grid(3, 'a')": Status.SKIPPED,
        "suite.time_it": Status.FAILED,
    }
    assert all(result.reason for result in results.values() if result.status is not Status.OK)


def test_infinity_is_absent_where_it_is_a_bound_and_a_failure_where_it_is_the_value(
    folder: AsvFolder,
) -> None:
    unbounded = a_row([2.0], ci_99_a=[-math.inf], ci_99_b=[math.inf])
    folder.result({"suite.time_it": unbounded, "suite.track_loss": a_row([math.inf])})

    results = results_by_name(only_run(folder))

    assert results["suite.time_it"].summary == SampleSummary(2.0)
    assert results["suite.track_loss"].status is Status.FAILED
    assert "infinity" in results["suite.track_loss"].reason


def test_a_failed_benchmark_fails_in_every_cell(folder: AsvFolder) -> None:
    folder.result({"suite.time_grid": a_row(None, [["1", "2"], ["'a'", "'b'"]])})

    assert [result.status for result in only_run(folder).results] == [Status.FAILED] * 4


def test_cells_are_named_by_the_parameters_of_their_own_file(folder: AsvFolder) -> None:
    folder.result({"suite.time_grid": a_row([1.0, 2.0, 3.0, 4.0], [["1", "2"], ["'a'", "'b'"]])}, 1)
    folder.result({"suite.time_grid": a_row([5.0, 6.0], [["2"], ["'b'", "'a'"]])}, 2)

    values = [
        {result.series.parameters: result.summary.value for result in run.results if result.summary}
        for run in read_runs(folder.path, "asv", PROJECT)
    ]

    assert values[0][("n", "2"), ("dtype", "'a'")] == 3.0
    assert values[1] == {(("n", "2"), ("dtype", "'b'")): 5.0, (("n", "2"), ("dtype", "'a'")): 6.0}


def test_parameters_without_known_names_are_numbered(folder: AsvFolder) -> None:
    folder.result({"suite.time_grid": a_row([1.0], [["1"]]), "old.time_gone": a_row([1.0], [["x"], ["y"]])})

    parameters = [result.series.parameters for result in only_run(folder).results]

    assert parameters == [(("param1", "1"),), (("param1", "x"), ("param2", "y"))]


def test_of_cells_with_equal_text_the_last_counts_as_for_asv(folder: AsvFolder) -> None:
    warnings: list[str] = []
    file = folder.result({"suite.time_it": a_row([1.0, 2.0], [["<f>", "<f>"]])})

    [result] = only_run(folder, warnings).results

    assert result.summary == SampleSummary(2.0)
    assert as_asv_reads(file)["suite.time_it", ("<f>",)]["value"] == 2.0
    assert "equal as text" in warnings[0]


@pytest.mark.parametrize(
    ("name", "metric", "unit", "direction"),
    [
        ("suite.time_it", "time", "seconds", "lower"),
        ("suite.track_speed", "value", "tokens/s", "higher"),
        ("suite.track_upstream", "value", "tokens/s", "higher"),
        ("suite.track_loss", "value", "nats", "lower"),
        ("suite.peakmem_it", "peak_memory", "bytes", "lower"),
        ("suite.mem_it", "memory", "bytes", "lower"),
        ("suite.gpu_it", "gpu", "milliseconds", "lower"),
        ("gone.Suite.time_x", "time", "seconds", "lower"),
        ("gone.Suite.TimeX", "time", "seconds", "lower"),
        ("gone.Suite.peakmem_x", "peak_memory", "bytes", "lower"),
        ("gone.Suite.mem_x", "memory", "bytes", "lower"),
        ("gone.Suite.track_x", "value", "unit", "lower"),
    ],
)
def test_metric_and_direction(folder: AsvFolder, name: str, metric: str, unit: str, direction: str) -> None:
    folder.result({name: a_row([1.0])})

    read_metric = only_run(folder).results[0].series.metric

    assert (read_metric.name, read_metric.unit, read_metric.direction) == (metric, unit, direction)


def test_versions_of_a_benchmark_stay_apart(folder: AsvFolder, store: Store) -> None:
    for number, version in enumerate(("v1", "v2", None), start=1):
        folder.result({"suite.time_it": a_row([1.0], version=version)}, number)

    import_file_or_folder(store, folder.path, "asv", PROJECT)

    with store.read() as tx:
        matches = series_search.search_series(tx, PROJECT)
    assert sorted(match.series.benchmark.version for match in matches) == ["", "v1", "v2"]


def an_environment_file(env_name: str, python: str = "3.11", **changes: Any) -> dict[str, Any]:
    return {"env_name": env_name, "python": python, "requirements": {}, "env_vars": {}, **changes}


DIFFERENT_ENVIRONMENTS = [
    an_environment_file("conda-py3.11"),
    an_environment_file("conda-py3.12", "3.12"),
    an_environment_file("virtualenv-py3.11"),
    an_environment_file("py3.11"),
    an_environment_file("conda-py3.11-numpy", requirements={"numpy": ""}),
    an_environment_file("conda-py3.11-numpy1.26", requirements={"numpy": "1.26"}),
    an_environment_file("conda-py3.11-numpy1.26-scipy", requirements={"numpy": "1.26", "scipy": None}),
    an_environment_file("conda-py3.11-SPEED1", env_vars={"SPEED": "1"}),
    an_environment_file("conda-py3.11-SPEED2", env_vars={"SPEED": "2"}),
    an_environment_file("conda-py3.11-SPEED3"),
    an_environment_file("nightly on the big machine"),
    an_environment_file("existing-py_opt_a_bin_python", "/opt/a/bin/python"),
    an_environment_file("existing-py_opt_b_bin_python", "/opt/b/bin/python"),
]


def test_no_two_environments_become_one() -> None:
    variants = [build_variant(content) for content in DIFFERENT_ENVIRONMENTS]

    assert len(set(variants)) == len(DIFFERENT_ENVIRONMENTS)


def test_an_environment_that_its_parts_explain_needs_no_name() -> None:
    assert build_variant(DIFFERENT_ENVIRONMENTS[6]).values == (
        ("environment_type", "conda"),
        ("python", "3.11"),
        ("numpy", "1.26"),
        ("scipy", ""),
    )
    assert build_variant(DIFFERENT_ENVIRONMENTS[9]).values[-1] == ("env_name", "conda-py3.11-SPEED3")


@pytest.mark.parametrize(
    "path",
    [
        "/usr/bin/python3.11",
        "/home/ci/actions/Python/3.11.7/x64/bin/python",
        "/opt/conda/envs/py3.11/bin/python",
    ],
)
def test_the_path_of_an_interpreter_is_its_version(path: str) -> None:
    content = an_environment_file("existing-py" + path.replace("/", "_"), path)

    assert build_variant(content).values == (("environment_type", "existing"), ("python", "3.11"))


def test_an_older_file_without_an_environment_name_still_has_its_parts() -> None:
    variant = build_variant({"python": "2.7", "requirements": {"numpy": "1.8"}})

    assert variant.values == (("python", "2.7"), ("numpy", "1.8"))


def test_what_nobody_chose_is_the_environment(tmp_path: Path) -> None:
    folder = AsvFolder(
        tmp_path / "results", arch="x86_64", gpu="H200", cpu="EPYC", num_cpu="8", ram="16424144896"
    )
    folder.result(
        {"suite.time_it": a_row([1.0])}, params={"machine": "runner", "python": "3.11", "driver": "570"}
    )

    run = only_run(folder)

    assert run.machine == Machine(cpu="EPYC", cores=8, memory_gb=15, name="runner")
    assert dict(run.environment.values) == {
        "arch": "x86_64",
        "driver": "570",
        "env_name": "conda-py3.11-numpy",
        "gpu": "H200",
    }


def test_a_machine_may_hide_its_hardware(folder: AsvFolder) -> None:
    folder.result({"suite.time_it": a_row([1.0])})

    assert only_run(folder).machine == Machine(name="runner")


@pytest.mark.parametrize(
    ("ram", "gb"),
    [
        ("16424144896", 15),
        (16424144896, 15),
        ("16039204", 15),
        ("16 GB", 16),
        ("", None),
        (None, None),
        ("lots", None),
    ],
)
def test_memory_is_read_in_any_of_its_spellings(ram: object, gb: int | None) -> None:
    assert parse_memory_gb(ram) == gb


def a_version_1_file(number: int = 1) -> dict[str, Any]:
    stats = {"ci_99": [0.9, math.inf], "q_25": 1.0, "q_75": 1.2, "number": 4, "repeat": 3, "min": 0.9, "n": 3}
    return {
        "commit_hash": a_sha(number),
        "date": 1_500_000_000_000,
        "params": {"machine": "runner", "python": "2.7", "numpy": "1.8"},
        "python": "2.7",
        "requirements": {"numpy": "1.8"},
        "results": {
            "suite.time_scalar": 0.25,
            "suite.time_failed": None,
            "suite.time_skipped": math.nan,
            "suite.time_sampled": {
                "result": [1.1],
                "samples": [[1.0, 1.1, 1.2]],
                "stats": [stats],
                "params": [],
            },
            "suite.time_bare_stats": {"result": 1.1, "samples": None, "stats": stats},
            "suite.time_grid": {
                "result": [1.0, None, math.nan, 4.0],
                "params": [["1", "2"], ["'a'", "'b'"]],
                "stats": [None, None, None, stats],
                "samples": [None, None, None, [4.0, 4.5]],
            },
        },
        "started_at": {"suite.time_sampled": STARTED},
        "duration": {"suite.time_sampled": 3.5, "<build>": 4.0},
        "benchmark_version": {"suite.time_sampled": "v7"},
        "profiles": {},
        "version": 1,
    }


def test_version_1_is_read_as_asv_updates_it(folder: AsvFolder, tmp_path: Path) -> None:
    folder.write("runner/old.json", a_version_1_file())
    updated = tmp_path / "updated" / "runner" / "old.json"
    updated.parent.mkdir(parents=True)
    updated.write_text(json.dumps({**Results.update_to_2(a_version_1_file()), "version": 2}))

    run = only_run(folder)

    assert assert_equal_to_asv(run, updated) == 5
    assert results_by_name(run)["suite.time_sampled"].processes[0].started_at is not None


def test_one_file_is_read_with_what_lies_beside_it(folder: AsvFolder) -> None:
    folder.result({"suite.track_speed": a_row([1.0])}, 1)
    file = folder.result({"suite.track_speed": a_row([2.0])}, 2)

    assert detect_format(file) == "asv"
    [run] = read_runs(file, "asv", PROJECT)
    assert run.commit.sha == a_sha(2)
    assert run.results[0].series.metric.direction == "higher"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_an_archive_is_read_as_the_folder_it_holds(folder: AsvFolder, tmp_path: Path, mode: Any) -> None:
    for number in (1, 2):
        folder.result({"suite.track_speed": a_row([float(number)])}, number)
    archive = tmp_path / "some file"
    with tarfile.open(archive, mode) as tar:
        tar.add(folder.path, "some/results")

    assert detect_format(archive) == "asv"
    assert list(read_runs(archive, "asv", PROJECT)) == list(read_runs(folder.path, "asv", PROJECT))


def test_code_is_kept_for_the_version_that_asv_still_knows(folder: AsvFolder, store: Store) -> None:
    for number, version in enumerate(("v0", "v1"), start=1):
        folder.result({"suite.time_it": a_row([1.0], version=version)}, number)

    import_file_or_folder(store, folder.path, "asv", PROJECT)

    with store.read() as tx:
        benchmarks = [
            record.series.benchmark
            for record in series_search.find_series_of_benchmark(tx, PROJECT, "suite.time_it", "time")
        ]
        code = {benchmark.version: load_benchmark_code(tx, PROJECT, benchmark) for benchmark in benchmarks}
    assert code == {"v0": None, "v1": "def time_it(): ..."}


def test_an_import_is_counted_and_the_second_changes_nothing(folder: AsvFolder, store: Store) -> None:
    folder.result(
        {"suite.time_it": a_row([1.1], samples=[[1.0, 1.2]]), "suite.time_grid": a_row(None, [["1"]])}, 1
    )
    folder.result({"suite.time_it": a_row([1.1])}, 2)

    first = import_file_or_folder(store, folder.path, "auto", PROJECT)
    before = everything_in(store)
    second = import_file_or_folder(store, folder.path, "auto", PROJECT)

    assert (first.runs_new, first.runs_known, first.values, first.samples) == (2, 0, 2, 2)
    assert (second.runs_new, second.runs_known, second.values, second.samples) == (0, 2, 0, 0)
    assert everything_in(store) == before


def everything_in(store: Store) -> str:
    """Return all rows of all tables as text."""
    with store.read() as tx:
        connection = tx.connection().connection.driver_connection
        assert connection is not None
        return "\n".join(connection.iterdump())


def test_a_file_that_asv_has_added_to_adds_only_what_is_new(folder: AsvFolder, store: Store) -> None:
    rows = {"suite.time_it": a_row([1.1], samples=[[1.0, 1.2]]), "suite.mem_it": a_row([100])}
    folder.result({"suite.time_it": rows["suite.time_it"]})
    import_file_or_folder(store, folder.path, "asv", PROJECT)
    folder.result(rows)

    report = import_file_or_folder(store, folder.path, "asv", PROJECT)

    assert (report.runs_new, report.values, report.samples) == (1, 1, 0)
    with store.read() as tx:
        [record] = series_search.find_series_of_benchmark(tx, PROJECT, "suite.time_it", "time")
        [point] = measured_samples.load_history(tx, record.id)
    assert [process.samples for process in point.processes] == [(1.0, 1.2)]


def test_asvs_own_reader_agrees_cell_by_cell(folder: AsvFolder) -> None:
    stats = {"ci_99_a": [0.9, None], "ci_99_b": [math.inf, None], "q_25": [1.0, None], "number": [4, None]}
    sampled = a_row([1.1, None], [["1", "2"], ["'a'"]], samples=[[1.0, 1.1, 1.2], None], **stats)
    rows = {"suite.time_grid": sampled, "suite.time_it": a_row(None), "suite.track_loss": a_row([math.nan])}
    file = folder.result(rows)

    assert assert_equal_to_asv(only_run(folder), file) == 1


REAL = Path(__file__).parents[3] / "shared" / "data" / "asv-django" / "results.tar.xz"

needs_real_data = pytest.mark.skipif(not REAL.exists(), reason="the asv results of Django are not at hand")


@pytest.fixture(scope="module")
def django(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("django")
    with tarfile.open(REAL) as archive:
        archive.extractall(folder, filter="data")
    return folder / "results"


@needs_real_data
def test_a_sample_of_real_results_equals_what_asv_reads(django: Path, store: Store, tmp_path: Path) -> None:
    sample_folder = tmp_path / "results"
    for file in [*result_files(django)[::40], *django.glob("*/machine.json"), django / "benchmarks.json"]:
        copy = sample_folder / file.relative_to(django)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())

    report = import_file_or_folder(store, sample_folder, "auto", PROJECT)

    assert report.warnings == ()
    assert assert_stored_equal_to_asv(store, sample_folder) == report.values > 2_000


@needs_real_data
@pytest.mark.proof
def test_all_real_results_equal_what_asv_reads(django: Path, store: Store) -> None:
    report = import_file_or_folder(store, REAL, "auto", PROJECT)
    again = import_file_or_folder(store, REAL, "auto", PROJECT)

    assert (report.runs_new, report.values, report.samples, report.warnings) == (2755, 125_579, 1_203_199, ())
    assert (again.runs_new, again.runs_known, again.values, again.samples) == (0, 2755, 0, 0)
    assert assert_stored_equal_to_asv(store, django) == 125_579
    assert no_environment_or_version_collapsed(store, django)


@needs_real_data
def test_asv_compares_and_publishes_real_results_that_went_through_perfci(
    django: Path, tmp_path: Path
) -> None:
    given = copy_to_new_commits(django / "ubuntu-22.04", tmp_path, commits=2)
    for name, body in asv_writer.iter_result_files(read_runs(given, "asv", PROJECT), [].append):
        path = tmp_path / "written" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    compared = [
        list_rows_with_units(run_asv(tmp_path, results, "compare", "main~1", "main"))
        for results in ("given", "written")
    ]
    run_asv(tmp_path, "written", "publish")

    assert len(compared[0]) > 40
    assert compared[0] - compared[1] == set()
    index = json.loads((tmp_path / "html" / "index.json").read_text())
    assert len(index["benchmarks"]) > 40


def list_rows_with_units(comparison: str) -> set[str]:
    """The rows of benchmarks that asv still knows the unit of; perfci keeps that of former ones too."""
    rows = {re.sub(r" +", " ", line) for line in comparison.splitlines()}
    return {row for row in rows if re.search(r"\d(ns|μs|ms|s) ", row)}


def copy_to_new_commits(machine: Path, folder: Path, *, commits: int) -> Path:
    """Copy the results of some commits, as if those of a new repository had given them."""
    project = GitProject(folder / "repository")
    for name in ("benchmarks.json", f"{machine.name}/machine.json"):
        copy = folder / "given" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((machine.parent / name).read_bytes())
    by_commit: dict[str, list[Path]] = {}
    for file in sorted(machine.glob("*-*.json")):
        by_commit.setdefault(file.name[:8], []).append(file)
    for short, files in list(by_commit.items())[:commits]:
        sha = project.commit(short, net=f"x = {short!r}")
        for file in files:
            result = json.loads(file.read_text()) | {"commit_hash": sha}
            copy = folder / "given" / machine.name / file.name.replace(short, sha[:8])
            copy.write_text(json.dumps(result))
    return folder / "given"


def run_asv(folder: Path, results: str, *command: str) -> str:
    """Let asv read a folder of results; return what it prints."""
    names = {"results_dir": results, "html_dir": "html", "benchmark_dir": "benchmarks"}
    config = {"version": 1, "project": "it", "repo": "repository", "branches": ["main"]} | names
    (folder / "asv.conf.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "asv", *command],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_stored_equal_to_asv(store: Store, root: Path) -> int:
    """Compare every stored run with asv's reading of the file it came from."""
    with store.read() as tx:
        runs = [measured_samples.load_run(tx, number) for number in range(1, len(result_files(root)) + 1)]
    return sum(assert_equal_to_asv(run, root / dict(run.origin)["file"]) for run in runs)


def no_environment_or_version_collapsed(store: Store, root: Path) -> bool:
    loaded = [Results.load(str(file)) for file in result_files(root)]
    asv_keys = {
        (asv_results.params["machine"], asv_results.env_name, name, asv_results.benchmark_version[name])
        for asv_results in loaded
        for name in asv_results.get_all_result_keys()
    }
    with store.read() as tx:
        return len(series_search.search_series(tx, PROJECT)) == len(asv_keys)


def test_a_folder_without_results_is_refused_in_one_sentence(tmp_path: Path) -> None:
    AsvFolder(tmp_path / "results")

    with pytest.raises(PerfciError, match="holds no asv result file: expected results/<machine>"):
        list(read_runs(tmp_path / "results", "asv", PROJECT))
