"""``perfci explain`` with real processes, a real repository and a real database."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

THING = """
    import torch

    def prepare(x):
        return x * 2.0

    def work(x):
        y = prepare(x)
        y = y @ y
        return y.sum()
"""

SLOWER = THING.replace(
    "        return y.sum()\n", "        y = y.sort(-1).values.sort(0).values\n        return y.sum()\n"
)

SUITE = """
    import torch
    import thing

    X = torch.randn(220, 220)

    def time_work():
        thing.work(X)

    def track_rows():
        return 220
    track_rows.clock = "exact"
"""


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> tuple[GitProject, str, str, dict[str, object]]:
    """A repository whose last commit sorts, after it was explained once."""
    folder = tmp_path_factory.mktemp("explain")
    project = GitProject(folder)
    base = project.commit("Start", thing=THING, benchmarks__suite=SUITE)
    head = project.commit("Sort", thing=SLOWER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        file = folder / "answer.json"
        assert run_cli(["explain", base, head, "--bench", "time_work", "--json", str(file)]) == 0
        return project, base, head, json.loads(file.read_text())


def test_names_the_line_the_operator_and_the_share(
    explained: tuple[GitProject, str, str, dict[str, object]],
) -> None:
    _, base, head, answer = explained

    cause = answer["causes"][0]  # type: ignore[index]
    assert (answer["base"], answer["head"], answer["benchmark"]) == (base, head, "suite.time_work")
    assert answer["conclusion"] == "explained"
    assert (cause["line"]["path"], cause["line"]["number"]) == ("thing.py", 10)
    assert (cause["kind"], cause["operator"]) == ("changed code", "aten::sort")
    assert cause["share"] > 0.7
    assert str(answer["sentence"]).startswith("thing.py:10 y = y.sort(-1).values.sort(0).values takes ")


def test_profiles_are_stored_and_used_again(
    explained: tuple[GitProject, str, str, dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project, base, head, answer = explained
    monkeypatch.chdir(project.folder)

    assert run_cli(["explain", base, head, "--bench", "time_work"]) == 0
    again = capsys.readouterr()
    assert run_cli(["explain", base, head, "--stored"]) == 0
    stored = capsys.readouterr()

    assert "profiling" not in again.err
    assert str(answer["sentence"]) in again.out
    assert str(answer["sentence"]) in stored.out
    assert "line " in stored.out
    assert "operator " in stored.out


def test_two_processes_of_each_commit_are_kept_with_their_files(
    explained: tuple[GitProject, str, str, dict[str, object]],
) -> None:
    project, base, head, _ = explained

    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        shas = [row[0] for row in database.execute("select sha from profiles order by id")]
        kinds = {row[0] for row in database.execute("select distinct kind from profile_parts")}
        judged = database.execute("select count(*) from processes").fetchone()

    assert shas == [base, head, head, base]
    assert {"phase", "line", "operator"} <= kinds
    assert judged == (0,)


def test_prune_takes_old_files_and_leaves_the_explanation(
    explained: tuple[GitProject, str, str, dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = explained[0]
    monkeypatch.chdir(project.folder)
    copy = tmp_path / "copy.db"
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        database.execute("vacuum into ?", (str(copy),))
    with sqlite3.connect(copy) as database:
        database.execute("update profiles set created_at = 0")

    assert run_cli(["db", "prune", "--raw-older-than", "90d", "--db", f"sqlite:///{copy}"]) == 0
    assert "12 files of profiles deleted" in capsys.readouterr().out

    with sqlite3.connect(copy) as database:
        assert database.execute("select count(*) from artifacts").fetchone() == (0,)
        assert database.execute("select count(*) from explanations").fetchone() > (0,)
        assert database.execute("select count(*) from profile_parts").fetchone() > (0,)


def test_an_innocent_commit_gets_no_line(
    explained: tuple[GitProject, str, str, dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The base against itself: the profile shows no slowdown, or a machine that was slower."""
    project, base, _, _ = explained
    monkeypatch.chdir(project.folder)

    run_cli(["explain", base, base, "--stored", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert answer["causes"] == []
    assert answer["conclusion"] in ("not shown", "machine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1"], "There is no incident 1; `perfci incidents list` has their numbers"),
        (["HEAD~1", "HEAD", "HEAD"], "takes the number of an incident, or BASE and HEAD; 3 words were given"),
        (["HEAD~1", "HEAD"], "--bench matches 2 cells, one was expected: suite.time_work, suite.track_rows"),
        (["HEAD~1", "HEAD", "--stored", "--bench", "none"], "these match --bench 'none': none"),
    ],
)
def test_refuses_what_it_cannot_explain(
    explained: tuple[GitProject, str, str, dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(explained[0].folder)

    assert run_cli(["explain", *arguments]) == 2
    assert message in capsys.readouterr().err
