"""Damaged, foreign or malicious files are refused in one sentence, and nothing of them is stored."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from asv_builders import AsvFolder, a_result_file, a_row
from foreign_files import read_runs

from perfci.formats import bounded_files, run_document
from perfci.formats.format_registry import detect_format
from perfci.model import PerfciError, Run
from perfci.service.uploads.import_files import IngestReport, import_file_or_folder
from perfci.store import Store, open_store
from perfci.store.queries import measured_samples, project_counts
from tests.support.builders import a_result, a_run, a_sha

PROJECT = "acme/model"

GOOD = {"suite.time_it": a_row([1.5])}


@pytest.fixture
def folder(tmp_path: Path) -> AsvFolder:
    folder = AsvFolder(tmp_path / "results")
    folder.result(GOOD)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        yield store


def values(folder: AsvFolder) -> tuple[list[Any], list[str]]:
    """Return the values that are read, and the warnings."""
    warnings: list[str] = []
    runs = list(read_runs(folder.path, "asv", PROJECT, warnings.append))
    return [result.summary and result.summary.value for run in runs for result in run.results], warnings


DEEP = "[" * 100_000 + "]" * 100_000

BROKEN_FILES = {
    "cut off": ('{"commit_hash": "abc', "is not readable JSON"),
    "nested deeply": (f'{{"commit_hash": {DEEP}}}', "nested too deeply"),
    "no object": ("[1, 2]", "expected a JSON object"),
    "foreign": ('{"name": "left-pad", "version": "1.0.0"}', "has no commit_hash with results"),
    "huge integer": ('{"commit_hash": ' + "9" * 5000 + "}", "is not readable JSON"),
    "newer version": (a_result_file(GOOD, version=3), "has the asv file version 3: perfci reads 1 and 2"),
    "odd version": (a_result_file(GOOD, version=[2]), "has the asv file version [2]"),
    "no machine": (a_result_file(GOOD, params={}), "does not say which machine"),
    "other machine": (a_result_file(GOOD, params={"machine": "b"}), "lies in the folder of runner"),
    "no columns": (a_result_file(GOOD, result_columns=None), "has no result_columns"),
    "results no object": (a_result_file([1]), "has no commit_hash with results"),  # type: ignore[arg-type]
    "commit is a path": (a_result_file(GOOD, commit_hash="../../etc/passwd"), "expected hexadecimal digits"),
    "half a surrogate": ('{"commit_hash": "\\ud83d"}', "is not readable JSON"),
    "zero character": (a_result_file({"suite.time_\x00": a_row([1.0])}), "it holds a zero character"),
    "not text": ("\x00\x01\x02", "is not readable JSON"),
}


@pytest.mark.parametrize("broken", list(BROKEN_FILES))
def test_a_broken_file_is_left_out_with_its_name_and_reason(folder: AsvFolder, broken: str) -> None:
    content, reason = BROKEN_FILES[broken]
    folder.write("runner/broken.json", content)

    read_values, [warning] = values(folder)

    assert read_values == [1.5]
    assert warning.startswith("Left out: runner/broken.json ")
    assert reason in warning


BROKEN_ROWS = {
    "row is no list": ({"result": [1.0]}, "malformed"),
    "result is no list": ([7.0], "malformed"),
    "params is no list": ([[1.0], {"n": 1}], "malformed"),
    "axis is no list": ([[1.0], [3]], "malformed"),
    "more results than cells": (a_row([1.0, 2.0], [["1"]]), "span 1 cells, but it has 2 results"),
    "fewer results than cells": (a_row([1.0], [["1", "2"]]), "span 2 cells, but it has 1 results"),
    "a grid without end": (
        a_row(None, [[str(number) for number in range(100)]] * 9),
        "span 1000000000000000000 cells",
    ),
    "a string": (a_row(["fast"]), "a value of type str is not a number"),
    "a list": (a_row([[1.0]]), "a value of type list is not a number"),
    "an object": (a_row([{"p50": 1.0}]), "a value of type dict is not a number"),
    "a truth": (a_row([True]), "a value of type bool is not a number"),
    "an integer beyond float": (a_row([10**400]), "a value of type int is not a number"),
}


@pytest.mark.parametrize("broken", list(BROKEN_ROWS))
def test_a_broken_benchmark_is_left_out_and_the_others_are_read(folder: AsvFolder, broken: str) -> None:
    row, reason = BROKEN_ROWS[broken]
    folder.result({"suite.time_broken": row, **GOOD})

    read_values, [warning] = values(folder)

    assert read_values == [1.5]
    assert warning.startswith("suite.time_broken: ")
    assert reason in warning


ODD_BUT_HARMLESS = {
    "started_at": [[1.0], [], "v1", 10**30],
    "date": None,
    "version is a number": [[1.0], [], 7],
    "samples are no list": a_row([1.0], samples="none"),
    "samples of cells are no list": a_row([1.0], samples=[5]),
    "statistics are text": a_row([1.0], ci_99_a="low", number=["four"]),
    "a count below one": a_row([1.0], number=[-3], repeat=[0]),
    "a count beyond 64 bits": a_row([1.0], number=[2**63]),
    "empty samples": a_row([1.0], samples=[[]]),
}


@pytest.mark.parametrize("odd", list(ODD_BUT_HARMLESS))
def test_a_broken_description_does_not_lose_the_value(tmp_path: Path, store: Store, odd: str) -> None:
    folder = AsvFolder(tmp_path / "results")
    folder.result(
        {"suite.time_it": ODD_BUT_HARMLESS[odd] or a_row([1.0])}, date=10**40 if odd == "date" else 1
    )

    report = import_file_or_folder(store, folder.path, "asv", PROJECT)

    assert (report.values, report.samples, report.warnings) == (1, 0, ())


def test_samples_that_are_no_numbers_are_left_out(folder: AsvFolder) -> None:
    folder.result({"suite.time_it": a_row([1.0], samples=[[1.0, float("nan"), "2", None, True, 3]])})
    warnings: list[str] = []

    [run] = read_runs(folder.path, "asv", PROJECT, warnings.append)

    assert run.results[0].processes[0].samples == (1.0, 3.0)
    assert warnings == ["suite.time_it: non-finite samples were skipped"]


@pytest.mark.parametrize("name", ["benchmarks.json", "runner/machine.json"])
@pytest.mark.parametrize("content", ["{", "[]", '{"suite.time_it": 7, "machine": ["runner"]}'])
def test_files_that_only_describe_may_be_broken(folder: AsvFolder, name: str, content: str) -> None:
    folder.write(name, content)

    read_values, _ = values(folder)

    assert read_values == [1.5]


def test_equal_warnings_are_reported_once_with_their_count(folder: AsvFolder, store: Store) -> None:
    for number in (1, 2, 3):
        folder.result({"suite.track_dict": a_row([{"p50": 1.0}])}, number)

    report = import_file_or_folder(store, folder.path, "asv", PROJECT)

    assert report.warnings == (
        "suite.track_dict: a value of type dict is not a number that perfci can compare (3 times)",
    )


def an_archive(path: Path, members: dict[str, bytes], mode: Any = "w:xz") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, body in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return path


def a_body(number: int = 1) -> bytes:
    return json.dumps(a_result_file(GOOD, number)).encode()


@pytest.mark.parametrize("name", ["../../escaped.json", "/tmp/perfci-escaped.json", "a/../../escaped.json"])
def test_no_name_in_an_archive_leads_out_of_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "within" / "another").mkdir(parents=True)
    archive = an_archive(tmp_path / "within" / "another" / "evil.tar", {name: a_body()})

    [run] = read_runs(archive, "asv", PROJECT)

    assert run.commit.sha == a_sha(1)
    assert list(tmp_path.rglob("*escaped*")) == []
    assert not Path("/tmp/perfci-escaped.json").exists()


def test_links_in_an_archive_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_bytes(a_body(2))
    archive = tmp_path / "links.tar"
    with tarfile.open(archive, "w") as tar:
        for name, kind in (("a/symlink.json", tarfile.SYMTYPE), ("a/hardlink.json", tarfile.LNKTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, str(secret)
            tar.addfile(link)

    with pytest.raises(PerfciError, match="holds no asv result file"):
        list(read_runs(archive, "asv", PROJECT))


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2", "w"])
@pytest.mark.parametrize("keep", [0.2, 0.6])
def test_a_truncated_archive_is_refused_whole(tmp_path: Path, store: Store, mode: str, keep: float) -> None:
    noise = {
        f"results/runner/{number}.json": json.dumps(a_result_file(GOOD, number)).encode()
        for number in range(40)
    }
    archive = an_archive(tmp_path / "results.tar", noise, mode)
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * keep)])

    with pytest.raises(PerfciError, match=r"results\.tar is truncated"):
        import_file_or_folder(store, archive, "asv", PROJECT)

    assert nothing_in(store)


def test_an_archive_that_unpacks_without_end_is_refused(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_files, "MAX_ARCHIVE_BYTES", 3 * bounded_files.MIB)
    archive = an_archive(tmp_path / "bomb.tar.xz", {"results/runner/a.txt": bytes(8 * bounded_files.MIB)})

    with pytest.raises(PerfciError, match=r"The archive .*bomb\.tar\.xz unpacks to more than 3 MiB"):
        import_file_or_folder(store, archive, "auto", PROJECT)

    assert nothing_in(store)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_a_document_that_unpacks_without_end_is_refused(tmp_path: Path, pack: Any) -> None:
    bomb = tmp_path / "run.json.gz"
    bomb.write_bytes(pack(b" " * (run_document.MAX_BYTES + 1)))

    with pytest.raises(PerfciError, match=r"run\.json\.gz is too large: the limit is 64 MiB"):
        run_document.read_run(bomb)


def test_an_error_half_way_leaves_nothing_behind(
    folder: AsvFolder, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        folder.result(GOOD, number)

    monkeypatch.setattr("perfci.service.uploads.import_files.save_benchmark_descriptions", out_of_order)

    with pytest.raises(PerfciError, match="the disk came loose"):
        import_file_or_folder(store, folder.path, "asv", PROJECT)

    assert nothing_in(store)


def out_of_order(*_: object) -> None:
    raise PerfciError("the disk came loose")


def nothing_in(store: Store) -> bool:
    with store.read() as tx:
        return project_counts.load_projects_with_counts(tx) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "There is no file or folder"),
        ("", "holds no results in a format that perfci reads: expected one of asv, perfci"),
        ("hello", "holds no results in a format that perfci reads"),
        ('{"a": 1}', "holds no results in a format that perfci reads"),
    ],
)
def test_a_file_without_results_is_not_recognised(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "thing"
    if content is not None:
        path.write_text(content)

    with pytest.raises(PerfciError, match=says):
        detect_format(path)


def test_a_format_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(PerfciError, match="no format magic: expected auto or one of asv, perfci"):
        list(read_runs(tmp_path, "magic", PROJECT))


def test_a_folder_without_results_is_not_recognised(tmp_path: Path) -> None:
    with pytest.raises(PerfciError, match="holds no results in a format that perfci reads"):
        detect_format(tmp_path)


def ingest_document(store: Store, tmp_path: Path, run: Run) -> IngestReport:
    path = tmp_path / "run.json"
    path.write_text(run_document.dump_run(run))
    return import_file_or_folder(store, path, "auto", PROJECT)


def test_a_document_arrives_once(tmp_path: Path, store: Store) -> None:
    first, second = (ingest_document(store, tmp_path, a_run(a_result())) for _ in range(2))

    assert (first.runs_new, first.values, first.samples) == (1, 1, 1)
    assert (second.runs_new, second.runs_known) == (0, 1)


def test_a_changed_document_is_refused_and_the_first_one_kept(tmp_path: Path, store: Store) -> None:
    ingest_document(store, tmp_path, a_run(a_result()))

    with pytest.raises(PerfciError, match="stored already with other content"):
        ingest_document(store, tmp_path, a_run())

    with store.read() as tx:
        assert measured_samples.load_run(tx, 1) == a_run(a_result())


def test_a_document_of_another_project_is_refused(tmp_path: Path, store: Store) -> None:
    with pytest.raises(PerfciError, match="acme/other, not of acme/model: give --project acme/other"):
        ingest_document(store, tmp_path, a_run(project="acme/other"))

    assert nothing_in(store)
