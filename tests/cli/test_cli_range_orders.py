"""``perfci order bisect`` and ``perfci order backfill``: ranges that a worker measures."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

SUITE = """
    import thing

    def track_bytes():
        return thing.BYTES
    track_bytes.unit, track_bytes.metric, track_bytes.clock = "bytes", "peak", "exact"
"""
CULPRIT = 6


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    """Ten commits: number 6 needs a fifth more."""
    project = GitProject(working_folder)
    for number in range(10):
        size = 1200 if number >= CULPRIT else 1000
        project.commit(f"Commit {number}", thing=f"BYTES = {size}\n", benchmarks__suite=SUITE)
    return project


def sha(project: GitProject, revision: str) -> str:
    return project.git("rev-parse", revision)


def query(project: GitProject, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(project.folder / ".perfci" / "perfci.db")) as database:
        return database.execute(text).fetchall()


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run_cli(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_bisect_of_an_incident_names_its_culprit(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cli(["run", "HEAD~9..HEAD", "--rounds", "2", "--bench", "track_bytes"])
    base, culprit = sha(project, "HEAD~4"), sha(project, "HEAD~3")

    assert output(capsys, "order", "bisect", "--incident", "1") == "order 1 is placed\n"
    assert output(capsys, "work", "--once") == "1 order carried out\n"

    order = json.loads(output(capsys, "order", "show", "1", "--json"))
    assert (order["kind"], order["metric"], order["state"]) == ("bisect", "peak", "done")
    assert (order["base"], order["result"]["verdict"]) == (base, "named")
    bisect = order["bisect"]
    assert (bisect["commit"], bisect["commits"], bisect["commits_left"]) == (culprit, 1, 1)
    incident = json.loads(output(capsys, "incidents", "show", "1", "--json"))
    assert (incident["state"], incident["culprit_sha"]) == ("culprit_found", culprit)
    assert incident["reason"].startswith(f"Bisect, order 1: {culprit[:10]} moved it by +20.0 % [")
    assert query(project, "select kind, state from sessions where kind = 'bisect'") == [
        ("bisect", "finished")
    ]


def test_a_backfill_measures_what_has_no_results(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cli(["run", "HEAD~4", "--rounds", "1"])

    output(capsys, "order", "backfill", "HEAD~9..HEAD", "--stride", "2", "--max-processes", "20")
    output(capsys, "work", "--once")

    order = json.loads(output(capsys, "order", "show", "1", "--json"))
    assert order["state"] == "done", order["problem"]
    assert order["backfill"] == {
        "commits": 10,
        "commits_with_results": 1,
        "commits_chosen": 4,
        "commits_measured": 4,
        "waves": 1,
        "waves_done": 1,
        "processes": 20,
        "unmeasurable": {},
    }
    rows = query(project, "select sha from commits where id in (select commit_id from runs)")
    measured = {sha for (sha,) in rows}
    assert measured == {sha(project, f"HEAD~{number}") for number in (0, 2, 4, 6, 8)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bisect", "HEAD"], "'HEAD': a range A..B was expected, or --incident NUMBER."),
        (["bisect", "--incident", "1", "--bench", "x"], "--incident says what is measured; leave out"),
        (["bisect", "--incident", "1"], "has no incident 1: perfci incidents list shows them."),
        (["backfill", "--incident", "1", "--stride", "2"], "leave out --stride."),
        (["backfill", "HEAD~1..HEAD", "--engine", "ray"], "and no cluster is named: set ray_address in"),
    ],
)
def test_refuses_what_cannot_be_ordered(
    project: GitProject, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run_cli(["order", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_order_that_cannot_be_carried_out_says_why(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    output(capsys, "order", "bisect", "HEAD~1..HEAD", "--bench", "nothing")
    output(capsys, "order", "backfill", "HEAD~1..HEAD", "--max-processes", "2")
    output(capsys, "work", "--once")

    problems = [problem for (problem,) in query(project, "select problem from measurement_orders")]
    assert problems == [
        "no benchmark matches --bench 'nothing'; the suite has suite.track_bytes",
        "One commit takes 5 processes, and at most 2 were ordered: allow more, or choose fewer benchmarks.",
    ]
