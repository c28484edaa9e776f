"""Every format is read, read again, sent to a server, exported, read back and compared."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from perfci.formats.format_registry import READER_MODULES
from perfci.service.export_history import export_history
from perfci.store import Store
from tests.support.switchable_connection import SwitchableConnection

sys.path.append(str(Path(__file__).parents[1] / "formats"))
from format_matrix import CASES, PAIRS, FormatCase

SERVER = "http://localhost:8787"
PROJECT = "acme/model"
SHA = "0123456789abcdef0123456789abcdef01234567"
CASES_BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FormatCase:
    monkeypatch.setenv("PERFCI_PROJECT", PROJECT)
    format_case: FormatCase = request.param
    return format_case


@pytest.fixture
def files(working_folder: Path, case: FormatCase) -> list[str]:
    """The two files of a format, under one name, since that is a parameter for some."""
    paths = []
    for folder, content in zip(("base", "head"), case.read_files(), strict=True):
        (working_folder / folder).mkdir()
        path = working_folder / folder / case.first
        path.write_bytes(content)
        paths.append(str(path.relative_to(working_folder)))
    return paths


def options_for(case: FormatCase, machine: str = "box") -> list[str]:
    by_option = [] if case.names_commit else ["--commit", SHA]
    return by_option if case.machine else [*by_option, "--machine", machine]


def ingest(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, int]:
    capsys.readouterr()
    assert run_cli(["ingest", *arguments, "--json", "report.json"]) == 0, capsys.readouterr().err
    reports: list[dict[str, int]] = json.loads(Path("report.json").read_text())
    return reports[0]


def documents(exported: str) -> list[str]:
    """The documents of an export, in one order."""
    return sorted(exported.splitlines())


def export(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert run_cli(["export", *options]) == 0
    return capsys.readouterr().out


def test_every_format_is_tried() -> None:
    assert CASES_BY_NAME.keys() == READER_MODULES.keys() - {"perfci"}


def test_a_file_is_read_once_and_a_second_one_beside_it(
    case: FormatCase, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = options_for(case)
    if not case.names_commit:
        assert run_cli(["ingest", files[0], "--machine", "box"]) == 2
        assert "give --commit SHA" in capsys.readouterr().err

    first = ingest(capsys, files[0], *options)
    again = ingest(capsys, files[0], *options)
    second = ingest(capsys, files[1], *options)

    assert first["runs_new"] == second["runs_new"] == again["runs_known"] == 1
    assert first["unresolved"] == case.kept_back
    assert (again["runs_new"], again["values"]) == (0, 0)
    read = [json.loads(line) for line in export(capsys, "--format", "perfci").splitlines()]
    assert len({document["commit"]["sha"] for document in read}) == 1
    assert len({document["session"] for document in read}) == (1 if case.name == "asv" else 2)


def test_another_machine_is_another_series(
    case: FormatCase, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ingest(capsys, files[0], *options_for(case))
    if case.name == "asv":
        files[1] = unpack_as_other_machine(files[1])
    elif case.machine:
        other = Path(files[1])
        other.write_bytes(other.read_bytes().replace(case.machine.encode(), other_machine(case).encode()))
    ingest(capsys, files[1], *options_for(case, "other"))

    read = [json.loads(line) for line in export(capsys, "--format", "perfci").splitlines()]
    assert len({json.dumps(document["machine"]) for document in read}) == 2


def unpack_as_other_machine(archive: str) -> str:
    """Unpack results of asv, whose machine is also the name of a folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(filter="data")
    folder = Path("results/box").rename("results/other")
    for file in folder.iterdir():
        file.write_text(file.read_text().replace('"box"', '"other"'))
    return "results"


def other_machine(case: FormatCase) -> str:
    return case.machine.replace("2", "3") if "num_cpus" in case.machine else case.machine + "x"


def test_a_server_holds_the_same_and_gives_it_back(
    case: FormatCase,
    files: list[str],
    connection: SwitchableConnection,
    server_store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for file in files:
        ingest(capsys, file, *options_for(case))
    here = documents(export(capsys, "--format", "perfci"))
    for _ in range(2):
        assert run_cli(["upload", *files, *options_for(case), "--server", SERVER]) == 0

    assert ", 2 already stored" in capsys.readouterr().out
    for format_name in ("perfci", "pytorch"):
        exported = b"".join(export_history(server_store, PROJECT, format_name, lambda _: None))
        Path("exported").write_bytes(exported)
        ingest(capsys, "exported", "--db", f"{format_name}.db")
        reread = export(capsys, "--format", "perfci", "--db", f"{format_name}.db")
        assert documents(reread) == here


def test_two_files_are_compared(
    case: FormatCase, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["compare", "--files", *files, "--json", "verdicts.json"])

    assert code in (0, 1), capsys.readouterr().err
    verdicts: list[dict[str, Any]] = json.loads(Path("verdicts.json").read_text())["verdicts"]
    kinds = {verdict["kind"] for verdict in verdicts}
    assert bool(kinds - {"not_comparable"}) == (case.compared == PAIRS)
