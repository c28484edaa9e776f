"""``perfci ingest`` and ``perfci export`` with other tools' formats."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli


@pytest.fixture
def custom(working_folder: Path) -> Path:
    path = working_folder / "custom.json"
    path.write_text(
        json.dumps(
            [{"name": "encode", "unit": "ms", "value": 12.5}, {"name": "cpu", "unit": "x", "value": 1}]
        )
    )
    return path


SHA = "0123456789abcdef0123456789abcdef01234567"


def test_requires_a_commit_for_a_file_that_names_none(
    custom: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["ingest", "custom.json"]) == 2
    assert capsys.readouterr().err == (
        "perfci: custom.json does not say which commit it measured: give --commit SHA, or ingest it "
        "inside the "
        "repository.\n"
    )


def test_options_supply_what_a_file_lacks(custom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--commit", SHA, "--machine", "box", "--project", "it", "--metric", "cpu=ratio:higher"]

    assert run_cli(["ingest", "custom.json", *options]) == 0

    output = capsys.readouterr()
    assert output.err == "  generic does not say which commit it measured: assumed to be 0123456789\n"
    assert run_cli(["export", "--project", "it", "--format", "perfci"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(result["benchmark"], result["unit"], result["direction"]) for result in document["results"]] == [
        ("encode", "seconds", "lower"),
        ("cpu", "ratio", "higher"),
    ]


def test_stores_a_value_of_unknown_unit_as_unresolved(
    custom: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["ingest", "custom.json", "--commit", SHA, "--machine", "box", "--json"]) == 0

    output = capsys.readouterr()
    assert (
        "  value has an unresolved unit: the direction (lower or higher is better) of cpu in x is unknown; "
        "it is judged once you say what it means: --metric 'cpu=x:lower' (or :higher)\n" in output.err
    )
    assert json.loads(output.out)[0]["unresolved"] == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ["--commit", "main"],
            "--commit main: expected a full sha, or a revision of the repository here",
        ),
        (["--metric", "cpu"], "--metric cpu: expected NAME=UNIT:lower or NAME=UNIT:higher"),
    ],
)
def test_explains_an_invalid_option(
    custom: Path, capsys: pytest.CaptureFixture[str], option: list[str], message: str
) -> None:
    assert run_cli(["ingest", "custom.json", *option]) == 2
    assert message in capsys.readouterr().err


def git(*command: str) -> str:
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    return subprocess.run(
        ["git", *author, *command], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_uses_the_head_of_the_repository_by_default(custom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "First")
    git("commit", "-q", "--allow-empty", "-m", "Second")

    assert run_cli(["ingest", "custom.json", "--machine", "box", "--project", "it"]) == 0

    capsys.readouterr()
    run_cli(["export", "--project", "it", "--format", "perfci"])
    commit = json.loads(capsys.readouterr().out)["commit"]
    assert (commit["sha"], commit["subject"], commit["position"]) == (git("rev-parse", "HEAD"), "Second", 2)


def test_warns_about_what_a_format_cannot_express(custom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["ingest", "custom.json", "--commit", SHA, "--machine", "box", "--project", "it"])
    capsys.readouterr()

    assert run_cli(["export", "--project", "it", "--format", "asv"]) == 0

    assert capsys.readouterr().err == "  asv knows machines by name, one for each class of hardware\n"


def test_allows_samples_for_csv_only(custom: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["ingest", "custom.json", "--commit", SHA, "--machine", "box", "--project", "it"])

    assert run_cli(["export", "--project", "it", "--format", "asv", "--samples"]) == 2
    assert "--samples is for CSV: asv holds raw samples anyway" in capsys.readouterr().err


def sources(working_folder: Path) -> list[str]:
    """Return the sources of the stored sessions."""
    with closing(sqlite3.connect(working_folder / ".perfci" / "perfci.db")) as store:
        return [source for (source,) in store.execute("SELECT source FROM sessions")]


def test_records_an_order_by_date(working_folder: Path, custom: Path) -> None:
    run_cli(["ingest", "custom.json", "--commit", SHA, "--machine", "box", "--project", "it"])

    assert sources(working_folder) == ["commits ordered by date: no git repository was available"]


def test_completes_a_short_sha_from_the_repository(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "First")
    (working_folder / "table.csv").write_text(
        f"benchmark,unit,value,commit\nencode,s,1,{git('rev-parse', '--short=8', 'HEAD')}\n"
    )

    run_cli(["ingest", "table.csv", "--machine", "box", "--project", "it"])
    capsys.readouterr()
    run_cli(["export", "--project", "it", "--format", "perfci"])

    commit = json.loads(capsys.readouterr().out)["commit"]
    assert (commit["sha"], commit["subject"], commit["position"]) == (git("rev-parse", "HEAD"), "First", 1)
    assert sources(working_folder) == [""]


def hyperfine(path: Path, *seconds: float) -> str:
    entry = {
        "command": "train",
        "times": seconds,
        "exit_codes": [0] * len(seconds),
        "user": 1.0,
        "system": 0.0,
    }
    path.write_text(json.dumps({"results": [entry]}))
    return str(path)


def test_stores_the_level_of_imported_results(working_folder: Path) -> None:
    run_cli(
        ["ingest", hyperfine(working_folder / "it.json", 3.0, 1.0, 2.0), "--commit", SHA, "--machine", "box"]
    )

    with closing(sqlite3.connect(working_folder / ".perfci" / "perfci.db")) as database:
        levels = database.execute(
            "select r.level from results r join processes p on p.result_id = r.id"
        ).fetchall()
    assert levels[0] == (2.0,)


def test_compares_two_files_that_name_no_commit(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = [0.001 * (n % 5) for n in range(20)]
    base = hyperfine(working_folder / "base.json", *(1 + offset for offset in noise))
    head = hyperfine(working_folder / "head.json", *(1.3 + offset for offset in noise))

    assert run_cli(["compare", "--files", base, head, "--json", "verdicts.json"]) == 1

    [verdict] = json.loads((working_folder / "verdicts.json").read_text())["verdicts"]
    assert (verdict["kind"], verdict["series"]["metric"]["name"]) == ("regression", "time")


SCORES = [
    {"name": "cpu load", "unit": "%", "value": 40},
    {"name": "queue score", "unit": "points", "value": 7},
    {"name": "gpu util", "unit": "%", "value": 88},
]


def exported_values(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str, float]]:
    capsys.readouterr()
    assert run_cli(["export", "--format", "perfci"]) == 0
    return [
        (result["benchmark"], result["unit"], result["direction"], result["summary"]["value"])
        for line in capsys.readouterr().out.splitlines()
        for result in json.loads(line).get("results", ())
    ]


def test_a_meaning_belongs_to_one_benchmark_and_unit(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_folder / "scores.json").write_text(json.dumps(SCORES))
    ingest = ["ingest", "scores.json", "--commit", SHA, "--machine", "box", "--metric"]

    assert run_cli([*ingest, "value=percent:lower"]) == 0
    assert exported_values(capsys) == []
    assert run_cli([*ingest, "queue score=percent:lower"]) == 2
    assert capsys.readouterr().err == (
        "perfci: --metric queue score=percent:lower: queue score is given in points, so "
        "queue score=points:lower was expected\n"
    )
    # Read again, the file adds nothing but what is known now.
    assert run_cli([*ingest, "cpu load=percent:lower"]) == 0
    assert "0 new runs, 1 already stored, 1 value," in capsys.readouterr().out
    assert run_cli([*ingest, "gpu util=%:higher", "--json", "report.json"]) == 0
    report = json.loads((working_folder / "report.json").read_text())[0]
    assert (report["unresolved"], report["resolved"]) == (1, 1)
    (working_folder / "later.json").write_text(json.dumps([entry | {"value": 50} for entry in SCORES]))
    assert run_cli(["ingest", "later.json", "--commit", SHA, "--machine", "box"]) == 0
    assert sorted(exported_values(capsys)) == [
        ("cpu load", "ratio", "lower", 0.4),
        ("cpu load", "ratio", "lower", 0.5),
        ("gpu util", "ratio", "higher", 0.5),
        ("gpu util", "ratio", "higher", 0.88),
    ]


def test_waiting_results_are_listed_and_resolved(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_folder / "scores.json").write_text(json.dumps(SCORES[:2]))
    run_cli(["ingest", "scores.json", "--commit", SHA, "--machine", "box"])
    capsys.readouterr()

    assert run_cli(["unresolved", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cpu load: the direction (lower or higher is better) of cpu load in % is unknown; "
        "--metric 'cpu load=%:lower' (or :higher)",
        "queue score: the direction (lower or higher is better) of queue score in points is unknown; "
        "--metric 'queue score=points:lower' (or :higher)",
    ]
    assert run_cli(["unresolved", "resolve", "queue score=points:higher"]) == 0
    assert capsys.readouterr().out == "1 result resolved\n"
    assert run_cli(["unresolved", "resolve", "queue score=points:higher"]) == 2
    assert "nothing of here waits under queue score" in capsys.readouterr().err
    assert exported_values(capsys) == [("queue score", "points", "higher", 7.0)]


def pytest_benchmark(path: Path, sha: str, *seconds: float) -> str:
    stats = {"data": seconds, "median": seconds[0], "iterations": 1, "rounds": len(seconds)}
    content = {
        "machine_info": {"cpu": {"brand_raw": "CPU", "count": 2}, "python_version": "3.11.7"},
        "commit_info": {"id": sha},
        "benchmarks": [{"fullname": "test_it.py::test_it", "stats": stats}],
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_files_of_one_commit_are_its_processes(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, sides = [], {"base": 1.0, "head": 1.3}
    for side in sides:
        (working_folder / side).mkdir()
    for number in range(8):
        pair = [
            pytest_benchmark(
                working_folder / side / f"{number}.json", sha * 40, level + 0.001 * (number % 5), level
            )
            for sha, (side, level) in zip("ab", sides.items(), strict=True)
        ]
        options += ["--files", *pair]

    assert run_cli(["compare", *options]) == 1
    of_files = capsys.readouterr().out
    assert run_cli(["compare", "--files", "base", "head"]) == 1
    of_folders = capsys.readouterr().out

    assert "regression" in of_files
    assert of_files.splitlines()[2:] == of_folders.splitlines()[2:]
    twice = ["--files", "base/0.json", "head/0.json"]
    assert run_cli(["compare", *twice * 8]) == 0  # a file given again is no process more
    assert run_cli(["compare", "--files", ".", "head"]) == 2
    assert "holds runs of 2 commits, among them aaaaaaaaaa and bbbbbbbbbb" in capsys.readouterr().err
