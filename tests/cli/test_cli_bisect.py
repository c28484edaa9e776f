"""``perfci bisect`` with real processes, a real repository and a real database."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

SUITE = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"

    def track_other():
        return 7
    track_other.clock = "exact"
"""

CULPRIT = 6


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    """Ten commits: number 6 needs a fifth more, number 3 does not import."""
    project = GitProject(working_folder)
    for number in range(10):
        text = f"BYTES = {1200 if number >= CULPRIT else 1000}\n"
        project.commit(f"Commit {number}", thing="!" if number == 3 else text, benchmarks__suite=SUITE)
    return project


def sha(project: GitProject, revision: str) -> str:
    return project.git("rev-parse", revision)


def test_names_the_commit_and_says_what_that_cost(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["bisect", "HEAD~9..HEAD", "--bench", "track_bytes"])

    output = capsys.readouterr()
    base, culprit = sha(project, "HEAD~9"), sha(project, "HEAD~3")
    lines = output.out.splitlines()
    assert code == 0
    assert lines[0] == f'suite.track_bytes peak: 9 commits after {base[:10]} "Commit 0"'
    named = rf'{culprit[:10]} "Commit 6" by Ada moved it by \+20\.0 % \[\+\d+\.\d, \+\d+\.\d\]'
    assert re.fullmatch(rf"{named}, more than 99 % certain\.", lines[1]), lines[1]
    assert re.fullmatch(r"\d+ processes of [3-7] commits, \d+ s of machine time", lines[2])
    assert output.err.splitlines()[0].endswith("of machine time: the ends of the range are compared")


def test_its_processes_are_of_no_history(project: GitProject) -> None:
    run_cli(["bisect", "HEAD~4..HEAD", "--bench", "track_bytes"])

    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        assert database.execute("select distinct kind from sessions").fetchall() == [("bisect",)]
        assert database.execute("select count(*) from change_points").fetchall() == [(0,)]


def test_an_interrupted_search_goes_on(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bisect", "HEAD~9..HEAD", "--bench", "track_bytes", "--json"]

    assert run_cli([*command, "--budget", "1s"]) == 3
    first = json.loads(capsys.readouterr().out)[0]
    assert run_cli(command) == 0
    second = json.loads(capsys.readouterr().out)[0]

    assert (first["outcome"], first["commit"]) == (None, None)
    assert first["session"] == second["session"]
    assert second["processes"] > first["processes"]
    assert (second["outcome"], second["commit"]) == ("named", sha(project, "HEAD~3"))
    assert second["candidates"][0]["commit"] == second["commit"]


def test_a_commit_that_cannot_be_measured_widens_the_range(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commit after the broken one may be innocent."""
    broken = sha(project, "HEAD~6")
    code = run_cli(["bisect", "HEAD~8..HEAD~5", "--bench", "track_bytes"])

    assert code == 1
    assert "The ends of the range do not differ clearly: 0.00 %" in capsys.readouterr().out
    project.commit("Less", thing="BYTES = 900\n")
    project.commit("Break it", thing="!")
    project.commit("Mend it", thing="BYTES = 1300\n")
    assert run_cli(["bisect", "HEAD~2..HEAD", "--bench", "track_bytes"]) == 1
    after, last, gap = sha(project, "HEAD~2"), sha(project, "HEAD"), sha(project, "HEAD~1")
    text = capsys.readouterr().out
    assert f'certain: between {after[:10]} "Less" and {last[:10]} "Mend it".\n' in text.replace(
        "more than 99 % certain", "certain"
    )
    assert f"{gap[:10]} could not be measured: " in text
    assert broken[:10] not in text


def test_enters_the_merge_that_did_it(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.git("checkout", "--quiet", "-b", "topic", "HEAD~2")
    for number, size in enumerate((1200, 1500, 1500)):
        project.commit(f"Topic {number}", thing=f"BYTES = {size}\n")
    culprit = sha(project, "HEAD~1")
    project.git("checkout", "--quiet", "main")
    project.git("merge", "--quiet", "--no-ff", "-m", "Merge topic", "topic")
    merge = sha(project, "HEAD")

    assert run_cli(["bisect", "HEAD~3..HEAD", "--bench", "track_bytes", "--enter-merges", "--json"]) == 0

    outer, inner = json.loads(capsys.readouterr().out)
    assert (outer["commit"], inner["commit"]) == (merge, culprit)


def test_searches_an_incident(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["run", "HEAD~9..HEAD", "--rounds", "2", "--bench", "track_bytes"])
    capsys.readouterr()

    assert run_cli(["bisect", "--incident", "1", "--json"]) == 0

    (search,) = json.loads(capsys.readouterr().out)
    assert (search["benchmark"], search["metric"]) == ("suite.track_bytes", "peak")
    assert (search["outcome"], search["commit"]) == ("named", sha(project, "HEAD~3"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["HEAD", "--bench", "bytes"],
            "'HEAD': GOOD..BAD was expected, the last good commit and a bad one after it",
        ),
        (["HEAD~1..HEAD"], "--bench matches 2 cells, one was expected: suite.track_bytes, suite.track_other"),
        (
            ["HEAD~1..HEAD", "--bench", "bytes", "--metric", "time"],
            "suite.track_bytes has no metric time; it has peak",
        ),
        (
            ["HEAD..HEAD~1", "--bench", "bytes"],
            "the range HEAD..HEAD~1 holds no commit: HEAD already contains HEAD~1",
        ),
    ],
)
def test_refuses_what_it_cannot_search(
    project: GitProject, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run_cli(["bisect", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_last_commit_has_to_be_measurable(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = project.commit("Break it", thing="!")

    assert run_cli(["bisect", "HEAD~2..HEAD", "--bench", "track_bytes"]) == 2
    assert f"commit {broken[:10]}, the last one of the range, cannot be measured: " in capsys.readouterr().err
