"""Bad input gives one sentence and exit code 2, and nothing is written."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

SUITE = "def track_one(): return 1\n"


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit("First", thing="A = 1\n", benchmarks__suite=SUITE)
    return project


WRONG = {
    "run nowhere": "there is no commit 'nowhere' in {folder}; give a branch, a tag or a sha that `git log` "
    "knows",
    "run -- --output=x": "'--output=x' is no revision: a commit, branch or tag was expected, not an option",
    "run HEAD..HEAD": "the range HEAD..HEAD holds no commit: HEAD already contains HEAD",
    "run --bench zzz": "no benchmark matches --bench 'zzz'; the suite has suite.track_one",
    "run --bench (": "--bench '(' is no regular expression: missing ), unterminated subpattern at position 0",
    "run --suite gone": "there is no suite folder gone; make one with `perfci init`, or name yours with "
    "--suite",
    "compare --files a.json b.json --results out": "--results is for what is measured: it does not go "
    "with --files",
    "compare HEAD --budget soon": "--budget 'soon': a number with a unit was expected, such as 90s, 20m "
    "or 1h",
    "run --config gone.toml": "there is no configuration file gone.toml",
    "run --project api": "'api' cannot be a project's name: the addresses of a server below /api have "
    "another meaning; set another with --project or [project] name",
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.items())
def test_explains_invalid_options(
    project: GitProject, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    code = run_cli(arguments.split())

    captured = capsys.readouterr()
    assert (code, captured.err.strip()) == (2, "perfci: " + sentence.format(folder=project.folder))
    assert captured.out == ""
    assert not (project.folder / ".perfci" / "perfci.db").exists()


def test_says_when_there_is_no_repository(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run"]) == 2
    assert capsys.readouterr().err.startswith(f"perfci: {working_folder} is not inside a git repository;")
    assert list(working_folder.iterdir()) == []


def test_names_the_last_line_when_the_suite_does_not_import(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit("Broken", benchmarks__suite="import nowhere_to_be_found\n")

    assert run_cli(["run"]) == 2
    assert capsys.readouterr().err == (
        "perfci: the suite does not import: benchmarks.suite: "
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'\n"
    )
    assert not (working_folder / ".perfci" / "perfci.db").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[run]\nround = 3\n", "unknown key 'run.round'; did you mean 'rounds'?"),
        ("[runs]\n", "unknown key 'runs'; did you mean 'run'?"),
        ("[judge]\nbar = 7\n", "judge.bar: Input should be less than 1, found 7"),
        ("[run\n", "is not a readable TOML file"),
    ],
)
def test_rejects_an_invalid_configuration(
    project: GitProject, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    project.write("perfci.toml", text)

    assert run_cli(["run"]) == 2
    assert sentence in capsys.readouterr().err


def test_a_traceback_is_shown_only_on_request(project: GitProject) -> None:
    from perfci.model import PerfciError

    with pytest.raises(PerfciError):
        run_cli(["run", "nowhere", "--debug"])
    with pytest.raises(PerfciError):
        run_cli(["--debug", "run", "nowhere"])


def test_accepts_global_options_before_and_after_the_verb(
    project: GitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["--db", str(tmp_path / "before.db"), "run", "--rounds", "1"]) == 0
    assert run_cli(["run", "--rounds", "1", "--db", str(tmp_path / "after.db")]) == 0

    assert (tmp_path / "before.db").exists()
    assert (tmp_path / "after.db").exists()


@pytest.mark.parametrize("damage", ["garbage", "directory"])
def test_rejects_a_file_that_is_no_database(
    project: GitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path = tmp_path / "broken.db"
    path.mkdir() if damage == "directory" else path.write_bytes(
        b"this is no database, whatever its name says" * 100
    )

    assert run_cli(["run", "--db", str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    from perfci.cli import VERB_HELP

    assert run_cli(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {verb} " in out for verb in VERB_HELP)


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    from perfci.cli import VERB_HELP

    for verb in VERB_HELP:
        assert run_cli([verb, "--help"]) == 0
        assert "--db URL" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["judge", "detect"])
@pytest.mark.parametrize("text", ["[" * 100_000, "{", '{"max_pairs": 0, "cases": [1]}', "[]", "\x00"])
def test_the_filters_refuse_a_broken_document_in_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, text: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))

    assert run_cli([verb, "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("perfci: ")
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_a_number_of_ten_thousand_digits_fails_its_case_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = '{"base": [[1.0], [1.0]], "head": [[1.0], [1.0]]}'
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{{"cases": [{{"base": [[{"9" * 10_000}]]}}, {good}]}}'))

    assert run_cli(["judge", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["results"]
    assert ("error" in first, second["verdict"]) == (True, "unchanged")
